//! Ends of requests and of passes: what counts, what is asked for again, what is given up
//! (G02-19 … G02-22, G02-24, G02-28).

use std::time::Duration;

use super::{
    super::{
        Fate, Names, Now, Output, Progress, close,
        everything::{FAILED, UNSUITABLE},
    },
    History, UNKNOWN_ID,
    job::{Job, Work},
    request::{Phase, Request},
};
use crate::{
    message,
    plan::{Class, Plan},
    refusal::Refusal,
};

/// Pages of one filter, so that no relay keeps us busy for ever.
const MAX_PAGES: u32 = 2_000;
/// A page of fewer events is never taken for full.
const MIN_FULL_PAGE: u64 = 90;

impl History {
    pub(in crate::session) fn eose(
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

    pub(in crate::session) fn admitted(
        &mut self,
        fates: &[(Option<u64>, [u8; 32], Fate)],
        progress: &mut Progress,
        now: Now,
        out: &mut Vec<Output>,
    ) {
        // What a live subscription delivered and could not be decided is asked for again.
        let is_lost =
            |(job, _, fate): &&(Option<u64>, [u8; 32], Fate)| job.is_none() && fate.is_undecided();
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
                request.heard = now.at;
            }
        }
        self.finish(progress, now, out);
    }

    /// Ends the request under way if everything of it is here and decided.
    pub(super) fn finish(&mut self, progress: &mut Progress, now: Now, out: &mut Vec<Output>) {
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
            progress.has_failed = true;
            self.retry(&request.undecided, 1, now);
        }
        // Ids are asked for whatever they are of: that says nothing of the class.
        if !matches!(request.phase, Phase::Ids { .. }) {
            progress.allow(request.job.class, now.unix);
        }
        match &request.job.work {
            Work::Fetch { .. } => self.fetched(request, progress, now, out),
            Work::History { .. } | Work::Poll { .. } => self.paged(request, progress, now),
            Work::Check { .. } | Work::Everything => {}
        }
        out.push(Output::Save);
    }

    pub(super) fn paged(&mut self, request: Request, progress: &mut Progress, now: Now) {
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
                    progress.move_cursor(&job.digest(), until, now.unix);
                }
                // The pages of a poll take turns with other requests: strangers may fill them without end.
                if matches!(job.work, Work::Poll { .. }) {
                    self.queue.push_back(job);
                } else {
                    self.queue.push_front(job);
                }
            }
            (None, _) => self.done(job, progress, now),
            _ => self.failed(job, progress, now),
        }
    }

    pub(super) fn fetched(
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
    pub(super) fn retry(&mut self, ids: &[[u8; 32]], attempt: u32, now: Now) {
        let has_lost = self.missing.add(ids, attempt, now.at);
        if let Some(pass) = &mut self.pass {
            pass.has_gaps |= has_lost;
        }
    }

    pub(super) fn done(&mut self, job: Job, progress: &mut Progress, now: Now) {
        progress.drop_cursor(&job.digest());
        self.end_poll(&job, true, now);
    }

    /// Puts a request back that did not come to its end: nothing of it counts.
    pub(super) fn failed(&mut self, job: Job, progress: &mut Progress, now: Now) {
        progress.has_failed = true;
        progress.leave_incomplete(now.unix);
        self.put_back(job, now);
    }

    pub(super) fn put_back(&mut self, job: Job, now: Now) {
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
    pub(in crate::session) fn refused(
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
            // Where there was no room for it, subscriptions end for it.
            Refusal::RateLimited
            | Refusal::TooManyQueries
            | Refusal::TooManyBytes(_)
            | Refusal::AuthRequired => self.put_back(request.into_job(), now),
            Refusal::Policy | Refusal::TooManyFilters => {
                progress.refuse(request.job.class, now.unix);
                self.put_back(request.into_job(), now);
            }
            Refusal::Unknown => self.failed(request.into_job(), progress, now),
        }
    }

    /// Ends a request that takes too long. `waited` says that we did not read from the relay.
    pub(in crate::session) fn expire(
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
    pub(in crate::session) fn end_pass(
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
            progress.has_failed = false;
            out.push(Output::PassEnded {
                is_full: pass.is_full,
                has_gaps: pass.has_gaps,
                took: Duration::from_secs(now.unix.saturating_sub(pass.began)),
            });
            if pass.has_gaps {
                progress.pass_failed(pass.began);
            } else {
                progress.pass_ended(plan, pass.is_full, pass.began, now.unix);
                self.compare_all_next(plan, progress, now, out);
            }
            out.push(Output::Save);
        }
    }
}
