//! What is known of each URL, and how it is asked next; pure but for the time passed in.
//!
//! ```text
//!   unknown ── fetch all wants ──▶ has them
//!      │ lacks one: partial ── list refs ──▶ some wants are tips ── fetch those
//!      │                                └──▶ none is: next time, what it did not say it lacks,
//!      │                                     states and pull requests by turns
//!      │ does not understand: old ── info/refs ──▶ wants are tips, or it serves any ── fetch those
//!      ├ (an error that may mean so: old, at the next attempt)  └──▶ fetch heads and tags
//!      └ refuses several and says not why: partial, at the next attempt
//! ```

use std::{collections::BTreeSet, num::NonZeroUsize, sync::Arc, time::Duration};

use grip_git::remote::{Advertisement, MAX_WANTS, Version};
use grip_types::Oid;
use lru::LruCache;
use tokio::time::Instant;
use url::Url;

use super::{
    facts::Facts,
    old::{Asks, Prepared},
    step::{Heard, Lesson, Step},
};

/// How long a fact is believed.
const BELIEVED_FOR: Duration = Duration::from_secs(600);
/// How long it is believed while the request that it is for has not been made: the line for a
/// busy host can be long.
const PENDING_FOR: Duration = Duration::from_secs(24 * 3600);
/// How long a host is believed not to hide wanted objects behind refs that did not change.
const IN_VAIN_FOR: Duration = Duration::from_secs(24 * 3600);
/// URLs remembered; the longest unused is forgotten, and asked like an unknown one.
const MAX_URLS: NonZeroUsize = NonZeroUsize::new(30_000).unwrap();
const MAX_IN_VAIN: NonZeroUsize = NonZeroUsize::new(1_000).unwrap();
const MAX_OLD_HOSTS: NonZeroUsize = NonZeroUsize::new(1_000).unwrap();

pub(super) struct Knowledge {
    facts: LruCache<Url, Facts>,
    prepared: Prepared,
    /// Hosts that were found to be old, by name and port, and until when that is believed.
    old_hosts: LruCache<String, Instant>,
    in_vain: LruCache<Url, InVain>,
}

struct InVain {
    tips: u64,
    missing: BTreeSet<Oid>,
    until: Instant,
}

impl Default for Knowledge {
    fn default() -> Self {
        Self {
            facts: LruCache::new(MAX_URLS),
            prepared: Prepared::default(),
            old_hosts: LruCache::new(MAX_OLD_HOSTS),
            in_vain: LruCache::new(MAX_IN_VAIN),
        }
    }
}

impl Knowledge {
    /// How to ask `url` for `wants` now.
    pub(super) fn step(
        &mut self,
        url: &Url,
        wants: &BTreeSet<Oid>,
        first: &BTreeSet<Oid>,
        now: Instant,
    ) -> Step {
        let facts = self.facts_of(url, now);
        if !facts.is_old {
            return facts.step_v2(wants, first);
        }
        let prepared = self.prepared.take(url);
        let is_of_use = |asks: &Arc<Asks>| asks.is_of_use(wants);
        prepared
            .filter(is_of_use)
            .map_or(Step::Advertise, Step::FetchV0)
    }

    /// Takes in what was `heard` of `url` after `step`.
    pub(super) fn learn(
        &mut self,
        url: &Url,
        wants: &BTreeSet<Oid>,
        first: &BTreeSet<Oid>,
        step: &Step,
        heard: &Heard,
        now: Instant,
    ) -> Lesson {
        let lesson = self.lesson(url, wants, first, step, heard, now);
        let facts = self.facts_of(url, now);
        if lesson.resume {
            facts.until = now + PENDING_FOR;
        } else {
            facts.until = facts.until.min(now + BELIEVED_FOR);
        }
        lesson
    }

