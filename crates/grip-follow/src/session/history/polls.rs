//! Polls: filters that have no live subscription, asked for in rotation (G02-15, G02-18).

use std::{collections::HashMap, time::Duration};

use tokio::time::Instant;

use super::{
    super::{Now, Progress, live::Wanted},
    History,
    job::{Job, Work},
};
use crate::plan;

/// How often a filter that has no live subscription is asked for, and how much of the time before
/// again (G02-15).
pub(super) const POLL_EVERY: Duration = Duration::from_secs(60);
const POLL_OVERLAP: u64 = 900;
/// The same where the bytes of all subscriptions are limited (G02-18).
const TIGHT_POLL_EVERY: Duration = Duration::from_secs(300);
const TIGHT_POLL_OVERLAP: u64 = 60;
/// The time between two polls.
const POLL_TICK: Duration = Duration::from_secs(5);

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

impl History {
    /// Keeps the polls to what has no live subscription, and queues one that is due.
    pub(in crate::session) fn poll(
        &mut self,
        (version, wanted): (u64, &[Wanted]),
        progress: &Progress,
        now: Now,
    ) {
        let is_tight = progress.max_active_bytes.is_some();
        let (every, overlap) = if is_tight {
            (TIGHT_POLL_EVERY, TIGHT_POLL_OVERLAP)
        } else {
            (POLL_EVERY, POLL_OVERLAP)
        };
        self.poll_every = every;
        if self.polls_version != version {
            self.polls_version = version;
            let known = std::mem::take(&mut self.polls);
            let mut known: HashMap<String, Poll> = known
                .into_iter()
                .map(|poll| (plan::digest(&poll.wanted.filter()), poll))
                .collect();
            let poll = |wanted: &Wanted| {
                let known = known.remove(&plan::digest(&wanted.filter()));
                known.unwrap_or_else(|| Poll::new(wanted.clone(), every, now))
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
            let job = Job::poll(poll.wanted.clone(), since, now.unix);
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
