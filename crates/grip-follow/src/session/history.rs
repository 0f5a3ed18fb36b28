//! History: a queue of requests, one at a time, by NIP-77 where the relay knows it and by pages of
//! REQ where not (G02-19 … G02-28).

mod everything;
mod job;
mod missing;
mod request;

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use grip_nostr::Filter;
use tokio::time::Instant;

use self::{
    job::{Job, Work},
    missing::Missing,
    request::{Phase, Request},
};
use super::{
    Fate, Names, Now, Output, Progress, RemoteLimits, close,
    everything::{FAILED, UNSUITABLE},
    live::Wanted,
};
use crate::{
    message,
    pause::POLITE,
    plan::{self, Class, Plan},
    refusal::Refusal,
};

pub(crate) use self::request::{Item, UNKNOWN_ID};

/// The least time between the starts of two requests (G02-26).
const SPACING: Duration = Duration::from_secs(1);
/// How often a filter that has no live subscription is asked for, and how much of the time before
/// again (G02-15).
const POLL_EVERY: Duration = Duration::from_secs(60);
const POLL_OVERLAP: u64 = 900;
/// The same where the bytes of all subscriptions are limited (G02-18).
const TIGHT_POLL_EVERY: Duration = Duration::from_secs(300);
const TIGHT_POLL_OVERLAP: u64 = 60;
/// The time between two polls.
const POLL_TICK: Duration = Duration::from_secs(5);
/// Pages of one filter, so that no relay keeps us busy for ever.
const MAX_PAGES: u32 = 2_000;
/// A page of fewer events is never taken for full.
const MIN_FULL_PAGE: u64 = 90;
/// How long NIP-77 is left alone after it failed (G02-23).
const NIP77_PAUSES: [u64; 4] = [60, 300, 1_800, 7_200];

pub(super) struct History {
    queue: VecDeque<Job>,
    active: Option<Request>,
    missing: Missing,
    polls: Vec<Poll>,
    next_poll: Option<Instant>,
    poll_every: Duration,
    /// What the polls were made for.
    polls_version: u64,
    pass: Option<Pass>,
    has_failed: bool,
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

struct Poll {
    wanted: Wanted,
    cursor: u64,
    due: Instant,
    is_queued: bool,
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

/// Whether NIP-77 is used with this relay.
struct Nip77 {
    is_known: bool,
    failures: usize,
    not_before: Option<Instant>,
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
            pass: None,
            has_failed: false,
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
        self.queue.clear();
        self.has_failed = false;
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
                job.class == *class && job.is_untouched() && progress.cursor(&job.digest).is_none()
            };
            let (joined, rest): (Vec<Job>, Vec<Job>) = self.queue.drain(..).partition(waits);
            self.queue.extend(rest);
            new.extend(joined.into_iter().flat_map(|job| job.values));
            let new: Vec<Arc<str>> = new.into_iter().collect();
            self.queue.extend(Job::of_values(*class, &new, None));
        }
        if self.pass.is_none() && self.queue.iter().any(Job::is_history) {
            self.pass = Some(Pass::partial(now));
        }
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

    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
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

