//! The negotiation with each URL: what is known of it, and how it is asked next. Pure: time is
//! passed in.
//!
//! ```text
//!   unknown ── fetch all wants ──▶ has them
//!      │ lacks one: partial ── list refs ──▶ some wants are tips ── fetch those
//!      │                                └──▶ none is: next time, what it did not say it lacks,
//!      │                                     states and pull requests by turns
//!      │ does not understand: v0 ── info/refs ──▶ wants are tips, or it serves any ── fetch those
//!      ├ (an error that may mean so: v0, at the next attempt)  └──▶ fetch heads and tags
//!      └ refuses several and says not why: partial, at the next attempt
//! ```

use std::{collections::BTreeSet, num::NonZeroUsize, sync::Arc, time::Duration};

use grip_git::remote::{Advertisement, MAX_WANTS, Version};
use grip_types::{ByteLru, Oid};
use lru::LruCache;
use tokio::time::Instant;
use url::Url;

use super::{
    exchange::{Lesson, Response, Step},
    protocol_v0::{PreparedRequests, V0Request},
    url_facts::{BYTES_PER_OID, UrlFacts},
};
use crate::{fetch::Job, weights::of_url};

/// How long a fact is believed.
const BELIEVED_FOR: Duration = Duration::from_secs(600);
/// How long it is believed while the request that it is for has not been made: the line for a
/// busy host can be long.
const PENDING_FOR: Duration = Duration::from_secs(24 * 3600);
/// How long a host is believed not to hide wanted objects behind refs that did not change.
const FRUITLESS_FOR: Duration = Duration::from_secs(24 * 3600);
/// Bytes of what is remembered of URLs; the longest unused is forgotten, and asked like an unknown
/// one.
const MAX_FACTS: usize = 32 << 20;
const MAX_FRUITLESS: usize = 16 << 20;
const MAX_V0_HOSTS: NonZeroUsize = NonZeroUsize::new(1_000).unwrap();

pub(super) struct Negotiations {
    facts: ByteLru<Url, UrlFacts>,
    prepared: PreparedRequests,
    /// Hosts that were found to speak only version 0, by name and port, and until when that is believed.
    v0_hosts: LruCache<String, Instant>,
    fruitless: ByteLru<Url, Fruitless>,
}

struct Fruitless {
    tips: u64,
    missing: BTreeSet<Oid>,
    until: Instant,
}

impl Default for Negotiations {
    fn default() -> Self {
        Self {
            facts: ByteLru::new(MAX_FACTS, |url, facts| of_url(url) + facts.weight()),
            prepared: PreparedRequests::default(),
            v0_hosts: LruCache::new(MAX_V0_HOSTS),
            fruitless: ByteLru::new(MAX_FRUITLESS, |url, vain| {
                of_url(url) + vain.missing.len() * BYTES_PER_OID
            }),
        }
    }
}

impl Negotiations {
    /// How to ask for what is wanted now.
    pub(super) fn step(&mut self, job: Job<'_>, now: Instant) -> Step {
        let facts = self.facts_of(job.url, now);
        if !facts.is_v0 {
            return facts.step_v2(job.wants, job.first);
        }
        let prepared = self.prepared.take(job.url);
        let is_of_use = |request: &Arc<V0Request>| request.is_of_use(job.wants);
        prepared
            .filter(is_of_use)
            .map_or(Step::Advertise, Step::FetchV0)
    }

    /// Takes in the response after `step`.
    pub(super) fn learn(
        &mut self,
        job: Job<'_>,
        step: &Step,
        response: &Response,
        now: Instant,
    ) -> Lesson {
        let lesson = self.lesson(job, step, response, now);
        let facts = self.facts_of(job.url, now);
        if lesson.resume {
            facts.until = now + PENDING_FOR;
        } else {
            facts.until = facts.until.min(now + BELIEVED_FOR);
        }
        self.facts.reweigh(job.url);
        lesson
    }

