//! What the edge tells of the sync.

use grip_grasp::Grasp;
use grip_sync::Sync;
use grip_throttle::{BackendStatus, BreakerState, ClosedWhy, HostStatus, Throttle};
use grip_types::Identifier;
use grip_web::{Backend, Breaker, HostBudget, SyncReport, SyncTotals, Tried};

/// Identifiers whose tries are looked through for the last ones.
const LOOKED_AT: usize = 200;

/// The running sync, as the edge sees it.
pub(super) struct Report {
    sync: Sync,
    throttle: Throttle,
    grasp: Grasp,
}

impl Report {
    pub(super) fn new(sync: Sync, throttle: Throttle, grasp: Grasp) -> Self {
        Self {
            sync,
            throttle,
            grasp,
        }
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

    fn tried(&self, identifier: &Identifier) -> Vec<Tried> {
        let tried = self.sync.attempts(identifier).into_iter().rev();
        tried.map(|tried| one(identifier, tried)).collect()
    }

    fn recent(&self, limit: usize) -> Vec<Tried> {
        let waiting = self.grasp.sync_queue(LOOKED_AT).into_iter();
        let mut tried: Vec<Tried> = waiting.flat_map(|(it, _)| self.tried(&it)).collect();
        tried.sort_by_key(|tried| std::cmp::Reverse(tried.at));
        tried.truncate(limit);
        tried
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

fn one(identifier: &Identifier, tried: grip_sync::Tried) -> Tried {
    Tried {
        identifier: identifier.clone(),
        url: tried.url,
        at: tried.at,
        duration_ms: tried.duration_ms,
        outcome: tried.outcome,
        oids_fetched: tried.oids_fetched,
        is_success: tried.oids_fetched > 0,
    }
}

fn budget(host: HostStatus) -> HostBudget {
    HostBudget {
        in_flight: host.in_flight,
        in_flight_limit: host.in_flight_limit,
        started: host.started,
        window_limit: host.window_limit,
        breaker: match host.breaker {
            BreakerState::Passing => Breaker::Passing,
            BreakerState::Shut => Breaker::Shut,
            BreakerState::Probing => Breaker::Probing,
        },
        closed_ms: host.closed.map(|closed| closed.for_ms),
        closed_why: host.closed.map(|closed| in_words(closed.why).to_owned()),
        requests_total: host.requests_total,
        failures_total: host.failures_total,
        domain: host.domain,
    }
}

fn in_words(why: ClosedWhy) -> &'static str {
    match why {
        ClosedWhy::Window => "asked enough for now",
        ClosedWhy::Breaker => "failing",
        ClosedWhy::RetryAfter => "asks us to wait",
        ClosedWhy::RateLimit => "its rate limit is used up",
        ClosedWhy::Unsaid => "refuses by rate limit",
        _ => "left alone",
    }
}
