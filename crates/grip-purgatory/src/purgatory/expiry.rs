//! Expiry of entries, and the memory of expired events.

use grip_nostr::{EventId, RepoAddr, Timestamp};
use grip_types::{Identifier, Oid, Origin};

use super::{MadeRoom, Purgatory, Waiting};
use crate::{Change, Millis, schedule::Key};

/// What came to its end, for the user to act on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expired {
    /// The announcement is hidden from now on: its empty repository must go.
    AnnouncementRepository(RepoAddr),
    /// The announcement is forgotten.
    Announcement {
        addr: RepoAddr,
        event_id: EventId,
        created_at: Timestamp,
        /// By the event's own end (NIP-40), not for want of data.
        has_ended: bool,
    },
    State {
        identifier: Identifier,
        event_id: EventId,
    },
    Pr {
        identifiers: Vec<Identifier>,
        event_id: EventId,
    },
    /// No event came for the ref: it must be deleted, if it still has this commit.
    Placeholder {
        event_id: EventId,
        repo: RepoAddr,
        commit: Oid,
    },
    /// The data of an event that expired before is not looked for any more.
    Wanted {
        identifiers: Vec<Identifier>,
        event_id: EventId,
    },
}

impl Purgatory {
    /// Ends everything whose time has come. Costs what it ends, not what stays. Also sees to it
    /// that a clock that was set back does not put attempts off.
    pub fn cleanup(&mut self, now: Millis) -> (Vec<Expired>, Vec<Change>) {
        let (mut expired, mut changes) = (Vec::new(), Vec::new());
        while let Some(key) = self.schedule.pop_due(now) {
            match key {
                Key::Event(id) => self.expire_event(id, now, &mut expired, &mut changes),
                Key::Placeholder(event_id, repo) => {
                    let Some((commit, change)) = self.take_placeholder_ref(&event_id, &repo) else {
                        continue;
                    };
                    changes.push(change);
                    expired.push(Expired::Placeholder {
                        event_id,
                        repo,
                        commit,
                    });
                }
            }
        }
        self.expire_wanted(now, &mut expired, &mut changes);
        changes.extend(self.heed_clock(now));
        (expired, changes)
    }

    pub(super) fn expire_event(
        &mut self,
        event_id: EventId,
        now: Millis,
        expired: &mut Vec<Expired>,
        changes: &mut Vec<Change>,
    ) {
        match self.find_event(&event_id) {
            Some(Waiting::Announcement(entry)) => {
                let addr = entry.addr.clone();
                let mut made = MadeRoom::default();
                self.expire_announcement(&addr, now, &mut made);
                expired.append(&mut made.expired);
                changes.append(&mut made.changes);
            }
            Some(Waiting::State(entry)) => {
                let identifier = entry.identifier.clone();
                changes.extend(self.expire_state(&identifier, &event_id, now));
                expired.push(Expired::State {
                    identifier,
                    event_id,
                });
            }
            Some(Waiting::Pr(entry)) => {
                let identifiers = entry.identifiers.clone();
                changes.extend(self.expire_pr(&event_id, now));
                expired.push(Expired::Pr {
                    identifiers,
                    event_id,
                });
            }
            Some(Waiting::Wanted(_)) | None => {}
        }
    }

    /// Remembers an expired event if it came by sync; a person may send the same one again.
    pub(super) fn remember(
        &mut self,
        id: EventId,
        origin: Option<Origin>,
        now: Millis,
    ) -> Vec<Change> {
        match origin {
            Some(Origin::Synced) => self.expired.remember(id, now, self.bounds.expired_ids),
            _ => Vec::new(),
        }
    }

    /// What is held is not called expired any more.
    pub(super) fn unremember(&mut self, id: &EventId) -> Option<Change> {
        self.expired.forget(id)
    }
}
