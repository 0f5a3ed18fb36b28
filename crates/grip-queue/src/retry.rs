//! Retry rules of failed jobs. Pure.

use std::time::Duration;

use crate::{
    Class, Lease,
    clock::{HORIZON_MS, NEVER, millis},
};

/// How often a job is tried that fails for reasons that pass.
const ATTEMPTS: i64 = 5;
/// Wait for a rate limit at least, whatever the host says.
const LIMIT_LEAST_MS: i64 = 1_000;
/// Jobs that wait for the same limit do not all begin at once.
const LIMIT_SPREAD_MS: f64 = 5_000.0;

/// How the wait after a transient failure grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure. Default: 10 s.
    pub first: Duration,
    /// From one failure to the next. Default: 4.
    pub factor: u32,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(10),
            factor: 4,
        }
    }
}

/// The state of a job after its failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Next {
    pub(crate) visible_at: i64,
    pub(crate) attempts: i64,
    pub(crate) limited: i64,
    pub(crate) dead: bool,
    /// Nothing more is tried, until the next period or for good.
    pub(crate) given_up: bool,
}

/// Decides by the facts of the job; `chance` is between 0 and 1.
pub(crate) fn next(
    lease: &Lease,
    class: Class,
    backoff: &Backoff,
    now_ms: i64,
    chance: f64,
) -> Next {
    let (attempts, limited) = match class {
        Class::Transient => (lease.attempts + 1, lease.limited),
        Class::RateLimited { .. } => (lease.attempts, lease.limited + 1),
        Class::NextPeriod | Class::Permanent => (lease.attempts + 1, lease.limited),
    };
    let dead = Next {
        visible_at: NEVER,
        attempts,
        limited,
        dead: true,
        given_up: true,
    };
    let later = |at_ms: i64| Next {
        visible_at: at_ms.clamp(now_ms, now_ms.saturating_add(HORIZON_MS)),
        dead: false,
        given_up: false,
        ..dead
    };
    match class {
        Class::Permanent => dead,
        Class::Transient if attempts < ATTEMPTS => {
            later(now_ms.saturating_add(backoff.wait_ms(attempts, chance)))
        }
        // A limit says nothing against the job, so however often it binds, none is given up for it.
        Class::RateLimited { until_ms } => {
            let least = until_ms.max(now_ms.saturating_add(LIMIT_LEAST_MS));
            later(least.saturating_add((chance * LIMIT_SPREAD_MS) as i64))
        }
        _ => match lease.period_ms {
            None => dead,
            Some(period) => Next {
                visible_at: now_ms.saturating_add(period),
                attempts: 0,
                limited: 0,
                dead: false,
                given_up: true,
            },
        },
    }
}

impl Backoff {
    /// The wait after so many failures, a quarter more or less.
    fn wait_ms(&self, failures: i64, chance: f64) -> i64 {
        let power = u32::try_from(failures - 1).unwrap_or(0);
        let grown = millis(self.first).saturating_mul(i64::from(self.factor.saturating_pow(power)));
        (grown.min(HORIZON_MS) as f64 * (0.75 + chance / 2.0)) as i64
    }
}
