//! What operators see of one host.

use grip_types::Domain;
use tokio::time::Instant;

use super::Host;
use crate::{Closed, ClosedWhy, HostStatus, Lane, Why};

impl Host {
    pub fn status(&mut self, domain: &Domain, now: Instant) -> HostStatus {
        self.expire(now);
        let breaker = self.breaker.state(now);
        HostStatus {
            domain: domain.clone(),
            in_flight: self.in_flight.iter().sum(),
            in_flight_limit: self.slots(),
            started: self.started.iter().sum(),
            window_limit: self.limits.per_window.max(1),
            breaker,
            closed: self.closed(now),
            requests_total: self.requests_total,
            failures_total: self.failures_total,
        }
    }

    /// What keeps every lane out for longest.
    fn closed(&self, now: Instant) -> Option<Closed> {
        let advised = self.advised.map(|(until, why)| (until, why.into()));
        let shut = self.breaker.shut_until();
        let window = [Lane::Git, Lane::Api].map(|lane| self.window_hold(lane));
        let window = match window {
            [Some(git), Some(api)] => Some(git.retry_at.min(api.retry_at)),
            _ => None,
        };
        let candidates = [
            advised,
            shut.map(|until| (until, ClosedWhy::Breaker)),
            window.map(|until| (until, ClosedWhy::Window)),
        ];
        let (until, why) = candidates.into_iter().flatten().max_by_key(|(at, _)| *at)?;
        let left = until.saturating_duration_since(now);
        let for_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        Some(Closed { for_ms, why })
    }
}

impl From<Why> for ClosedWhy {
    fn from(why: Why) -> Self {
        match why {
            Why::RetryAfter => Self::RetryAfter,
            Why::RateLimit => Self::RateLimit,
            Why::Unsaid => Self::Unsaid,
        }
    }
}
