//! Progress with one relay: what is confirmed and which pauses last, over connections and restarts.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::{RemoteLimits, everything::Everything};
use crate::{
    pause::{POLICY_PAUSE, POLITE, Pause},
    plan::{Class, Plan, Values},
};

/// A connection that comes back within this time is asked only for what is newer (G02-25).
const QUICK: u64 = 900;
/// How much of what was confirmed is asked for again.
const OVERLAP: u64 = 900;
/// The time between two full passes, give or take an hour.
const FULL_EVERY: u64 = 23 * 3_600;
const FULL_JITTER: u64 = 2 * 3_600;
/// How soon everything is read again after something could not be decided.
const LOOK_AGAIN: u64 = 65;
/// Cursors of unfinished histories that are kept.
const MAX_CURSORS: usize = 64;
/// A cursor of an older history is of no use: too much is new.
const CURSOR_LIFETIME: u64 = 86_400;

/// All times are seconds since 1970.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Progress {
    /// Everything before is here, of the values that are covered.
    confirmed_at: Option<u64>,
    /// The newest event that the relay delivered: by our clock alone, one that is ahead would skip
    /// what came meanwhile.
    newest: Option<u64>,
    /// The last full pass began then.
    full_at: Option<u64>,
    /// The next one is due then.
    full_due: u64,
    /// The plan that was covered when this was saved.
    plan: String,
    /// How far unfinished pages have come, by filter.
    cursors: BTreeMap<String, Cursor>,
    /// After refusals by rate.
    rate: Pause,
    /// After requests that were not answered to the end.
    incomplete: Pause,
    /// Classes that were refused by policy, and until when they are left alone.
    policy: BTreeMap<Class, u64>,
    /// A pass ended without something that the relay said it has, and no full one succeeded since
    /// (G02-46).
    pub(super) is_degraded: bool,
    /// A request of the pass under way failed. A pass that is cut off by the end of the connection or of
    /// the process has not ended, so the next one has to.
    pub(super) has_failed: bool,
    /// Bytes that all open subscriptions may have together, where the relay said so (G02-18).
    max_active_bytes: Option<u64>,
    /// Bytes of what was open when the relay refused more of it, on this connection: relays count in
    /// their own way, and some do not say how many they allow.
    #[serde(skip)]
    open_when_refused: Option<u64>,
    /// What the relay said about itself the last time it said anything.
    limits: Option<RemoteLimits>,
    /// All that the relay has, once it was compared at once.
    #[serde(skip)]
    pub(crate) everything: Option<Everything>,
    /// It is not compared at once before then.
    everything_after: u64,
    /// Values whose history is here.
    #[serde(skip)]
    covered: BTreeMap<Class, Values>,
    /// Pauses that began and were not reported: one of each reason at most between two reports.
    #[serde(skip)]
    began: Vec<(PauseReason, Duration)>,
}

/// Why requests are not made for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PauseReason {
    /// The relay asked for fewer requests.
    Rate,
    /// A request was not answered to the end.
    Incomplete,
    /// The relay refuses requests of this class.
    Policy(Class),
}

impl fmt::Display for PauseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate => f.write_str("it limits the rate of requests"),
            Self::Incomplete => f.write_str("a request was not answered to the end"),
            Self::Policy(class) => write!(f, "it refuses requests of class {class:?}"),
        }
    }
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Cursor {
    until: u64,
    began: u64,
}

impl Progress {
    /// Takes a saved plan for covered if it is still the plan.
    pub(super) fn restore(&mut self, plan: &Plan, now: u64) {
        // The relay has forgotten what was open.
        self.open_when_refused = None;
        // A comparison that was cut off says nothing.
        self.everything.take_if(|it| !it.is_established);
        let is_same = self.plan == self.digest(plan, now);
        if self.covered.is_empty() && self.confirmed_at.is_some() {
            // What was foreign to the plan of before may be wanted by now: it is looked at again.
            let everything = self.everything.as_mut().filter(|_| !is_same);
            let is_compared = everything.map(Everything::forget_foreign).is_some();
            if is_same || is_compared {
                self.cover(plan, now);
            }
        }
        // A clock that was set back must not make the future count as confirmed.
        if self.confirmed_at.is_some_and(|at| at > now) {
            self.start_over();
        }
        self.cursors
            .retain(|_, cursor| now.saturating_sub(cursor.began) < CURSOR_LIFETIME);
    }

    /// Bytes that all open subscriptions may have together, as far as that is known.
    pub(super) fn active_bytes(&self) -> Option<u64> {
        let known = [self.max_active_bytes, self.open_when_refused];
        known.into_iter().flatten().min()
    }

    /// Notes how many bytes the relay says all open subscriptions may have; says whether that is news.
    pub(super) fn hear_active_bytes(&mut self, most: u64) -> bool {
        self.max_active_bytes.replace(most) != Some(most)
    }

