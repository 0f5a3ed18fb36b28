//! Budget rule for refreshes, which give way to new records. Pure.

use std::time::SystemTime;

use grip_github::Budget;

/// Budgets of at least so many calls are large: new events do not use all of them up.
const LARGE: u64 = 1_000;
/// How long refreshing waits before it looks again, and how far the waits are spread.
const WAIT_MS: i64 = 30_000;
const SPREAD_MS: i64 = 120_000;

/// A refresh that has to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deferred {
    /// When that may change; none: any time.
    pub(super) until: Option<SystemTime>,
    pub(super) why: &'static str,
}

/// Whether something may be refreshed, by what is left of the budgets and whether new events wait
/// for them.
pub(super) fn check(budgets: &[Budget], new_waits: bool, percent: u32) -> Result<(), Deferred> {
    let core: Vec<_> = budgets
        .iter()
        .filter(|budget| budget.resource == "core" && budget.set_aside_until.is_none())
        .collect();
    let sum = |of: fn(&Budget) -> Option<u32>| {
        let each = core.iter().filter_map(|budget| of(budget));
        each.map(u64::from).sum::<u64>()
    };
    let (limit, left) = (sum(|budget| budget.limit), sum(|budget| budget.remaining));
    let is_metered = core.iter().any(|budget| budget.limit.is_some());
    if is_metered && left * 100 <= limit * u64::from(percent) {
        return Err(Deferred {
            until: core.iter().filter_map(|budget| budget.reset).min(),
            why: "what is left of the budget is kept for new events",
        });
    }
    let is_plenty = if is_metered {
        limit >= LARGE && left * 2 > limit
    } else {
        // Either nothing is known yet, or the host keeps no budget.
        !core.is_empty()
    };
    if new_waits && !is_plenty {
        return Err(Deferred {
            until: None,
            why: "new events are served first",
        });
    }
    Ok(())
}

/// How long to wait at least; others wait another time.
pub(super) fn wait_ms(id: i64) -> i64 {
    WAIT_MS + id.wrapping_mul(7_919).rem_euclid(SPREAD_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(limit: u32, remaining: u32) -> Budget {
        Budget {
            token: None,
            resource: "core",
            limit: Some(limit),
            remaining: Some(remaining),
            reset: Some(SystemTime::UNIX_EPOCH),
            in_flight: 0,
            set_aside_until: None,
        }
    }

    #[test]
    fn a_small_budget_is_for_new_events_and_the_last_part_of_any() {
        assert!(check(&[budget(60, 60)], false, 25).is_ok());
        assert!(check(&[budget(60, 60)], true, 25).is_err());
        assert!(check(&[budget(60, 16)], false, 25).is_ok());
        let deferred = check(&[budget(60, 15)], false, 25).unwrap_err();
        assert_eq!(deferred.until, Some(SystemTime::UNIX_EPOCH));
    }

    #[test]
    fn of_a_large_budget_one_half_may_be_used_beside_new_events() {
        assert!(check(&[budget(5_000, 2_501)], true, 25).is_ok());
        assert!(check(&[budget(5_000, 2_500)], true, 25).is_err());
        assert!(check(&[budget(5_000, 2_500)], false, 25).is_ok());
        assert!(check(&[budget(5_000, 0), budget(5_000, 5_000)], false, 25).is_ok());
    }

    #[test]
    fn where_nothing_is_known_new_events_go_first() {
        assert!(check(&[], false, 25).is_ok());
        assert!(check(&[], true, 25).is_err());
        let unmetered = Budget {
            limit: None,
            remaining: None,
            reset: None,
            ..budget(1, 1)
        };
        assert!(check(&[unmetered], true, 25).is_ok());
        let set_aside = Budget {
            set_aside_until: Some(SystemTime::UNIX_EPOCH),
            ..budget(5_000, 5_000)
        };
        assert!(check(&[set_aside], true, 25).is_err());
    }

    #[test]
    fn waits_are_spread_and_bounded() {
        for id in [0, 1, -1, i64::MAX, i64::MIN, 583_231] {
            assert!((WAIT_MS..WAIT_MS + SPREAD_MS).contains(&wait_ms(id)));
        }
        assert_ne!(wait_ms(1), wait_ms(2));
    }
}