    fn lesson(
        &mut self,
        url: &Url,
        wants: &BTreeSet<Oid>,
        first: &BTreeSet<Oid>,
        step: &Step,
        heard: &Heard,
        now: Instant,
    ) -> Lesson {
        let facts = self.facts_of(url, now);
        match (step, heard) {
            (Step::FetchV2(asked), Heard::Pack(arrived)) => {
                facts.is_sure = true;
                facts.tips = None;
                let is_cut = asked.len() >= MAX_WANTS && wants.len() > asked.len();
                Lesson::answer(is_cut && !arrived.is_empty(), "")
            }
            (Step::FetchV0(asks), Heard::Pack(arrived)) => {
                self.old_pack(url, wants, asks, arrived, now)
            }
            (Step::FetchV2(asked), Heard::Lacks(oid)) => facts.lacks(*oid, asked, wants),
            (Step::FetchV0(asks), Heard::Lacks(oid)) => facts.lacks(*oid, &asks.oids, wants),
            (Step::FetchV2(asked), Heard::Refused) if asked.len() > 1 => facts.doubt(),
            (Step::ListRefs, Heard::Refs(refs)) => facts.refs(refs, wants),
            (Step::Advertise, Heard::Advertised(advertised)) => {
                self.advertised(url, wants, first, advertised, now)
            }
            (Step::FetchV2(_) | Step::ListRefs, Heard::NotUnderstood) => facts.not_understood(true),
            (Step::FetchV2(_) | Step::ListRefs, Heard::Doubtful) => facts.not_understood(false),
            _ => Lesson::default(),
        }
    }

    fn facts_of(&mut self, url: &Url, now: Instant) -> &mut Facts {
        let facts = self.facts.peek(url);
        if facts.is_none_or(|facts| facts.until <= now) {
            let until_old = self.old_hosts.get(&host_of(url)).copied();
            let is_old = until_old.is_some_and(|until| until > now);
            self.prepared.take(url);
            let facts = Facts::new(now + BELIEVED_FOR, is_old);
            self.facts.put(url.clone(), facts);
        }
        self.facts
            .get_mut(url)
            .expect("because it is there or was just put there")
    }

    /// Prepares the fetch from an old host that has listed its refs.
    fn advertised(
        &mut self,
        url: &Url,
        wants: &BTreeSet<Oid>,
        first: &BTreeSet<Oid>,
        advertised: &Advertisement,
        now: Instant,
    ) -> Lesson {
        let facts = self.facts_of(url, now);
        facts.is_sure = true;
        if advertised.version == Version::V2 {
            facts.is_old = false;
            return Lesson::answer(true, "the host speaks the new git protocol after all");
        }
        let asks = Asks::prepare(advertised, wants, &facts.in_hope(wants, first));
        self.old_hosts.put(host_of(url), now + BELIEVED_FOR);
        if asks.oids.is_empty() {
            return Lesson::answer(false, "the host has nothing of what is missing");
        }
        if asks.is_everything && self.is_in_vain(url, wants, asks.tips, now) {
            return Lesson::answer(
                false,
                "its refs are those that did not lead to what is missing",
            );
        }
        let note = match asks.is_everything {
            true => "the host serves nothing by id: all branches and tags are asked for",
            false => "its refs were listed",
        };
        self.prepared.put(url, asks);
        Lesson::answer(true, note)
    }

    fn is_in_vain(&mut self, url: &Url, wants: &BTreeSet<Oid>, tips: u64, now: Instant) -> bool {
        self.in_vain.get(url).is_some_and(|vain| {
            vain.tips == tips && vain.until > now && wants.is_subset(&vain.missing)
        })
    }

    fn old_pack(
        &mut self,
        url: &Url,
        wants: &BTreeSet<Oid>,
        asks: &Asks,
        arrived: &BTreeSet<Oid>,
        now: Instant,
    ) -> Lesson {
        let missing: BTreeSet<Oid> = wants.difference(arrived).copied().collect();
        if asks.is_everything && !missing.is_empty() {
            let vain = InVain {
                tips: asks.tips,
                missing,
                until: now + IN_VAIN_FOR,
            };
            self.in_vain.put(url.clone(), vain);
        }
        Lesson::answer(false, "")
    }
}

fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    format!("{host}:{}", url.port_or_known_default().unwrap_or_default())
}

#[cfg(test)]
mod tests;