    fn lesson(&mut self, job: Job<'_>, step: &Step, response: &Response, now: Instant) -> Lesson {
        let (facts, wants) = (self.facts_of(job.url, now), job.wants);
        match (step, response) {
            (Step::FetchV2(asked), Response::Pack(arrived)) => {
                facts.is_sure = true;
                facts.tips = None;
                let is_cut = asked.len() >= MAX_WANTS && wants.len() > asked.len();
                Lesson::answer(is_cut && !arrived.is_empty(), "")
            }
            (Step::FetchV0(request), Response::Pack(arrived)) => {
                self.v0_pack(job, request, arrived, now)
            }
            (Step::FetchV2(asked), Response::Lacks(oid)) => facts.lacks(*oid, asked, wants),
            (Step::FetchV0(request), Response::Lacks(oid)) => {
                facts.lacks(*oid, &request.oids, wants)
            }
            (Step::FetchV2(asked), Response::Refused) if asked.len() > 1 => facts.doubt(),
            (Step::ListRefs, Response::Refs(refs)) => facts.refs(refs, wants),
            (Step::Advertise, Response::Advertised(advertised)) => {
                self.advertised(job, advertised, now)
            }
            (Step::FetchV2(_) | Step::ListRefs, Response::NotUnderstood) => {
                facts.not_understood(true)
            }
            (Step::FetchV2(_) | Step::ListRefs, Response::Doubtful) => facts.not_understood(false),
            _ => Lesson::default(),
        }
    }

    fn facts_of(&mut self, url: &Url, now: Instant) -> &mut UrlFacts {
        let facts = self.facts.get(url);
        if facts.is_none_or(|facts| facts.until <= now) {
            let until_old = self.v0_hosts.get(&host_of(url)).copied();
            let is_v0 = until_old.is_some_and(|until| until > now);
            self.prepared.take(url);
            let facts = UrlFacts::new(now + BELIEVED_FOR, is_v0);
            self.facts.put(url.clone(), facts);
        }
        self.facts
            .get_mut(url)
            .expect("because it is there or was just put there")
    }

    /// Prepares the fetch from a version 0 host that has listed its refs.
    fn advertised(&mut self, job: Job<'_>, advertised: &Advertisement, now: Instant) -> Lesson {
        let Job { url, wants, .. } = job;
        let facts = self.facts_of(url, now);
        facts.is_sure = true;
        if advertised.version == Version::V2 {
            facts.is_v0 = false;
            return Lesson::answer(true, "the host speaks the new git protocol after all");
        }
        let request = V0Request::prepare(advertised, wants, &facts.in_hope(wants, job.first));
        self.v0_hosts.put(host_of(url), now + BELIEVED_FOR);
        if request.oids.is_empty() {
            return Lesson::answer(false, "the host has nothing of what is missing");
        }
        if request.is_everything && self.is_fruitless(url, wants, request.tips, now) {
            return Lesson::answer(
                false,
                "its refs are those that did not lead to what is missing",
            );
        }
        let note = if request.is_everything {
            "the host serves nothing by id: all branches and tags are asked for"
        } else {
            "its refs were listed"
        };
        self.prepared.put(url, request);
        Lesson::answer(true, note)
    }

    fn is_fruitless(&mut self, url: &Url, wants: &BTreeSet<Oid>, tips: u64, now: Instant) -> bool {
        self.fruitless.get(url).is_some_and(|vain| {
            vain.tips == tips && vain.until > now && wants.is_subset(&vain.missing)
        })
    }

    fn v0_pack(
        &mut self,
        job: Job<'_>,
        request: &V0Request,
        arrived: &BTreeSet<Oid>,
        now: Instant,
    ) -> Lesson {
        let missing: BTreeSet<Oid> = job.wants.difference(arrived).copied().collect();
        if request.is_everything && !missing.is_empty() {
            let vain = Fruitless {
                tips: request.tips,
                missing,
                until: now + FRUITLESS_FOR,
            };
            self.fruitless.put(job.url.clone(), vain);
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
