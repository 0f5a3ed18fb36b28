//! Forecast of when a budget will be used up. Pure.

use std::{
    borrow::Cow,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use grip_github::Budget;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// GitHub's window.
const WINDOW: Duration = Duration::from_secs(60 * 60);
/// Too short to estimate a rate from.
const SHORTEST: Duration = Duration::from_secs(5);

/// A budget and how long it will last.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Forecast {
    /// The place of the token among those configured; none for calls without one.
    pub token: Option<usize>,
    pub resource: Cow<'static, str>,
    pub limit: Option<u32>,
    pub remaining: Option<u32>,
    /// When the window ends, in milliseconds since 1970.
    pub reset_at: Option<i64>,
    /// Calls per hour at the pace of this window.
    pub per_hour: Option<f64>,
    /// When nothing will be left, if it goes on like this; none: it lasts until the window ends.
    pub ends_at: Option<i64>,
    pub set_aside_until: Option<i64>,
}

/// Takes the pace since the window's start for the pace to come.
pub(crate) fn forecast(budget: &Budget, now: SystemTime) -> Forecast {
    let pace = pace(budget, now);
    let ends = pace.and_then(|per_second| ends(budget, per_second, now));
    Forecast {
        token: budget.token,
        resource: budget.resource.into(),
        limit: budget.limit,
        remaining: budget.remaining,
        reset_at: budget.reset.map(ms),
        per_hour: pace.map(|per_second| per_second * 3_600.0),
        ends_at: ends.map(ms),
        set_aside_until: budget.set_aside_until.map(ms),
    }
}

/// Calls per second.
fn pace(budget: &Budget, now: SystemTime) -> Option<f64> {
    let used = budget.limit?.saturating_sub(budget.remaining?);
    let left = budget.reset?.duration_since(now).unwrap_or_default();
    let gone = WINDOW.saturating_sub(left).max(SHORTEST);
    Some(f64::from(used) / gone.as_secs_f64())
}

fn ends(budget: &Budget, per_second: f64, now: SystemTime) -> Option<SystemTime> {
    let remaining = f64::from(budget.remaining?);
    if remaining == 0.0 {
        return Some(now);
    }
    let left = Duration::try_from_secs_f64(remaining / per_second).ok()?;
    let end = now.checked_add(left)?;
    (end < budget.reset?).then_some(end)
}

fn ms(at: SystemTime) -> i64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(limit: u32, remaining: u32, reset_in_s: u64) -> Forecast {
        let now = UNIX_EPOCH + Duration::from_secs(1_000_000);
        let budget = Budget {
            token: None,
            resource: "core",
            limit: Some(limit),
            remaining: Some(remaining),
            reset: Some(now + Duration::from_secs(reset_in_s)),
            in_flight: 0,
            set_aside_until: None,
        };
        forecast(&budget, now)
    }

    #[test]
    fn a_budget_that_is_used_fast_ends_before_its_window() {
        // 40 of 60 in ten minutes: the other 20 last five more.
        let fast = seen(60, 20, 3_000);
        assert_eq!(fast.ends_at, Some(1_000_300_000));
        assert_eq!(fast.per_hour.map(f64::round), Some(240.0));
        // 10 of 60 in ten minutes: 50 minutes for the other 50, as long as the window.
        assert_eq!(seen(60, 50, 3_000).ends_at, None);
        assert_eq!(seen(60, 55, 3_000).ends_at, None);
    }

    #[test]
    fn what_is_used_up_has_ended_and_what_is_unused_lasts() {
        assert_eq!(seen(60, 0, 3_000).ends_at, Some(1_000_000_000));
        assert_eq!(seen(60, 60, 3_600).ends_at, None);
        assert_eq!(seen(0, 0, 0).ends_at, Some(1_000_000_000));
        assert_eq!(
            seen(5_000, 1, u32::MAX.into()).reset_at,
            Some(4_295_967_295_000)
        );
    }

    #[test]
    fn nothing_is_foretold_of_a_budget_that_is_not_known() {
        let budget = Budget {
            token: Some(1),
            resource: "core",
            limit: None,
            remaining: None,
            reset: None,
            in_flight: 3,
            set_aside_until: None,
        };
        let seen = forecast(&budget, UNIX_EPOCH);
        assert_eq!(
            (seen.per_hour, seen.ends_at, seen.token),
            (None, None, Some(1))
        );
    }
}
