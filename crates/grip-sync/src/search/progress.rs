//! The progress of one attempt or turn.

use std::collections::HashSet;

use grip_types::{Domain, Owner};
use url::Url;

use crate::{paused_attempts::Requested, plan::Target};

/// What to do next for an identifier.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Ask(Target),
    /// Nothing waits, or nothing is missing.
    Complete,
    /// Something is missing, and nobody is left to be asked now. Hosts that were skipped because
    /// of their limits are named, to be queued for.
    Nobody {
        throttled: Vec<ThrottledDomain>,
    },
}

/// How a search for missing data ended; [`grip_purgatory::AttemptEnd`] is what follows from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SearchOutcome {
    Complete,
    Incomplete,
    /// Others are due, and there is more to ask.
    Resume,
    /// The node stops.
    Stopped,
}

/// The outcome of asking one URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UrlOutcome {
    pub(crate) oids: usize,
    pub(crate) resume: bool,
    pub(crate) stopped: bool,
    /// Its host was slow, and its task was given to another.
    pub(crate) gave_way: bool,
}

/// What an attempt, or a turn, has tried so far.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) tried: HashSet<Url>,
    /// Hosts that refused between choosing and taking.
    pub(crate) refused: HashSet<Domain>,
    /// What was asked in the attempt that this one carries on.
    earlier: Requested,
    asked: Requested,
    /// An operator wants it: no URL is left alone.
    pub(super) insists: bool,
    pub(super) fetched: usize,
    looked_further: bool,
}

impl Progress {
    /// The beginning of an attempt; `earlier` is empty unless it carries another one on.
    pub(crate) fn continuing(earlier: Requested) -> Self {
        Self {
            earlier,
            ..Self::default()
        }
    }

    pub(crate) fn having_tried(tried: HashSet<Url>) -> Self {
        Self {
            tried,
            ..Self::default()
        }
    }

    /// A URL counts as tried in an attempt that goes on unless it is worth more now.
    pub(super) fn has_tried(&self, target: &Target) -> bool {
        let earlier = self.earlier.get(&target.url);
        self.tried.contains(&target.url)
            || earlier.is_some_and(|asked| asked.is_superset(&target.wants))
    }

    pub(super) fn add(&mut self, target: Target, brought: UrlOutcome) {
        self.fetched += brought.oids;
        if !brought.resume {
            self.tried.insert(target.url.clone());
            self.asked.insert(target.url, target.wants);
        }
    }

    /// Whether further providers may be looked up: once an attempt.
    pub(super) fn may_look_further(&mut self) -> bool {
        !std::mem::replace(&mut self.looked_further, true)
    }

    /// All that need not be asked again when the attempt goes on.
    pub(super) fn into_requested(self) -> Requested {
        let mut paused = self.earlier;
        paused.extend(self.asked);
        paused
    }
}

/// A host that stands in the way, and what was tried there already.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ThrottledDomain {
    pub(crate) domain: Domain,
    pub(crate) tried: HashSet<Url>,
    /// Authors of the events that want something there.
    pub(crate) owners: Vec<Owner>,
}
