//! Requests to hosts that speak only protocol version 0.

use std::{collections::BTreeSet, num::NonZeroUsize, sync::Arc};

use grip_git::remote::{Advertisement, MAX_WANTS};
use grip_types::Oid;
use lru::LruCache;
use url::Url;

/// Prepared requests, and the objects in all of them; one that is forgotten is prepared again.
const MAX_PREPARED: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();
const MAX_PREPARED_OIDS: usize = 400_000;

/// A fetch from a version 0 host, prepared from its list of refs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct V0Request {
    /// What the host can do; its refs are left out.
    pub(super) advertised: Advertisement,
    pub(super) oids: Vec<Oid>,
    /// Stands for all its refs.
    pub(super) tips: u64,
    /// Everything is asked for, in the hope that it reaches what is wanted.
    pub(super) is_everything: bool,
}

impl V0Request {
    /// The objects to ask a version 0 host for: the wanted objects if its rules allow it, else everything.
    pub(super) fn prepare(
        advertised: &Advertisement,
        wants: &BTreeSet<Oid>,
        untried: &[Oid],
    ) -> Self {
        let tips: BTreeSet<Oid> = advertised.refs.iter().map(|r| r.oid).collect();
        let mut oids: Vec<Oid> = wants.intersection(&tips).copied().collect();
        let mut is_everything = false;
        if oids.len() < wants.len() {
            if advertised.can_serve_any_oid() {
                let others = untried.iter().filter(|oid| !tips.contains(oid));
                oids.extend(others);
            } else {
                is_everything = true;
                oids.extend(advertised.heads_and_tags());
            }
        }
        let mut seen = BTreeSet::new();
        oids.retain(|oid| seen.insert(*oid));
        oids.truncate(MAX_WANTS);
        Self {
            advertised: Advertisement {
                refs: Vec::new(),
                ..advertised.clone()
            },
            oids,
            tips: advertised.digest,
            is_everything,
        }
    }

    /// Says whether it may bring any of `wants`.
    pub(super) fn is_of_use(&self, wants: &BTreeSet<Oid>) -> bool {
        self.is_everything || self.oids.iter().any(|oid| wants.contains(oid))
    }
}

/// Fetches that wait to be made.
pub(super) struct PreparedRequests {
    by_url: LruCache<Url, Arc<V0Request>>,
    oids: usize,
}

impl Default for PreparedRequests {
    fn default() -> Self {
        Self {
            by_url: LruCache::new(MAX_PREPARED),
            oids: 0,
        }
    }
}

impl PreparedRequests {
    pub(super) fn put(&mut self, url: &Url, request: V0Request) {
        self.take(url);
        self.oids += request.oids.len();
        if let Some((_, forgotten)) = self.by_url.push(url.clone(), Arc::new(request)) {
            self.oids -= forgotten.oids.len();
        }
        while self.oids > MAX_PREPARED_OIDS {
            let Some((_, forgotten)) = self.by_url.pop_lru() else {
                break;
            };
            self.oids -= forgotten.oids.len();
        }
    }

    pub(super) fn take(&mut self, url: &Url) -> Option<Arc<V0Request>> {
        let request = self.by_url.pop(url)?;
        self.oids -= request.oids.len();
        Some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{oid, url};

    #[test]
    fn prepared_fetches_are_bounded_by_their_objects() {
        let mut prepared = PreparedRequests::default();
        let request = V0Request {
            advertised: Advertisement::default(),
            oids: (0..MAX_WANTS as u64).map(oid).collect(),
            tips: 0,
            is_everything: true,
        };
        for n in 0..300 {
            let at = url(&format!("https://a.example/{n}"));
            prepared.put(&at, request.clone());
            prepared.put(&at, request.clone());
            assert!(prepared.oids <= MAX_PREPARED_OIDS);
        }
        assert_eq!(prepared.by_url.len() * MAX_WANTS, prepared.oids);
        assert!(prepared.take(&url("https://a.example/0")).is_none());
        while let Some((_, request)) = prepared.by_url.pop_lru() {
            prepared.oids -= request.oids.len();
        }
        assert_eq!(prepared.oids, 0);
    }
}
