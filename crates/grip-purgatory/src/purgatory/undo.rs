//! Taking back what could not be journalled: memory is again as the journal has it.

use std::collections::HashSet;

use grip_nostr::EventId;
use grip_types::Identifier;

use super::{Home, Purgatory, Waiting};
use crate::{AnnouncementEntry, Held, Millis, WantedEntry};

/// What holding a state or pull request takes away or changes.
#[derive(Clone, Debug)]
pub struct Before {
    id: EventId,
    /// The event, if it was held already.
    held: Option<Held>,
    /// What was wanted for its identifiers.
    wanted: Vec<WantedEntry>,
    expired_at: Option<Millis>,
}

impl Purgatory {
    /// How things stand before a state or pull request is held for `identifiers`.
    pub fn before(&self, id: &EventId, identifiers: &[Identifier]) -> Before {
        let wanted = identifiers.iter().flat_map(|it| self.wanted.of(it));
        Before {
            id: *id,
            held: self.find_event(id).map(Waiting::held).cloned(),
            wanted: wanted.cloned().collect(),
            expired_at: self.expired.get(id),
        }
    }

    /// Puts announcements back as they were, unless they were replaced since. The first of several
    /// versions of one is how it was at the beginning.
    pub fn put_back_announcements(&mut self, before: impl IntoIterator<Item = AnnouncementEntry>) {
        let mut seen = HashSet::new();
        for entry in before {
            let now = self.find_announcement(&entry.addr);
            let is_same = now.is_none_or(|now| now.held.id() == entry.held.id());
            if seen.insert(entry.addr.clone()) && is_same {
                // Their rows are in the journal still, and none that says they expired.
                drop(self.unremember(&entry.held.id()));
                drop(self.set_announcement(entry));
            }
        }
    }

    /// Takes back that a state or pull request is held, and gives back what that took away. Only
    /// the next attempt to find its identifiers' data stays as near as it came.
    ///
    /// To be called in the turn of the identifiers, so that nothing else took it away.
    pub fn undo(&mut self, before: Before) {
        let Before { id, held, .. } = before;
        // Wanted events first, or the search for them would end with the held one.
        for entry in before.wanted {
            if self.wanted.get(&entry.held.id()).is_none() {
                self.wanted.insert(entry);
            }
        }
        if let Some(at) = before.expired_at {
            self.expired.insert(id, at);
        }
        let changes = match (self.ids.get(&id).cloned(), held) {
            (Some(Home::State(identifier)), Some(held)) => {
                vec![self.replace_state(&identifier, held)]
            }
            (Some(Home::State(identifier)), None) => self.remove_state_event(&identifier, &id),
            (Some(Home::Pr), Some(held)) => self.replace_pr(&id, held).into_iter().collect(),
            (Some(Home::Pr), None) => self.take_pr(&id),
            (Some(Home::Announcement(_)) | None, _) => Vec::new(),
        };
        // The journal never heard of what they take back.
        drop(changes);
    }
}
