//! A bounded memory of events that came by sync and expired (G01-20).
//!
//! Without it another relay would give us the same event again and again, for 30 minutes each.

use std::collections::{BTreeSet, HashMap};

use grip_nostr::EventId;

use crate::{Change, Millis, journal::Class};

/// At the bound the id that expired first is forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExpiredIds {
    by_id: HashMap<EventId, Millis>,
    by_time: BTreeSet<(Millis, EventId)>,
}

impl ExpiredIds {
    pub(crate) fn contains(&self, id: &EventId) -> bool {
        self.by_id.contains_key(id)
    }

    pub(crate) fn get(&self, id: &EventId) -> Option<Millis> {
        self.by_id.get(id).copied()
    }

    pub(crate) fn len(&self) -> usize {
        self.by_id.len()
    }

    pub(crate) fn remember(&mut self, id: EventId, at: Millis, bound: usize) -> Vec<Change> {
        if bound == 0 {
            return Vec::new();
        }
        self.insert(id, at);
        let mut changes = vec![Change::put_expired(id, at)];
        while self.by_id.len() > bound
            && let Some((_, oldest)) = self.by_time.pop_first()
        {
            self.by_id.remove(&oldest);
            changes.push(Change::remove(Class::Expired, &oldest));
        }
        changes
    }

    pub(crate) fn insert(&mut self, id: EventId, at: Millis) {
        if let Some(before) = self.by_id.insert(id, at) {
            self.by_time.remove(&(before, id));
        }
        self.by_time.insert((at, id));
    }

    pub(crate) fn forget(&mut self, id: &EventId) -> Option<Change> {
        let at = self.by_id.remove(id)?;
        self.by_time.remove(&(at, *id));
        Some(Change::remove(Class::Expired, id))
    }
}
