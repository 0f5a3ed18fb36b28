//! The state of the search for missing data, as pages and the API show it.

use grip_limits::{BackendStatus, BreakerState, ClosedReason, HostStatus, Throttle};
use grip_sync::Sync;
use grip_types::Identifier;
use grip_web::{Backend, Breaker, HostBudget, SyncReport, SyncTotals, UrlAttempt};

/// The running sync, as the edge sees it.
pub(super) struct Report {
    sync: Sync,
    throttle: Throttle,
}

impl Report {
    pub(super) fn new(sync: Sync, throttle: Throttle) -> Self {
        Self { sync, throttle }
    }
}

impl SyncReport for Report {
    fn totals(&self) -> SyncTotals {
        let status = self.sync.status();
        SyncTotals {
            running: status.running,
            attempts_total: status.attempts_total,
            requests_total: status.requests_total,
            oids_fetched_total: status.oids_fetched_total,
        }
    }

    fn tried(&self, identifier: &Identifier) -> Vec<UrlAttempt> {
        self.sync.attempts_of(identifier)
    }

    fn recent(&self, limit: usize) -> Vec<UrlAttempt> {
        self.sync.recent_attempts(limit)
    }

    fn hosts(&self) -> Vec<HostBudget> {
        self.throttle.hosts().into_iter().map(budget).collect()
    }

    fn backend(&self) -> Backend {
        match self.throttle.backend() {
            BackendStatus::Redis { .. } => Backend::Redis,
            BackendStatus::Fallback {
                since,
                percent,
                reason,
            } => Backend::Fallback {
                since: since.as_millisecond(),
                percent,
                reason,
            },
            _ => Backend::Memory,
        }
    }
}

fn budget(host: HostStatus) -> HostBudget {
    HostBudget {
        in_flight: host.in_flight,
        in_flight_limit: host.in_flight_limit,
        started: host.started,
        window_limit: host.window_limit,
        breaker: match host.breaker {
            BreakerState::Closed => Breaker::Passing,
            BreakerState::Open => Breaker::Shut,
            BreakerState::HalfOpen => Breaker::Probing,
        },
        closed_ms: host.closed.map(|closed| closed.for_ms),
        closed_why: host.closed.map(|closed| in_words(closed.why).to_owned()),
        requests_total: host.requests_total,
        failures_total: host.failures_total,
        domain: host.domain,
    }
}

fn in_words(why: ClosedReason) -> &'static str {
    match why {
        ClosedReason::Window => "asked enough for now",
        ClosedReason::Breaker => "failing",
        ClosedReason::RetryAfter => "asks us to wait",
        ClosedReason::RateLimit => "its rate limit is used up",
        ClosedReason::Unspecified => "refuses by rate limit",
        _ => "left alone",
    }
}
