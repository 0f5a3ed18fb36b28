//! The queue of identifiers whose data is looked for elsewhere, held and wanted alike.

use std::time::Duration;

use grip_types::{Identifier, Origin, Owner};

use super::Purgatory;
use crate::{Change, Millis, NextSync, SyncEntry};

/// When an identifier is looked at again for which nothing was missing although something waits:
/// the longest pause between two attempts for a held event.
const COMPLETE_BUT_WAITING: Duration = Duration::from_secs(120);
/// Authors of one identifier that are told apart.
const MAX_OWNERS: usize = 16;
/// No attempt is put off for longer than this, or than the settings say.
const LONGEST_RETRY: Duration = Duration::from_secs(3600);

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

    /// After the delay of submitted events: their author is likely to push the data.
    pub fn enqueue_sync_default(&mut self, identifier: &Identifier, now: Millis) -> Vec<Change> {
        self.enqueue_sync(identifier, self.bounds.sync_delays.submitted, now)
    }

    /// After the delay of synced events, in which a burst gathers.
    pub fn enqueue_sync_immediate(&mut self, identifier: &Identifier, now: Millis) -> Vec<Change> {
        self.enqueue_sync(identifier, self.bounds.sync_delays.synced, now)
    }

    /// Brings the next attempt forward to `now`; the count of attempts stays. Without a waiting
    /// event it does nothing.
    pub fn sync_now(&mut self, identifier: &Identifier, now: Millis) -> Vec<Change> {
        if !self.has_pending_events(identifier) {
            return Vec::new();
        }
        self.sync.bring_forward(identifier, now)
    }

    pub fn sync_entry(&self, identifier: &Identifier) -> Option<&SyncEntry> {
        self.sync.get(identifier)
    }

    /// When the next attempt is due.
    pub fn next_sync(&self) -> Option<Millis> {
        self.sync.next()
    }

    /// Takes an identifier whose time has come, and marks its attempt as under way: authors take
    /// turns, those who are served here first. A restart forgets the mark, so that the attempt is
    /// made again.
    pub fn begin_sync(&mut self, now: Millis) -> NextSync {
        for identifier in self.sync.newly_due(now) {
            let owners = self.owners(&identifier);
            self.sync.make_ready(identifier, &owners);
        }
        match (self.sync.begin(), self.sync.next()) {
            (Some(identifier), _) => NextSync::Due(identifier),
            (None, Some(due)) => NextSync::In(due.since(now)),
            (None, None) => NextSync::Nothing,
        }
    }

    /// Authors of what waits for an identifier: one who is served, or some of the others.
    fn owners(&self, identifier: &Identifier) -> Vec<Owner> {
        let states = self.find_state(identifier).iter().map(|entry| &entry.held);
        let requests = self.prs(identifier).map(|entry| &entry.held);
        let wanted = self.wanted(identifier).map(|entry| &entry.held);
        let mut owners = Vec::new();
        for held in states.chain(requests).chain(wanted) {
            let owner = Owner {
                key: held.event.author().to_bytes(),
                is_served: held.is_granted(),
            };
            if owner.is_served {
                return vec![owner];
            }
            if owners.len() < MAX_OWNERS && !owners.contains(&owner) {
                owners.push(owner);
            }
        }
        owners
    }

    /// The identifiers whose data is looked for: those under way, then the others as they are due.
    pub fn sync_queue(&self) -> impl Iterator<Item = (&Identifier, &SyncEntry)> {
        let identifiers = self.sync.running().chain(self.sync.due());
        identifiers.filter_map(|identifier| Some((identifier, self.sync.get(identifier)?)))
    }

    /// Ends an attempt that did not bring everything: one more is counted, and the next comes
    /// after `delay`, unless a new event has asked for one meanwhile. Where nothing is held and
    /// something wanted, it comes an interval after the one before was due: with the time that an
    /// attempt takes, two would be further apart (G02-2).
    pub fn retry_sync(
        &mut self,
        identifier: &Identifier,
        delay: Duration,
        now: Millis,
    ) -> Vec<Change> {
        let due = self.sync.get(identifier).map(|entry| entry.next_attempt);
        let wanted = due.filter(|_| !self.has_held_events(identifier));
        let wanted = wanted.map(|due| due + self.bounds.wanted_interval);
        let next = wanted.filter(|next| *next > now).unwrap_or(now + delay);
        self.sync.end(identifier, next, true)
    }

    /// Ends an attempt that is not over: it does not count, and goes on after `delay`.
    pub fn resume_sync(
        &mut self,
        identifier: &Identifier,
        delay: Duration,
        now: Millis,
    ) -> Vec<Change> {
        self.sync.end(identifier, now + delay, false)
    }

    /// Ends an attempt that found nothing missing. The search is over, unless something waits
    /// all the same: then it counts as one that did not bring everything.
    pub fn complete_sync(&mut self, identifier: &Identifier, now: Millis) -> Vec<Change> {
        if self.has_pending_events(identifier) {
            return self.retry_sync(identifier, COMPLETE_BUT_WAITING, now);
        }
        self.sync.end_for_good(identifier).into_iter().collect()
    }

    /// Brings attempts forward to `now` that are further away than any wait is long: the clock
    /// was set back, and nothing would be looked for until it has caught up.
    pub(super) fn heed_clock(&mut self, now: Millis) -> Vec<Change> {
        let delays = self.bounds.sync_delays;
        let waits = [delays.submitted, delays.synced, self.bounds.wanted_interval];
        let longest = waits.into_iter().fold(LONGEST_RETRY, Duration::max);
        self.sync.bring_back_from(now + longest, now)
    }

    pub(super) fn enqueue_for(
        &mut self,
        identifier: &Identifier,
        origin: Origin,
        now: Millis,
    ) -> Vec<Change> {
        match origin {
            Origin::Submitted => self.enqueue_sync_default(identifier, now),
            Origin::Synced => self.enqueue_sync_immediate(identifier, now),
        }
    }
}
