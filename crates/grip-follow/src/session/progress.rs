//! Progress with one relay: what is confirmed and which pauses last, over connections and restarts.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{
    pause::{POLICY_PAUSE, POLITE, Pause},
    plan::{Class, Plan},
};

/// A connection that comes back within this time is asked only for what is newer (G02-25).
const QUICK: u64 = 900;
/// How much of what was confirmed is asked for again.
const OVERLAP: u64 = 900;
/// The time between two full passes, give or take an hour.
const FULL_EVERY: u64 = 23 * 3_600;
const FULL_JITTER: u64 = 2 * 3_600;
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
    /// The last full pass began then.
    full_at: Option<u64>,
    /// The next one is due then.
    full_due: u64,
    /// The plan that was covered when this was saved.
    plan: String,
    /// How far unfinished pages have come, by filter.
    cursors: BTreeMap<String, Cursor>,
    /// After refusals by rate.
    pub(crate) rate: Pause,
    /// After requests that were not answered to the end.
    pub(crate) incomplete: Pause,
    /// Classes that were refused by policy, and until when they are left alone.
    policy: BTreeMap<Class, u64>,
    /// Values whose history is here.
    #[serde(skip)]
    covered: BTreeMap<Class, HashSet<Arc<str>>>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Cursor {
    until: u64,
    began: u64,
}

impl Progress {
    /// Takes a saved plan for covered if it is still the plan.
    pub(super) fn restore(&mut self, plan: &Plan, now: u64) {
        if self.covered.is_empty() && self.confirmed_at.is_some() && self.plan == plan.digest() {
            self.cover(plan);
        }
        // A clock that was set back must not make the future count as confirmed.
        if self.confirmed_at.is_some_and(|at| at > now) {
            self.start_over();
        }
        self.cursors
            .retain(|_, cursor| now.saturating_sub(cursor.began) < CURSOR_LIFETIME);
    }

    fn cover(&mut self, plan: &Plan) {
        let owned =
            |values: &std::collections::BTreeSet<Arc<str>>| values.iter().cloned().collect();
        let values = plan.values.iter();
        self.covered = values
            .map(|(class, values)| (*class, owned(values)))
            .collect();
    }

    /// Everything counts as unknown again.
    pub(super) fn start_over(&mut self) {
        self.confirmed_at = None;
        self.covered.clear();
    }

    /// From when on a value has to be asked for; none for all of its history.
    pub(super) fn since(&self, class: Class, value: &Arc<str>, now: u64) -> Option<u64> {
        let at = self
            .confirmed_at
            .filter(|at| now.saturating_sub(*at) <= QUICK)?;
        let covered = self.covered.get(&class)?.contains(value);
        covered.then(|| at.saturating_sub(OVERLAP))
    }

    pub(super) fn forget_dropped(&mut self, plan: &Plan) {
        for (class, covered) in &mut self.covered {
            covered.retain(|value| plan.contains(*class, value));
        }
    }

    /// Notes that a pass over all of `plan` has ended which began at `began`.
    pub(super) fn pass_ended(&mut self, plan: &Plan, is_full: bool, began: u64) {
        self.cover(plan);
        self.plan = plan.digest();
        self.confirmed_at = Some(began);
        self.cursors.clear();
        if is_full {
            self.full_at = Some(began);
            self.full_due = began + FULL_EVERY + rand::random_range(0..FULL_JITTER);
        }
    }

    pub(super) fn confirm(&mut self, heard: u64) {
        if let Some(at) = &mut self.confirmed_at {
            *at = heard.max(*at);
        }
    }

    pub(super) fn is_full_due(&self, now: u64) -> bool {
        self.full_at.is_some() && now >= self.full_due
    }

    pub(crate) fn full_at(&self) -> Option<u64> {
        self.full_at
    }

    #[cfg(test)]
    pub(crate) fn confirmed_at(&self) -> Option<u64> {
        self.confirmed_at
    }

    pub(super) fn cursor(&self, filter: &str) -> Option<u64> {
        self.cursors.get(filter).map(|cursor| cursor.until)
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

    pub(super) fn refuse(&mut self, class: Class, now: u64) {
        self.policy.insert(class, now + POLICY_PAUSE);
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

    pub(crate) fn is_refused(&self, now: u64) -> bool {
        let mut classes = self.policy.keys();
        classes.any(|class| self.refused(*class, now).is_some())
    }

    /// How long no background request may start.
    pub(super) fn background(&self, now: u64) -> Option<Duration> {
        let rate = self.rate.left(POLITE, now);
        rate.max(self.incomplete.left(POLITE, now))
    }

    pub(crate) fn is_rate_limited(&self, now: u64) -> bool {
        self.rate.left(POLITE, now).is_some()
    }
}