    /// Notes that the relay refused more than the bytes that were open; says whether fewer are left.
    pub(super) fn refuse_active_bytes(&mut self, open: u64) -> bool {
        let is_news = self.active_bytes().is_none_or(|most| open < most);
        if is_news {
            self.open_when_refused = Some(open);
        }
        is_news
    }

    /// Notes what the relay says about itself; other limits than before make everything unknown
    /// (G02-25). A relay that says nothing says nothing new.
    pub(super) fn hear_limits(&mut self, limits: RemoteLimits) {
        if limits == RemoteLimits::default() {
            return;
        }
        if self.limits.is_some_and(|known| known != limits) {
            self.start_over();
            self.cursors.clear();
        }
        self.limits = Some(limits);
    }

    /// Covers what is asked for at the moment; classes that the relay refuses are not.
    fn cover(&mut self, plan: &Plan, now: u64) {
        let asked = plan.values.iter();
        let asked = asked.filter(|(class, _)| self.refused(**class, now).is_none());
        self.covered = asked
            .map(|(class, values)| (*class, values.clone()))
            .collect();
    }

    fn digest(&self, plan: &Plan, now: u64) -> String {
        plan.digest_of(|class| self.refused(class, now).is_none())
    }

    /// Everything counts as unknown again.
    pub(super) fn start_over(&mut self) {
        self.confirmed_at = None;
        self.covered.clear();
    }

    /// Says whether everything that the relay has is compared and subscribed to at once.
    pub(super) fn has_everything(&self, now: u64) -> bool {
        let everything = self.everything.as_ref();
        everything.is_some_and(|it| it.is_established)
            && self.refused(Class::Everything, now).is_none()
    }

    /// Says whether that may be tried.
    pub(super) fn may_try_everything(&self, now: u64) -> bool {
        !self.everything.as_ref().is_some_and(|it| it.is_established)
            && now >= self.everything_after
            && self.refused(Class::Everything, now).is_none()
    }

    /// Asks by values again, for some time at least, and for all of them soon.
    pub(super) fn leave_everything(&mut self, pause: u64, now: u64) {
        self.everything_after = now + pause;
        if self.everything.take().is_some_and(|it| it.is_established) {
            self.start_over();
            self.full_due = now;
        }
    }

    pub(super) fn is_covered(&self, class: Class, value: &str) -> bool {
        let covered = self.covered.get(&class);
        self.confirmed_at.is_some() && covered.is_some_and(|covered| covered.contains(value))
    }

    /// Notes a plan of which everything is covered, though it has fewer values than before.
    pub(super) fn note_plan(&mut self, plan: &Plan, now: u64) {
        let asked = plan.values.iter();
        let mut asked = asked.filter(|(class, _)| self.refused(**class, now).is_none());
        let is_whole = asked.all(|(class, values)| {
            let covered = self.covered.get(class);
            self.confirmed_at.is_some() && covered.is_some_and(|covered| values.is_within(covered))
        });
        if is_whole {
            self.plan = self.digest(plan, now);
            // The values of the plan of before are not kept for it.
            for (class, covered) in &mut self.covered {
                if let Some(values) = plan.values.get(class)
                    && values.is_within(covered)
                {
                    *covered = values.clone();
                }
            }
        }
    }

    /// From when on a value has to be asked for; none for all of its history.
    pub(super) fn since(&self, class: Class, value: &str, now: u64) -> Option<u64> {
        let at = self
            .confirmed_at
            .filter(|at| now.saturating_sub(*at) <= QUICK)?;
        let covered = self.covered.get(&class)?.contains(value);
        let at = at.min(self.newest?);
        covered.then(|| at.saturating_sub(OVERLAP))
    }

    /// Notes when a delivered event says it was made.
    pub(super) fn hear_event(&mut self, created_at: u64, now: u64) {
        if created_at <= now {
            self.newest = self.newest.max(Some(created_at));
        }
    }

    /// From when on something is polled that was polled at `cursor`.
    pub(super) fn poll_since(&self, cursor: u64, overlap: u64) -> u64 {
        let newest = self.newest.unwrap_or_default();
        cursor.min(newest).saturating_sub(overlap)
    }

    /// The values of a class whose history is here.
    pub(crate) fn covered(&self, class: Class) -> Values {
        self.covered.get(&class).cloned().unwrap_or_default()
    }

    pub(super) fn forget_dropped(&mut self, plan: &Plan) {
        for (class, covered) in &mut self.covered {
            let wanted = plan.values.get(class);
            if !wanted.is_some_and(|wanted| covered.is_within(wanted)) {
                let left = covered.iter().filter(|value| plan.contains(*class, value));
                *covered = left.cloned().collect();
            }
        }
    }

