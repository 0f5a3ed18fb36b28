//! NIP-77: comparisons of what is here with what a relay has, and what they lead to (G02-23).

use std::time::Duration;

use tokio::time::Instant;

use super::{
    super::{Names, Now, Output, Progress, everything::UNSUITABLE},
    History, Item,
    job::Job,
    request::{self, Phase, Request},
};
use crate::{message, refusal::Refusal};

/// How long NIP-77 is left alone after it failed (G02-23).
const NIP77_PAUSES: [u64; 4] = [60, 300, 1_800, 7_200];

/// Whether NIP-77 is used with this relay.
pub(super) struct Nip77 {
    pub(super) is_known: bool,
    pub(super) failures: usize,
    pub(super) not_before: Option<Instant>,
}

impl History {
    /// Hears the set to compare with.
    pub(in crate::session) fn set_loaded(
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
    pub(in crate::session) fn reconcile(
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

    pub(in crate::session) fn reconcile_refused(
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
        // Not for what was asked: it is asked again.
        if matches!(refusal, Refusal::AuthRequired | Refusal::TooManyBytes(_)) {
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
    pub(in crate::session) fn nip77_unknown(
        &mut self,
        names: &mut Names,
        now: Now,
        out: &mut Vec<Output>,
    ) {
        if self.is_reconciling(None) {
            self.nip77.is_known = false;
            self.page_instead(names, now, out);
        }
    }

    pub(super) fn may_reconcile(&self, now: Now) -> bool {
        let nip77 = &self.nip77;
        nip77.is_known && nip77.not_before.is_none_or(|at| at <= now.at)
    }

    pub(super) fn is_reconciling(&self, subscription: Option<&str>) -> bool {
        self.active.as_ref().is_some_and(|request| {
            let is_it = subscription.is_none_or(|name| request.name == name);
            is_it && matches!(request.phase, Phase::Reconciling(_))
        })
    }

    pub(super) fn nip77_failed(&mut self, now: Now) {
        let last = NIP77_PAUSES.len() - 1;
        let pause = NIP77_PAUSES[self.nip77.failures.min(last)];
        self.nip77.failures += 1;
        self.nip77.not_before = Some(now.at + Duration::from_secs(pause));
    }

    /// Asks by pages what could not be compared.
    pub(super) fn page_instead(&mut self, names: &mut Names, now: Now, out: &mut Vec<Output>) {
        if let Some(request) = self.active.take() {
            self.ask(request.job, names, now, out);
        }
    }

    /// Asks by REQ, from the beginning.
    fn ask(&mut self, job: Job, names: &mut Names, now: Now, out: &mut Vec<Output>) {
        self.next_id += 1;
        let mut request = Request::new(self.next_id, names.next(), job, now);
        out.push(Output::Send(request.begin(None)));
        self.active = Some(request);
    }

    /// Fetches what a reconciliation found missing: the first part at once, as a part of the same
    /// request.
    pub(super) fn fetch(
        &mut self,
        ids: Vec<[u8; 32]>,
        names: &mut Names,
        now: Now,
        out: &mut Vec<Output>,
    ) {
        let Some(request) = self.active.take() else {
            return;
        };
        out.push(Output::Save);
        if !ids.is_empty() {
            self.ask(Job::fetch(ids, request.job), names, now, out);
        }
    }
}