    /// Keeps the polls to what has no live subscription, and queues one that is due.
    pub(super) fn poll(
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
            out.push(Output::LoadSet(request.job.filter.clone()));
        } else {
            let text = request.begin(progress.cursor(&request.job.digest));
            out.push(Output::Send(text));
        }
        self.active = Some(request);
    }

    /// Hears the set to compare with.
    pub(super) fn set_loaded(
        &mut self,
        mut items: Option<Vec<Item>>,
        progress: &mut Progress,
        names: &mut Names,
        now: Now,
        out: &mut Vec<Output>,
    ) {
        let Some(request) = self.active.as_mut() else {
            return;
        };
        if !matches!(request.phase, Phase::Loading) {
            return;
        }
        if request.job.is_everything() {
            let Some(ours) = items else {
                return self.abandon_everything(UNSUITABLE, progress, now, out);
            };
            self.compared = ours.len();
            let everything = progress.everything.get_or_insert_default();
            items = Some(everything.expected(ours));
        }
        match request.reconcile_with(items, now) {
            Some(text) => out.push(Output::Send(text)),
            None if self.is_comparing_all() => {
                self.abandon_everything(UNSUITABLE, progress, now, out);
            }
            None => self.page_instead(names, now, out),
        }
    }

    /// Hears a message of a reconciliation.
    pub(super) fn reconcile(
        &mut self,
        subscription: &str,
        message: &[u8],
        progress: &mut Progress,
        names: &mut Names,
        now: Now,
        out: &mut Vec<Output>,
    ) {
        let Some(request) = self.active.as_mut() else {
            return;
        };
        if request.name != subscription {
            return;
        }
        match request.reconciled(message, now) {
            request::Round::Next(text) => out.push(Output::Send(text)),
            request::Round::Done { needed, lacking } => {
                out.push(Output::Send(message::neg_close(subscription)));
                self.nip77.failures = 0;
                if request.job.is_check() {
                    return self.checked(lacking, out);
                }
                if request.job.is_everything() {
                    return self.compared_all(needed, lacking, progress, names, now, out);
                }
                request.report_lacking(lacking, out);
                self.fetch(needed, names, now, out);
            }
            request::Round::Broken => {
                out.push(Output::Send(message::neg_close(subscription)));
                if request.job.is_everything() {
                    return self.abandon_everything(UNSUITABLE, progress, now, out);
                }
                self.nip77_failed(now);
                self.page_instead(names, now, out);
            }
            request::Round::Stray => {}
        }
    }

    pub(super) fn reconcile_refused(
        &mut self,
        subscription: &str,
        refusal: Refusal,
        progress: &mut Progress,
        names: &mut Names,
        now: Now,
        out: &mut Vec<Output>,
    ) {
        if !self.is_reconciling(Some(subscription)) {
            return;
        }
        if refusal == Refusal::AuthRequired {
            let request = self.active.take();
            return self.queue.extend(request.map(Request::into_job));
        }
        if self.is_comparing_all() {
            return self.abandon_everything(UNSUITABLE, progress, now, out);
        }
        if refusal == Refusal::Policy {
            self.nip77.is_known = false;
        } else {
            self.nip77_failed(now);
        }
        self.page_instead(names, now, out);
    }

    /// Hears a NOTICE that speaks of NIP-77.
    pub(super) fn nip77_unknown(&mut self, names: &mut Names, now: Now, out: &mut Vec<Output>) {
        if self.is_reconciling(None) {
            self.nip77.is_known = false;
            self.page_instead(names, now, out);
        }
    }

    fn may_reconcile(&self, now: Now) -> bool {
        let nip77 = &self.nip77;
        nip77.is_known && nip77.not_before.is_none_or(|at| at <= now.at)
    }

    fn is_reconciling(&self, subscription: Option<&str>) -> bool {
        self.active.as_ref().is_some_and(|request| {
            let is_it = subscription.is_none_or(|name| request.name == name);
            is_it && matches!(request.phase, Phase::Reconciling(_))
        })
    }

    fn nip77_failed(&mut self, now: Now) {
        let last = NIP77_PAUSES.len() - 1;
        let pause = NIP77_PAUSES[self.nip77.failures.min(last)];
        self.nip77.failures += 1;
        self.nip77.not_before = Some(now.at + Duration::from_secs(pause));
    }

    /// Asks by pages what could not be compared.
    fn page_instead(&mut self, names: &mut Names, now: Now, out: &mut Vec<Output>) {
        let Some(request) = self.active.take() else {
            return;
        };
        self.next_id += 1;
        let mut request = Request::new(self.next_id, names.next(), request.job, now);
        out.push(Output::Send(request.begin(None)));
        self.active = Some(request);
    }

    /// Fetches what a reconciliation found missing: the first part at once, as a part of the same
    /// request.
    fn fetch(&mut self, ids: Vec<[u8; 32]>, names: &mut Names, now: Now, out: &mut Vec<Output>) {
        let Some(request) = self.active.take() else {
            return;
        };
        out.push(Output::Save);
        if ids.is_empty() {
            return;
        }
        let job = Job::fetch(ids, request.job);
        self.next_id += 1;
        let mut request = Request::new(self.next_id, names.next(), job, now);
        out.push(Output::Send(request.begin(None)));
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

    pub(super) fn eose(
        &mut self,
        subscription: &str,
        progress: &mut Progress,
        now: Now,
        out: &mut Vec<Output>,
    ) {
        let Some(request) = self.active.as_mut() else {
            return;
        };
        if request.is_open_as(subscription) {
            request.is_ended = true;
            close(subscription, out);
            self.finish(progress, now, out);
        }
    }

    pub(super) fn admitted(
        &mut self,
        fates: &[(Option<u64>, [u8; 32], Fate)],
        progress: &mut Progress,
        now: Now,
        out: &mut Vec<Output>,
    ) {
        // What a live subscription delivered and could not be decided is asked for again.
        let is_lost = |(job, _, fate): &&(Option<u64>, [u8; 32], Fate)| {
            job.is_none() && *fate == Fate::Failed
        };
        let lost = fates.iter().filter(is_lost).map(|(_, id, _)| *id);
        let (unknown, lost): (Vec<_>, Vec<_>) = lost.partition(|id| *id == UNKNOWN_ID);
        self.retry(&lost, 1, now);
        if !unknown.is_empty() {
            progress.look_again(now.unix);
        }
        self.note_foreign(fates, progress, now, out);
        let Some(request) = self.active.as_mut() else {
            return;
        };
        for (job, id, fate) in fates {
            if *job == Some(request.id) {
                request.decided(id, *fate);
            }
        }
        request.heard = now.at;
        self.finish(progress, now, out);
    }

    /// Ends the request under way if everything of it is here and decided.
    fn finish(&mut self, progress: &mut Progress, now: Now, out: &mut Vec<Output>) {
        let is_done = |request: &mut Request| request.is_ended && request.pending == 0;
        let Some(request) = self.active.take_if(is_done) else {
            return;
        };
        if request.has_failed {
            return self.failed(request.into_job(), progress, now);
        }
        if let (true, Phase::Ids { asked, .. }) = (request.job.is_check(), &request.phase) {
            let lacking = asked.iter().copied().collect();
            self.active = Some(request);
            return self.checked(lacking, out);
        }
        if !request.undecided.is_empty() {
            self.has_failed = true;
            self.retry(&request.undecided, 1, now);
        }
        match &request.job.work {
            Work::Fetch { .. } => self.fetched(request, progress, now, out),
            Work::History { .. } | Work::Poll { .. } => self.paged(request, progress, now),
            Work::Check { .. } | Work::Everything => {}
        }
        out.push(Output::Save);
    }

    fn paged(&mut self, request: Request, progress: &mut Progress, now: Now) {
        let least = (self.page * 9 / 10).max(MIN_FULL_PAGE);
        // A relay that caps its pages below what counts as full anyway says so, if at all, in its
        // document; the next page shows whether that is so (G02-20).
        let is_capped = self.default_limit == Some(request.delivered) && request.delivered > 0;
        let is_full = request.delivered >= least || is_capped;
        self.page = self.page.max(request.delivered);
        let (until, oldest) = (request.until(), request.oldest);
        let mut job = request.job;
        if !is_full {
            return self.done(job, progress, now);
        }
        let next = match (oldest, until) {
            // A relay that does not heed `until` would send the same page for ever.
            (None, _) => return self.failed(job, progress, now),
            (Some(oldest), Some(until)) if oldest >= until => until.checked_sub(1),
            (Some(oldest), _) => Some(oldest),
        };
        match (next, job.next_page(next)) {
            (Some(until), pages) if pages <= MAX_PAGES => {
                // After a kill, what is still asked for by id would be passed over.
                if self.missing.is_empty() {
                    progress.move_cursor(&job.digest, until, now.unix);
                }
                self.queue.push_front(job);
            }
            (None, _) => self.done(job, progress, now),
            _ => self.failed(job, progress, now),
        }
    }

    fn fetched(
        &mut self,
        request: Request,
        progress: &mut Progress,
        now: Now,
        out: &mut Vec<Output>,
    ) {
        let Work::Fetch {
            left,
            origin,
            attempt,
        } = request.job.work
        else {
            return;
        };
        let Phase::Ids { asked, wanted } = request.phase else {
            return;
        };
        let came = wanted - asked.len();
        if wanted >= 20
            && came * 10 <= wanted
            && let Some(origin) = origin
        {
            if origin.is_everything() {
                return self.abandon_everything(FAILED, progress, now, out);
            }
            // It names events that it does not give: ask for what was meant (G02-24).
            return self.queue.push_front(origin.without_nip77());
        }
        let asked: Vec<[u8; 32]> = asked.into_iter().collect();
        self.retry(&asked, attempt, now);
        if !left.is_empty() {
            let job = Job::fetch_more(left, origin, attempt);
            self.queue.push_front(job);
        }
    }

    /// Asks for single events again later, unless that was done often enough.
    fn retry(&mut self, ids: &[[u8; 32]], attempt: u32, now: Now) {
        let has_lost = self.missing.add(ids, attempt, now.at);
        if let Some(pass) = &mut self.pass {
            pass.has_gaps |= has_lost;
        }
    }

    fn done(&mut self, job: Job, progress: &mut Progress, now: Now) {
        progress.drop_cursor(&job.digest);
        self.end_poll(&job, true, now);
    }

    fn end_poll(&mut self, job: &Job, is_success: bool, now: Now) {
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

    /// Puts a request back that did not come to its end: nothing of it counts.
    fn failed(&mut self, job: Job, progress: &mut Progress, now: Now) {
        self.has_failed = true;
        progress.incomplete.hit(POLITE, now.unix);
        self.put_back(job, now);
    }

    fn put_back(&mut self, job: Job, now: Now) {
        self.end_poll(&job, false, now);
        match job.work {
            // Both are asked for again when they are due.
            Work::Poll { .. } | Work::Check { .. } => {}
            Work::History { .. } | Work::Fetch { .. } | Work::Everything => {
                self.queue.push_back(job);
            }
        }
    }

    /// Hears that the relay closed the request under way.
    pub(super) fn refused(
        &mut self,
        refusal: Refusal,
        progress: &mut Progress,
        now: Now,
        out: &mut Vec<Output>,
    ) {
        let Some(request) = self.active.take() else {
            return;
        };
        if request.job.class == Class::Everything && refusal == Refusal::Policy {
            return self.leave_everything(UNSUITABLE, progress, now, out);
        }
        match refusal {
            Refusal::RateLimited | Refusal::TooManyQueries | Refusal::AuthRequired => {
                self.put_back(request.into_job(), now);
            }
            Refusal::Policy | Refusal::TooManyFilters => {
                progress.refuse(request.job.class, now.unix);
                self.put_back(request.into_job(), now);
            }
            Refusal::Unknown | Refusal::TooManyBytes(_) => {
                self.failed(request.into_job(), progress, now);
            }
        }
    }

    /// Ends a request that takes too long. `waited` says that we did not read from the relay.
    pub(super) fn expire(
        &mut self,
        waited: bool,
        progress: &mut Progress,
        names: &mut Names,
        now: Now,
        out: &mut Vec<Output>,
    ) {
        if !self.nip77.is_known && self.queue.iter().any(Job::is_everything) {
            self.leave_everything(FAILED, progress, now, out);
        }
        let Some(request) = self.active.as_mut() else {
            return;
        };
        if waited {
            request.heard = now.at;
        }
        if request.deadline() > now.at && !request.is_flooded() {
            return;
        }
        if matches!(request.phase, Phase::Reconciling(_)) {
            out.push(Output::Send(message::neg_close(&request.name)));
            if request.job.is_everything() {
                return self.abandon_everything(FAILED, progress, now, out);
            }
            self.nip77_failed(now);
            return self.page_instead(names, now, out);
        }
        let request = self.active.take().expect("it was just looked at");
        if !request.is_ended {
            close(&request.name, out);
        }
        self.failed(request.into_job(), progress, now);
    }

    /// Notes the end of a pass in which nothing is left.
    pub(super) fn end_pass(
        &mut self,
        plan: &Plan,
        progress: &mut Progress,
        now: Now,
        out: &mut Vec<Output>,
    ) {
        // What the relay refuses by policy is not waited for; it stays queued for its probe.
        let is_awaited =
            |job: &Job| job.is_history() && progress.refused(job.class, now.unix).is_none();
        let is_left = self.queue.iter().any(is_awaited) || !self.missing.is_empty();
        if is_left || self.active.is_some() {
            return;
        }
        if let Some(pass) = self.pass.take() {
            self.has_failed = false;
            if pass.has_gaps {
                progress.pass_failed(pass.began);
                tracing::debug!("a relay did not give all that it said it has");
                return out.push(Output::Save);
            }
            progress.pass_ended(plan, pass.is_full, pass.began, now.unix);
            self.compare_all_next(plan, progress, now, out);
            tracing::debug!(
                full = pass.is_full,
                took = now.unix.saturating_sub(pass.began),
                "read the history of a relay"
            );
            out.push(Output::Save);
        }
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
        let next = [queued, missing, poll].into_iter().flatten().min();
        next.unwrap_or(far)
    }
}