    /// Notes that a pass over all of `plan` has ended which began at `began`.
    pub(super) fn pass_ended(&mut self, plan: &Plan, is_full: bool, began: u64, now: u64) {
        self.cover(plan, now);
        self.plan = self.digest(plan, now);
        self.confirmed_at = Some(began);
        self.cursors.clear();
        if is_full {
            self.full_at = Some(began);
            self.is_degraded = false;
            self.plan_full(began);
        }
    }

    /// Notes that a pass ended without everything: nothing is confirmed by it.
    pub(super) fn pass_failed(&mut self, began: u64) {
        self.is_degraded = true;
        self.start_over();
        self.cursors.clear();
        self.plan_full(began);
    }

    /// Something was delivered that cannot be asked for singly: everything is read again soon.
    pub(super) fn look_again(&mut self, now: u64) {
        self.full_due = now + LOOK_AGAIN;
    }

    fn plan_full(&mut self, began: u64) {
        self.full_due = began + FULL_EVERY + rand::random_range(0..FULL_JITTER);
    }

    pub(super) fn confirm(&mut self, heard: u64) {
        if let Some(at) = &mut self.confirmed_at {
            *at = heard.max(*at);
        }
    }

    pub(super) fn is_full_due(&self, now: u64) -> bool {
        self.full_due > 0 && now >= self.full_due
    }

    pub(crate) fn full_at(&self) -> Option<u64> {
        self.full_at
    }

    #[cfg(test)]
    pub(crate) fn confirmed_at(&self) -> Option<u64> {
        self.confirmed_at
    }

    /// How far an unfinished history has come; `digest` is of its filter, which is made only where there
    /// is any.
    pub(super) fn cursor(&self, digest: impl FnOnce() -> String) -> Option<u64> {
        if self.cursors.is_empty() {
            return None;
        }
        self.cursors.get(&digest()).map(|cursor| cursor.until)
    }

    pub(super) fn move_cursor(&mut self, filter: &str, until: u64, now: u64) {
        if self.cursors.len() >= MAX_CURSORS && !self.cursors.contains_key(filter) {
            return;
        }
        let new = Cursor { until, began: now };
        let cursor = self.cursors.entry(filter.to_owned()).or_insert(new);
        cursor.until = until;
    }

    pub(super) fn drop_cursor(&mut self, filter: &str) {
        self.cursors.remove(filter);
    }

    /// Pauses all requests for a refusal by rate.
    pub(crate) fn limit_rate(&mut self, now: u64) {
        let began = self.rate.hit(POLITE, now);
        self.note_pause(PauseReason::Rate, began);
    }

    /// Pauses requests for history after one that was not answered to the end.
    pub(super) fn leave_incomplete(&mut self, now: u64) {
        let began = self.incomplete.hit(POLITE, now);
        self.note_pause(PauseReason::Incomplete, began);
    }

    pub(super) fn refuse(&mut self, class: Class, now: u64) {
        self.policy.insert(class, now + POLICY_PAUSE);
        let began = Duration::from_secs(POLICY_PAUSE);
        self.note_pause(PauseReason::Policy(class), Some(began));
    }

    fn note_pause(&mut self, reason: PauseReason, began: Option<Duration>) {
        let is_noted = self.began.iter().any(|(noted, _)| *noted == reason);
        self.began
            .extend(began.filter(|_| !is_noted).map(|it| (reason, it)));
    }

    /// The pauses that began since they were reported last.
    pub(super) fn take_began(&mut self) -> Vec<(PauseReason, Duration)> {
        std::mem::take(&mut self.began)
    }

    /// How long a class is still left alone for what the relay refused.
    pub(super) fn refused(&self, class: Class, now: u64) -> Option<Duration> {
        let left = self
            .policy
            .get(&class)?
            .saturating_sub(now)
            .min(POLICY_PAUSE);
        (left > 0).then(|| Duration::from_secs(left))
    }

    /// Says whether a class was refused and no request of it was answered since: what is asked for after
    /// the pause is one probe, not a subscription beside it (G02-29).
    pub(super) fn is_left_out(&self, class: Class) -> bool {
        self.policy.contains_key(&class)
    }

    /// Notes that a request of a class was answered to its end; what was under way when the class was refused
    /// says nothing.
    pub(super) fn allow(&mut self, class: Class, now: u64) {
        if self.refused(class, now).is_none() {
            self.policy.remove(&class);
        }
    }

    pub(crate) fn is_refused(&self, now: u64) -> bool {
        let mut classes = self.policy.keys();
        classes.any(|class| self.refused(*class, now).is_some())
    }

    /// How long no request at all may start.
    pub(super) fn rate_limited(&self, now: u64) -> Option<Duration> {
        self.rate.left(POLITE, now)
    }

    /// How long no background request may start.
    pub(super) fn background(&self, now: u64) -> Option<Duration> {
        let rate = self.rate_limited(now);
        rate.max(self.incomplete.left(POLITE, now))
    }

    pub(crate) fn is_rate_limited(&self, now: u64) -> bool {
        self.rate_limited(now).is_some()
    }
}
