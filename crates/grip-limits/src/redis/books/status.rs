//! What operators see of the hosts.

use std::{collections::HashMap, time::Duration};

use grip_types::Domain;
use tokio::time::Instant;

use super::{Known, Seen, State};
use crate::{BreakerState, Closed, ClosedWhy, HostStatus, Reason};

/// How long the number of requests that others have under way is worth telling.
const NEWS: Duration = Duration::from_secs(2);

impl State {
    /// Every host, ordered by name; while Redis is away with the limits and counts of this
    /// process alone.
    pub(super) fn statuses(&mut self, now: Instant) -> Vec<HostStatus> {
        let mut held: HashMap<Domain, u32> = HashMap::new();
        for slot in self.held.values() {
            *held.entry(slot.domain.clone()).or_default() += 1;
        }
        let fallback = &mut self.fallback;
        let hosts = self.hosts.iter();
        let mut hosts: Vec<_> = hosts
            .map(|(domain, known)| {
                let alone = fallback.as_mut().and_then(|f| f.status(domain, now));
                let held = held.get(domain).copied().unwrap_or(0);
                let shown = alone.unwrap_or_else(|| known.status(domain, held, now));
                HostStatus {
                    requests_total: known.requests_total,
                    failures_total: known.failures_total,
                    ..shown
                }
            })
            .collect();
        hosts.sort_by(|a, b| a.domain.cmp(&b.domain));
        hosts
    }
}

impl Known {
    /// Counts of all instances while they are news, and our own after that.
    fn status(&self, domain: &Domain, held: u32, now: Instant) -> HostStatus {
        let age = |seen: &Seen| now.saturating_duration_since(seen.at);
        let seen = self.seen.as_ref();
        let under_way = seen.filter(|seen| age(seen) < NEWS);
        let started = seen.filter(|seen| age(seen) < self.limits.window);
        let own_starts = u32::try_from(self.starts.len()).unwrap_or(u32::MAX);
        HostStatus {
            domain: domain.clone(),
            in_flight: under_way.map_or(held, |seen| seen.in_flight),
            in_flight_limit: self.limits.in_flight.max(1),
            started: started.map_or(own_starts, |seen| seen.started),
            window_limit: self.limits.per_window.max(1),
            breaker: self.breaker(now),
            closed: self.closed(now),
            requests_total: self.requests_total,
            failures_total: self.failures_total,
        }
    }

    fn breaker(&self, now: Instant) -> BreakerState {
        let Some(seen) = &self.seen else {
            return BreakerState::Passing;
        };
        match (seen.breaker, seen.shut_until) {
            (BreakerState::Shut, Some(until)) if until <= now => BreakerState::Probing,
            (state, _) => state,
        }
    }

    /// What keeps every lane out for longest.
    fn closed(&self, now: Instant) -> Option<Closed> {
        let seen = self.seen.as_ref()?;
        let window = match seen.holds {
            [Some(a), Some(b)] if a.reason == Reason::Window && b.reason == Reason::Window => {
                Some(a.retry_at.min(b.retry_at))
            }
            _ => None,
        };
        let candidates = [
            seen.advised.map(|(until, why)| (until, why.into())),
            seen.shut_until.map(|until| (until, ClosedWhy::Breaker)),
            window.map(|until| (until, ClosedWhy::Window)),
        ];
        let candidates = candidates.into_iter().flatten();
        let (until, why) = candidates
            .filter(|(until, _)| *until > now)
            .max_by_key(|(until, _)| *until)?;
        let left = until.saturating_duration_since(now);
        let for_ms = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
        Some(Closed { for_ms, why })
    }
}
