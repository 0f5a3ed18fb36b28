//! The queue of identifiers whose data is to be looked for elsewhere.

use std::time::Duration;

use grip_types::Identifier;

use super::Purgatory;
use crate::{Change, Millis, SYNC_DELAY_DEFAULT, SYNC_DELAY_IMMEDIATE, Source, SyncEntry};

impl Purgatory {
    /// Has the data of an identifier looked for after `delay`: the count of attempts begins
    /// again, and the next one may only come forward. Without a waiting event it does nothing.
    pub fn enqueue_sync(
        &mut self,
        identifier: &Identifier,
        delay: Duration,
        now: Millis,
    ) -> Vec<Change> {
        if !self.has_pending_events(identifier) {
            return Vec::new();
        }
        self.sync.enqueue(identifier, delay, now)
    }

    /// After three minutes: its author is likely to push the data himself.
    pub fn enqueue_sync_default(&mut self, identifier: &Identifier, now: Millis) -> Vec<Change> {
        self.enqueue_sync(identifier, SYNC_DELAY_DEFAULT, now)
    }

    /// After half a second, in which a burst of events gathers.
    pub fn enqueue_sync_immediate(&mut self, identifier: &Identifier, now: Millis) -> Vec<Change> {
        self.enqueue_sync(identifier, SYNC_DELAY_IMMEDIATE, now)
    }

    pub fn remove_from_sync_queue(&mut self, identifier: &Identifier) -> Vec<Change> {
        self.sync.remove(identifier).into_iter().collect()
    }

    pub fn sync_entry(&self, identifier: &Identifier) -> Option<&SyncEntry> {
        self.sync.get(identifier)
    }

    /// The attempt that is due first, and when.
    pub fn next_sync(&self) -> Option<(Millis, &Identifier)> {
        self.sync.next()
    }

    /// Takes the identifier that is due first, if its time has come, and marks its attempt as
    /// under way. A restart forgets the mark, so that the attempt is made again.
    pub fn begin_sync(&mut self, now: Millis) -> Option<Identifier> {
        self.sync.begin(now)
    }

    /// Ends an attempt that did not bring everything: one more is counted, and the next comes
    /// after `delay`, unless a new event has asked for one meanwhile.
    pub fn retry_sync(
        &mut self,
        identifier: &Identifier,
        delay: Duration,
        now: Millis,
    ) -> Vec<Change> {
        self.sync.retry(identifier, delay, now)
    }

    pub(super) fn enqueue_for(
        &mut self,
        identifier: &Identifier,
        source: Source,
        now: Millis,
    ) -> Vec<Change> {
        match source {
            Source::Submitted => self.enqueue_sync_default(identifier, now),
            Source::Synced => self.enqueue_sync_immediate(identifier, now),
        }
    }
}
