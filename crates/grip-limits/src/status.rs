//! Statuses of hosts and of the ledger, for operators.

use std::time::Duration;

use grip_types::Domain;
use serde::Serialize;

use crate::{BreakerState, Why};

/// One host as this process knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HostStatus {
    pub domain: Domain,
    /// Requests in flight.
    pub in_flight: u32,
    pub in_flight_limit: u32,
    /// Starts within the window.
    pub started: u32,
    pub window_limit: u32,
    pub breaker: BreakerState,
    /// Present while no request may go, whatever its lane, for a reason that ends by time.
    pub closed: Option<HostClosed>,
    /// Since the host was last forgotten.
    pub requests_total: u64,
    pub failures_total: u64,
}

/// How requests to a host ended, since it was last forgotten.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostHistory {
    pub successes: u64,
    pub failures: u64,
    /// Moving average of the time to the head of a response.
    pub latency: Option<Duration>,
}

/// How long a host stays closed, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HostClosed {
    /// Milliseconds from now.
    pub for_ms: u64,
    pub why: ClosedReason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ClosedReason {
    /// Its window is full.
    Window,
    /// It failed too often.
    Breaker,
    /// It said `Retry-After`.
    RetryAfter,
    /// It said that nothing remains of a rate limit.
    RateLimit,
    /// It refused by rate limit without naming a time.
    #[serde(rename = "unsaid")]
    Unspecified,
}

/// Who keeps the ledger at the moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum BackendStatus {
    /// This process alone.
    Memory,
    /// All instances together.
    Redis { connected: bool },
    /// Redis is disconnected: this process alone, with a part of every limit.
    Fallback {
        since: jiff::Timestamp,
        percent: u32,
        reason: String,
    },
}

impl From<Why> for ClosedReason {
    fn from(why: Why) -> Self {
        match why {
            Why::RetryAfter => Self::RetryAfter,
            Why::RateLimit => Self::RateLimit,
            Why::Unspecified => Self::Unspecified,
        }
    }
}
