//! Comparisons of everything that a relay has, and questions for single events, as parts of history.

use super::{
    super::{
        Fate, Names, Now, Output, Progress,
        everything::{MIN_PLAN_BYTES, UNSUITABLE},
    },
    History, Item,
    job::{Job, Work},
};
use crate::plan::{Class, Plan};

impl History {
    pub(super) fn is_comparing_all(&self) -> bool {
        let active = self.active.as_ref();
        active.is_some_and(|request| request.job.is_everything())
    }

    /// Takes the result of a comparison of everything, and fetches what is new.
    pub(super) fn compared_all(
        &mut self,
        needed: Vec<[u8; 32]>,
        lacking: Vec<[u8; 32]>,
        progress: &mut Progress,
        names: &mut Names,
        now: Now,
        out: &mut Vec<Output>,
    ) {
        let everything = progress.everything.get_or_insert_default();
        if everything.is_too_different(needed.len() + lacking.len(), self.compared) {
            return self.abandon_everything(UNSUITABLE, progress, now, out);
        }
        let needed = everything.compared(needed, lacking);
        self.has_compared_all = true;
        out.push(Output::ComparedAll {
            lacking: everything.lacks(),
        });
        self.fetch(needed, names, now, out);
    }

    /// Ends a comparison of everything that leads nowhere.
    pub(super) fn abandon_everything(
        &mut self,
        pause: u64,
        progress: &mut Progress,
        now: Now,
        out: &mut Vec<Output>,
    ) {
        self.active = None;
        self.leave_everything(pause, progress, now, out);
    }

    /// Reads by values again.
    pub(super) fn leave_everything(
        &mut self,
        pause: u64,
        progress: &mut Progress,
        now: Now,
        out: &mut Vec<Output>,
    ) {
        self.queue.retain(|job| !job.is_everything());
        self.has_compared_all = false;
        // What was left to the comparison is not read by this pass.
        if let Some(pass) = &mut self.pass {
            pass.is_full = false;
        }
        progress.leave_everything(pause, now.unix);
        out.push(Output::SaveEverything);
    }

    /// Remembers what a relay has that is not wanted of it.
    pub(super) fn note_foreign(
        &mut self,
        fates: &[(Option<u64>, [u8; 32], Fate)],
        progress: &mut Progress,
        now: Now,
        out: &mut Vec<Output>,
    ) {
        let Some(everything) = &mut progress.everything else {
            return;
        };
        for (_, id, fate) in fates {
            if let Fate::Foreign(created_at) = fate {
                everything.add_foreign(*id, *created_at);
            }
        }
        if everything.is_too_different(0, self.compared) {
            self.leave_everything(UNSUITABLE, progress, now, out);
        }
    }

    /// After everything that is wanted was read, all that the relay has is compared once; from then
    /// on that stands for reading it by values.
    pub(super) fn compare_all_next(
        &mut self,
        plan: &Plan,
        progress: &mut Progress,
        now: Now,
        out: &mut Vec<Output>,
    ) {
        if std::mem::take(&mut self.has_compared_all)
            && let Some(everything) = &mut progress.everything
        {
            everything.is_established = true;
            return out.push(Output::SaveEverything);
        }
        let may_try = self.is_grasp && self.nip77.is_known;
        if may_try && progress.may_try_everything(now.unix) && plan.size_bytes() >= MIN_PLAN_BYTES {
            self.queue.push_back(Job::everything());
        }
    }

    /// Says whether what a request delivers may be anything.
    pub(in crate::session) fn is_everything(&self) -> bool {
        let active = self.active.as_ref();
        active.is_some_and(|request| request.job.class == Class::Everything)
    }

    /// Asks whether the relay has these events, unless it is being asked already.
    pub(in crate::session) fn check(&mut self, items: Vec<Item>) {
        let is_asked = |job: &Job| job.is_check();
        if !items.is_empty() && !self.queue.iter().any(is_asked) {
            self.queue.push_back(Job::check(items));
        }
    }

    /// Ends a check: of the events that were asked for, these are not there.
    pub(super) fn checked(&mut self, lacking: Vec<[u8; 32]>, out: &mut Vec<Output>) {
        if let Some(request) = self.active.take()
            && let Work::Check { items } = request.job.work
        {
            let asked = items.into_iter().map(|(_, id)| id).collect();
            out.push(Output::Checked { asked, lacking });
        }
    }
}
