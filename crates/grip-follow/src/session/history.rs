//! History: a queue of requests, one at a time, by NIP-77 where the relay knows it and by pages of
//! REQ where not (G02-19 … G02-28).

mod ends;
mod everything;
mod job;
mod missing;
mod polls;
mod reconcile;
mod request;

use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
    time::Duration,
};

use grip_nostr::Filter;
use tokio::time::Instant;

use self::{
    job::{Job, Work},
    missing::Missing,
    polls::{HeldPolls, POLL_EVERY, Poll},
    reconcile::Nip77,
    request::Request,
};
use super::{Names, Now, Output, Progress, RemoteLimits};
use crate::plan::{Class, Plan};

pub(crate) use self::request::{Item, UNKNOWN_ID};

/// The least time between the starts of two requests (G02-26).
const SPACING: Duration = Duration::from_secs(1);

pub(super) struct History {
    queue: VecDeque<Job>,
    active: Option<Request>,
    missing: Missing,
    polls: Vec<Poll>,
    next_poll: Option<Instant>,
    poll_every: Duration,
    /// What the polls were made for.
    polls_version: u64,
    held: HeldPolls,
    pass: Option<Pass>,
    nip77: Nip77,
    /// The largest page seen on this connection, and what the relay says of its pages.
    page: u64,
    default_limit: Option<u64>,
    /// Almost all that the relay has may be wanted: it is a GRASP server.
    is_grasp: bool,
    /// Events that were here when everything was compared.
    compared: usize,
    /// That was done in this pass.
    has_compared_all: bool,
    next_id: u64,
    spacing: Duration,
    not_before: Option<Instant>,
    /// History of all relays shares a few turns.
    pub(super) has_turn: bool,
}

/// A round over everything that is wanted.
struct Pass {
    began: u64,
    /// Nothing was left out for being confirmed.
    is_full: bool,
    /// Something that the relay said it has was given up.
    has_gaps: bool,
}

impl Pass {
    fn partial(now: Now) -> Self {
        Self {
            began: now.unix,
            is_full: false,
            has_gaps: false,
        }
    }
}

impl History {
    pub(super) fn new(uses_nip77: bool, limits: RemoteLimits) -> Self {
        Self {
            queue: VecDeque::new(),
            active: None,
            missing: Missing::default(),
            polls: Vec::new(),
            next_poll: None,
            poll_every: POLL_EVERY,
            polls_version: 0,
            held: HeldPolls::default(),
            pass: None,
            nip77: Nip77 {
                is_known: uses_nip77,
                failures: 0,
                not_before: None,
            },
            page: 0,
            default_limit: limits.default_limit,
            is_grasp: limits.is_grasp,
            compared: 0,
            has_compared_all: false,
            next_id: 0,
            spacing: SPACING,
            not_before: None,
            has_turn: false,
        }
    }

    /// Queues everything that is wanted and not confirmed.
    pub(super) fn begin_pass(&mut self, plan: &Plan, progress: &Progress, now: Now) {
        // A poll that waits stays: nobody would put it in line again.
        self.queue
            .retain(|job| matches!(job.work, Work::Poll { .. }));
        if self.nip77.is_known && progress.has_everything(now.unix) {
            for (class, values) in &plan.values {
                let new = values.iter();
                let new = new.filter(|value| !progress.is_covered(*class, value));
                let new: Vec<Arc<str>> = new.cloned().collect();
                self.queue.extend(Job::of_values(*class, &new, None));
            }
            self.queue.push_back(Job::everything());
            self.pass = Some(Pass {
                is_full: true,
                ..Pass::partial(now)
            });
            return;
        }
        let mut is_full = true;
        for (class, values) in &plan.values {
            let since = |value: &Arc<str>| progress.since(*class, value, now.unix);
            let (known, new): (Vec<_>, Vec<_>) = values
                .iter()
                .cloned()
                .partition(|value| since(value).is_some());
            let from = known.first().and_then(since);
            is_full &= known.is_empty();
            self.queue.extend(Job::of_values(*class, &new, None));
            self.queue.extend(Job::of_values(*class, &known, from));
        }
        self.pass = Some(Pass {
            is_full,
            ..Pass::partial(now)
        });
    }

    /// Queues the values that are new in `plan`.
    pub(super) fn add_new(&mut self, plan: &Plan, old: &Plan, progress: &Progress, now: Now) {
        for (class, values) in &plan.values {
            let is_new = |value: &&Arc<str>| {
                !old.contains(*class, value)
                    || plan.revision(*class, value) != old.revision(*class, value)
            };
            let mut new: BTreeSet<Arc<str>> = values.iter().filter(is_new).cloned().collect();
            if new.is_empty() {
                continue;
            }
            // What waits already is asked for together with it: while a history comes, every batch
            // brings values, and each request takes its second.
            let waits = |job: &Job| {
                job.class == *class
                    && job.is_untouched()
                    && progress.cursor(|| job.digest()).is_none()
            };
            let (joined, rest): (Vec<Job>, Vec<Job>) = self.queue.drain(..).partition(waits);
            self.queue.extend(rest);
            new.extend(joined.iter().flat_map(|job| job.values.iter().cloned()));
            let new: Vec<Arc<str>> = new.into_iter().collect();
            self.queue.extend(Job::of_values(*class, &new, None));
        }
        if self.pass.is_none() && self.queue.iter().any(Job::is_history) {
            self.pass = Some(Pass::partial(now));
        }
    }

