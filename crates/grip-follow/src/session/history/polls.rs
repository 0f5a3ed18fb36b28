//! Polls: filters that have no live subscription, asked for in rotation (G02-15, G02-18), and states
//! of held announcements, for which a relay that sends nothing by itself is not waited (G02-37).

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    super::{Now, Progress, live::Wanted},
    History,
    job::{Job, Work},
};
use crate::plan::{Class, Plan, Values};

/// How often a filter that has no live subscription is asked for, and how much of the time before
/// again (G02-15).
pub(super) const POLL_EVERY: Duration = Duration::from_secs(60);
const POLL_OVERLAP: u64 = 900;
/// The same where the bytes of all subscriptions are limited (G02-18).
const TIGHT_POLL_EVERY: Duration = Duration::from_secs(300);
const TIGHT_POLL_OVERLAP: u64 = 60;
/// The time between two polls.
const POLL_TICK: Duration = Duration::from_secs(5);
/// How often states of held announcements are asked for, and of how many at once: these wait half an
/// hour at most.
const HELD_EVERY: Duration = Duration::from_secs(30);
const MAX_HELD: usize = 32;

pub(super) struct Poll {
    wanted: Wanted,
    cursor: u64,
    pub(super) due: Instant,
    pub(super) is_queued: bool,
}

impl Poll {
    fn new(wanted: Wanted, every: Duration, now: Now) -> Self {
        Self {
            wanted,
            cursor: now.unix,
            due: now.at + every,
            is_queued: false,
        }
    }
}

/// The rotation over held announcements.
#[derive(Default)]
pub(super) struct HeldPolls {
    /// None while nothing is held.
    pub(super) due: Option<Instant>,
    /// The identifier that was asked for last.
    last: Option<Arc<str>>,
}

impl HeldPolls {
    /// The next identifiers, and how long one round over all of them takes.
    fn next(&mut self, values: &Values) -> (Vec<Arc<str>>, u64) {
        // Where all are asked for at once, there is no order.
        let last = self.last.take().filter(|_| values.len() > MAX_HELD);
        let rest = last.map_or(values.as_slice(), |last| values.after(&last));
        let next = rest
            .iter()
            .chain(values.iter())
            .take(MAX_HELD.min(values.len()));
        let next: Vec<Arc<str>> = next.cloned().collect();
        self.last = next.last().cloned();
        let rounds = values.len().div_ceil(MAX_HELD) as u64;
        (next, rounds * HELD_EVERY.as_secs())
    }
}

impl History {
    /// Queues a request for states of held announcements, if one is due.
    pub(in crate::session) fn poll_held(&mut self, plan: &Plan, progress: &Progress, now: Now) {
        let values = plan.values.get(&Class::Held);
        let Some(values) = values.filter(|_| progress.refused(Class::Held, now.unix).is_none())
        else {
            self.held = HeldPolls::default();
            return;
        };
        let due = *self.held.due.get_or_insert(now.at + HELD_EVERY);
        // One that waits already is the first, or the next page of a history is.
        let waits = |job: &Job| job.class == Class::Held && matches!(job.work, Work::Poll { .. });
        if due > now.at || self.queue.iter().take(2).any(waits) {
            return;
        }
        self.held.due = Some(now.at + HELD_EVERY);
        let (next, round) = self.held.next(values);
        let since = progress.poll_since(now.unix.saturating_sub(round), POLL_OVERLAP);
        let wanted = Wanted::new(Class::Held, &next);
        // A long history takes longer than an announcement is held.
        self.queue.push_front(Job::poll(&wanted, since, now.unix));
    }

    /// Keeps the polls to what has no live subscription, and queues one that is due.
    pub(in crate::session) fn poll(
        &mut self,
        (version, wanted): (u64, &[Wanted]),
        progress: &Progress,
        now: Now,
    ) {
        let is_tight = progress.active_bytes().is_some();
        let (every, overlap) = if is_tight {
            (TIGHT_POLL_EVERY, TIGHT_POLL_OVERLAP)
        } else {
            (POLL_EVERY, POLL_OVERLAP)
        };
        self.poll_every = every;
        if self.polls_version != version {
            self.polls_version = version;
            let mut known = std::mem::take(&mut self.polls);
            let poll = |wanted: &Wanted| {
                let same = known.iter().position(|poll| poll.wanted == *wanted);
                match same {
                    // The values are those of the plan of now: those of before are not kept for it.
                    Some(at) => Poll {
                        wanted: wanted.clone(),
                        ..known.swap_remove(at)
                    },
                    None => Poll::new(wanted.clone(), every, now),
                }
            };
            self.polls = wanted.iter().map(poll).collect();
        }
        if self.next_poll.is_some_and(|at| at > now.at) {
            return;
        }
        let due = |poll: &&mut Poll| !poll.is_queued && poll.due <= now.at;
        if let Some(poll) = self
            .polls
            .iter_mut()
            .filter(due)
            .min_by_key(|poll| poll.due)
        {
            poll.is_queued = true;
            self.next_poll = Some(now.at + POLL_TICK);
            let since = progress.poll_since(poll.cursor, overlap);
            let job = Job::poll(&poll.wanted, since, now.unix);
            self.queue.push_back(job);
        }
    }

    pub(super) fn end_poll(&mut self, job: &Job, is_success: bool, now: Now) {
        let Work::Poll { began, .. } = job.work else {
            return;
        };
        let mut polls = self.polls.iter_mut();
        let is_it = |poll: &&mut Poll| job.is_poll_of(&poll.wanted);
        if let Some(poll) = polls.find(is_it) {
            poll.is_queued = false;
            poll.due = now.at + self.poll_every;
            if is_success {
                poll.cursor = began;
            }
        }
    }
}
