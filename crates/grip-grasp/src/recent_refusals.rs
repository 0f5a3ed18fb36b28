//! Recent refusals, kept for explanations.

use std::collections::{BTreeMap, VecDeque};

use grip_nostr::{Event, EventId, PublicKey, RepoAddr, Timestamp};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How many refusals are remembered; the oldest makes room for the newest.
const REMEMBERED: usize = 1_000;
/// How many steps of one refusal are kept: a push may name very many refs.
const MAX_STEPS: usize = 20;
/// How many bytes of a reason and of a step are kept, since a client can repeat long ones.
const MAX_TEXT: usize = 500;

/// One refused event or push.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct Refusal {
    /// None for a push.
    #[schemars(with = "Option<String>")]
    pub event: Option<EventId>,
    pub kind: Option<u16>,
    #[schemars(with = "Option<String>")]
    pub author: Option<PublicKey>,
    /// `npub/identifier` or the bare identifier it was about, where there is one.
    pub subject: Option<String>,
    pub reason: String,
    /// The steps that led to the refusal.
    pub chain: Vec<String>,
    #[schemars(with = "u64")]
    pub at: Timestamp,
}

/// A bounded ring of refusals.
#[derive(Default)]
pub(crate) struct RecentRefusals {
    ring: Mutex<VecDeque<Refusal>>,
    /// By cause, since the start. Bounded by the causes there are.
    counts: Mutex<BTreeMap<&'static str, u64>>,
}

impl RecentRefusals {
    pub(crate) fn count(&self, cause: &'static str) {
        *self.counts.lock().entry(cause).or_default() += 1;
    }

    pub(crate) fn counts(&self) -> BTreeMap<&'static str, u64> {
        self.counts.lock().clone()
    }

    pub(crate) fn note_event(
        &self,
        event: &Event,
        reason: &str,
        chain: Vec<String>,
        at: Timestamp,
    ) {
        let subject = grip_nostr::first_value(event, "d").map(cut);
        self.note(Refusal {
            event: Some(event.id),
            kind: Some(event.kind.as_u16()),
            author: Some(event.pubkey),
            subject,
            reason: cut(reason),
            chain: chain.iter().take(MAX_STEPS).map(|step| cut(step)).collect(),
            at,
        });
    }

    /// Notes an event refused by others, unless it has been noted with its steps already.
    pub(crate) fn note_again(&self, event: &Event, reason: &str, at: Timestamp) {
        let known = self.of_event(&event.id);
        if known.is_none_or(|known| known.reason != cut(reason)) {
            self.note_event(event, reason, Vec::new(), at);
        }
    }

    pub(crate) fn note_push(&self, addr: &RepoAddr, reason: &str, refs: Vec<String>) {
        self.note(Refusal {
            event: None,
            kind: None,
            author: None,
            subject: Some(addr.to_string()),
            reason: cut(reason),
            chain: refs.iter().take(MAX_STEPS).map(|line| cut(line)).collect(),
            at: Timestamp::now(),
        });
    }

    fn note(&self, refusal: Refusal) {
        let mut ring = self.ring.lock();
        if ring.len() == REMEMBERED {
            ring.pop_front();
        }
        ring.push_back(refusal);
    }

    /// The latest refusal of this event.
    pub(crate) fn of_event(&self, id: &EventId) -> Option<Refusal> {
        let ring = self.ring.lock();
        let mut newest_first = ring.iter().rev();
        newest_first
            .find(|refusal| refusal.event.as_ref() == Some(id))
            .cloned()
    }

    /// Refused events whose ids begin with these hex digits.
    pub(crate) fn beginning_with(&self, digits: &str, max: usize) -> Vec<EventId> {
        let ring = self.ring.lock();
        let refused = ring.iter().rev().filter_map(|refusal| refusal.event);
        let mut found: Vec<_> = refused
            .filter(|id| id.to_hex().starts_with(digits))
            .collect();
        found.sort_unstable();
        found.dedup();
        found.truncate(max);
        found
    }

    /// Refused pushes and events about `subject`, newest first.
    pub(crate) fn about(&self, subject: &str, max: usize) -> Vec<Refusal> {
        let ring = self.ring.lock();
        let newest_first = ring.iter().rev();
        newest_first
            .filter(|refusal| refusal.subject.as_deref() == Some(subject))
            .take(max)
            .cloned()
            .collect()
    }
}

fn cut(text: &str) -> String {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use grip_types::Identifier;
    use nostr::prelude::Keys;

    use super::*;

    fn addr(name: &str) -> RepoAddr {
        let key = Keys::parse(&"1".repeat(64)).unwrap().public_key();
        RepoAddr::new(key, Identifier::parse(name).unwrap())
    }

    #[test]
    fn the_oldest_refusal_makes_room() {
        let refusals = RecentRefusals::default();
        for n in 0..=REMEMBERED {
            refusals.note_push(&addr(&format!("r{n}")), "no", Vec::new());
        }
        assert_eq!(refusals.ring.lock().len(), REMEMBERED);
        assert!(refusals.about(&addr("r0").to_string(), 10).is_empty());
        let newest = addr(&format!("r{REMEMBERED}")).to_string();
        assert_eq!(refusals.about(&newest, 10).len(), 1);
    }

    #[test]
    fn long_reasons_are_cut_at_a_character() {
        let refusals = RecentRefusals::default();
        refusals.note_push(&addr("x"), &"é".repeat(600), Vec::new());
        let kept = refusals.about(&addr("x").to_string(), 1);
        assert!(kept[0].reason.len() <= MAX_TEXT);
    }
}
