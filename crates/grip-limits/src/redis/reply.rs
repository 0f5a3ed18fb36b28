//! How the answers of the scripts read.

use std::time::Duration;

use grip_types::Domain;
use tokio::time::Instant;

use crate::{BreakerState, Lane, Reason, Refused, Why, host::Hold};

/// The numbers that every script ends with.
pub(super) type Numbers = [i64; 13];

/// A script's answer.
#[derive(Debug)]
pub(super) struct Reply {
    pub granted: bool,
    pub probe: Option<u64>,
    pub seen: Seen,
}

/// A host as all instances together know it.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    /// What keeps each lane out.
    pub holds: [Option<Hold>; 2],
    pub in_flight: u32,
    pub started: u32,
    pub breaker: BreakerState,
    pub shut_until: Option<Instant>,
    pub advised: Option<(Instant, Why)>,
    pub failures: u32,
    pub at: Instant,
}

impl Reply {
    /// Reads the answer to a script that was run for `lane`.
    pub fn read(numbers: Numbers, lane: Lane, now: Instant) -> Self {
        let [granted, probe, rest @ ..] = numbers;
        let [reason, wait, other_reason, other_wait, rest @ ..] = rest;
        let [in_flight, started, state, shut, advised, why, failures] = rest;
        let until = |wait: i64| (wait > 0).then(|| later(now, wait));
        let mut holds = [None; 2];
        holds[lane.index()] = hold(reason, wait, now);
        holds[lane.other().index()] = hold(other_reason, other_wait, now);
        let seen = Seen {
            holds,
            in_flight: count(in_flight),
            started: count(started),
            breaker: match state {
                1 => BreakerState::Shut,
                2 => BreakerState::Probing,
                _ => BreakerState::Passing,
            },
            shut_until: until(shut),
            advised: until(advised).map(|until| (until, why_of(why))),
            failures: count(failures),
            at: now,
        };
        Self {
            granted: granted == 1,
            probe: u64::try_from(probe).ok().filter(|round| *round > 0),
            seen,
        }
    }

    /// The refusal that this answer is.
    pub fn refused(&self, domain: &Domain, lane: Lane) -> Refused {
        let hold = self.seen.holds[lane.index()];
        let hold = hold.unwrap_or_else(|| Hold::in_flight(self.seen.at));
        Refused {
            domain: domain.clone(),
            reason: hold.reason,
            retry_at: hold.retry_at,
        }
    }
}

fn hold(reason: i64, wait: i64, now: Instant) -> Option<Hold> {
    let reason = match reason {
        1 => Reason::InFlight,
        2 => Reason::Window,
        3 => Reason::Shut,
        4 => Reason::Advised,
        _ => return None,
    };
    Some(Hold::new(reason, later(now, wait)))
}

fn later(now: Instant, wait_ms: i64) -> Instant {
    now + Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0))
}

fn count(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

fn why_of(number: i64) -> Why {
    match number {
        0 => Why::RetryAfter,
        1 => Why::RateLimit,
        _ => Why::Unsaid,
    }
}