    /// Sees that a class that was refused is asked for when its pause is over: before that was answered,
    /// nothing subscribes to it again (G02-29).
    pub(super) fn add_probe(&mut self, class: Class, plan: &Plan) {
        let is_of = |job: &Job| job.class == class && job.is_history();
        let active = self.active.iter().map(|request| &request.job);
        if active.chain(&self.queue).any(is_of) {
            return;
        }
        let values = plan.values.get(&class);
        let jobs = values.map(|values| Job::of_values(class, values.as_slice(), None));
        self.queue.extend(jobs.into_iter().flatten());
    }

    pub(super) fn set_spacing(&mut self, spacing: Duration) {
        self.spacing = spacing.max(SPACING);
    }

    pub(super) fn is_in_pass(&self) -> bool {
        self.pass.is_some()
    }

    /// Says whether nothing is left to be asked for that is known to be there.
    pub(super) fn is_settled(&self) -> bool {
        self.pass.is_none() && self.missing.is_empty()
    }

    pub(super) fn is_active(&self) -> bool {
        self.active.is_some()
    }

    pub(super) fn page_size(&self) -> u64 {
        self.page
    }

    pub(super) fn uses_nip77(&self) -> bool {
        self.nip77.is_known
    }

    pub(super) fn without_nip77(&mut self) {
        self.nip77.is_known = false;
    }

    /// Says whether a request of this name is under way, of whatever kind.
    pub(super) fn has(&self, subscription: &str) -> bool {
        self.knows(subscription) || self.is_reconciling(Some(subscription))
    }

    pub(super) fn knows(&self, subscription: &str) -> bool {
        let active = self.active.as_ref();
        active.is_some_and(|request| request.is_open_as(subscription))
    }

    /// Says whether a request is under way or may start now.
    pub(super) fn has_work(&self, progress: &Progress, now: Now) -> bool {
        self.active.is_some()
            || (progress.background(now.unix).is_none()
                && (self.missing.is_due(now.at) || self.next(progress, now).is_some()))
    }

    fn next(&self, progress: &Progress, now: Now) -> Option<usize> {
        let may_reconcile = self.may_reconcile(now);
        let may = |job: &Job| {
            let can_start = !job.is_everything() || may_reconcile;
            can_start && progress.refused(job.class, now.unix).is_none()
        };
        self.queue.iter().position(may)
    }

    /// Starts the next request, if one may start.
    pub(super) fn start_next(
        &mut self,
        names: &mut Names,
        progress: &Progress,
        now: Now,
        out: &mut Vec<Output>,
    ) {
        let is_early = self.not_before.is_some_and(|at| at > now.at);
        if self.active.is_some() || !self.has_turn || is_early {
            return;
        }
        if progress.background(now.unix).is_some() {
            return;
        }
        let job = match self.missing.take_due(now.at) {
            Some(ids) => Job::missing(ids),
            None => match self.next(progress, now) {
                Some(at) => self.queue.remove(at).expect("the position was just found"),
                None => return,
            },
        };
        self.not_before = Some(now.at + self.spacing);
        // What was refused for a day is read in a pass of its own.
        if self.pass.is_none() && job.is_history() {
            self.pass = Some(Pass::partial(now));
        }
        self.start(job, names, progress, now, out);
    }

    fn start(
        &mut self,
        job: Job,
        names: &mut Names,
        progress: &Progress,
        now: Now,
        out: &mut Vec<Output>,
    ) {
        self.next_id += 1;
        let mut request = Request::new(self.next_id, names.next(), job, now);
        let may_reconcile = self.may_reconcile(now);
        let compared = match &request.job.work {
            Work::Check { items } if may_reconcile => Some(items.clone()),
            _ => None,
        };
        if request.job.is_everything() {
            out.push(Output::LoadEverything);
        } else if let Some(text) =
            compared.and_then(|items| request.reconcile_with(Some(items), now))
        {
            out.push(Output::Send(text));
        } else if request.job.may_reconcile() && may_reconcile {
            out.push(Output::LoadSet(request.job.filter()));
        } else {
            let cursor = progress.cursor(|| request.job.digest());
            out.push(Output::Send(request.begin(cursor)));
        }
        self.active = Some(request);
    }

    /// Counts an event of the request under way; none if it belongs to no request.
    pub(super) fn deliver(
        &mut self,
        subscription: &str,
        created_at: u64,
        now: Now,
    ) -> Option<(Arc<[Filter]>, u64)> {
        let request = self.active.as_mut()?;
        request.deliver(subscription, created_at, now)
    }

    pub(super) fn wake_at(&self, progress: &Progress, now: Now) -> Instant {
        let far = now.at + Duration::from_secs(3_600);
        if let Some(request) = &self.active {
            return request.deadline();
        }
        let pause = progress.background(now.unix).unwrap_or_default();
        let start = self.not_before.unwrap_or(now.at).max(now.at + pause);
        // Who waits for a turn is woken by it.
        let counts = |at: &Instant| self.has_turn || *at > now.at;
        let queued = self.next(progress, now).map(|_| start).filter(counts);
        let missing = self.missing.due().map(|due| due.max(start)).filter(counts);
        let polls = self.polls.iter().filter(|poll| !poll.is_queued);
        let poll = polls.map(|poll| poll.due).min();
        let poll = poll.map(|due| due.max(self.next_poll.unwrap_or(due)));
        // One that waits already is woken by its turn.
        let held = self.held.due.filter(|due| *due > now.at);
        let next = [queued, missing, poll, held].into_iter().flatten().min();
        next.unwrap_or(far)
    }
}
