//! Remote hosts as labels, without letting strangers choose how many there are.
//!
//! Clone URLs are written by anybody, so only [`NAMED`] hosts ever get a series of their own; the
//! rest is `other`. A host that has a name keeps it, and what it counted stays counted after the
//! throttle forgot it: no series ever goes backwards.

use std::collections::{BTreeMap, HashMap};

use grip_types::Domain;
use parking_lot::Mutex;

use crate::HostBudget;

/// How many hosts are named.
pub(crate) const NAMED: usize = 20;

const OTHER: &str = "other";

/// Remembers which hosts are named and what was counted so far.
#[derive(Default)]
pub(crate) struct Domains {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// At most [`NAMED`].
    named: BTreeMap<Domain, Series>,
    other: Series,
    /// The totals of the last look; replaced whole, so bounded like the throttle's own map.
    last: HashMap<Domain, u64>,
}

/// What one label shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Series {
    pub(crate) in_flight: u64,
    pub(crate) requests: u64,
}

impl Domains {
    /// Takes in what the throttle knows now; returns every label with its figures.
    pub(crate) fn look(&self, mut hosts: Vec<HostBudget>) -> Vec<(String, Series)> {
        sort_by_requests(&mut hosts);
        let state = &mut *self.state.lock();
        state.other.in_flight = 0;
        for series in state.named.values_mut() {
            series.in_flight = 0;
        }
        let mut now = HashMap::with_capacity(hosts.len());
        for host in hosts {
            let before = state.last.get(&host.domain).copied().unwrap_or(0);
            // A total below the last one belongs to a host that was forgotten and came back.
            let total = host.requests_total;
            let news = total.checked_sub(before).unwrap_or(total);
            now.insert(host.domain.clone(), host.requests_total);
            let series = state.series(host.domain);
            series.requests += news;
            series.in_flight += u64::from(host.in_flight);
        }
        state.last = now;
        let named = state.named.iter();
        let mut shown: Vec<_> = named.map(|(d, s)| (d.to_string(), *s)).collect();
        shown.push((OTHER.to_owned(), state.other));
        shown
    }
}

/// The hosts that were asked most first.
pub(super) fn sort_by_requests(hosts: &mut [HostBudget]) {
    hosts.sort_by(|a, b| {
        let busier = b.requests_total.cmp(&a.requests_total);
        busier.then_with(|| a.domain.cmp(&b.domain))
    });
}

impl State {
    fn series(&mut self, domain: Domain) -> &mut Series {
        if self.named.len() >= NAMED && !self.named.contains_key(&domain) {
            return &mut self.other;
        }
        self.named.entry(domain).or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use grip_limits::BreakerState;

    use super::*;

    fn host(name: &str, requests: u64, in_flight: u32) -> HostBudget {
        HostBudget {
            domain: Domain::parse(name).unwrap(),
            in_flight,
            in_flight_limit: 5,
            started: 0,
            window_limit: 30,
            breaker: BreakerState::Closed,
            closed_ms: None,
            closed_why: None,
            requests_total: requests,
            failures_total: 0,
        }
    }

    fn of(shown: &[(String, Series)], label: &str) -> Series {
        let found = shown.iter().find(|(name, _)| name == label);
        found.map(|(_, series)| *series).unwrap_or_default()
    }

    #[test]
    fn the_busiest_hosts_are_named_and_the_rest_are_one_series() {
        let domains = Domains::default();
        let hosts = (1..=1000).map(|n| host(&format!("h{n}.example"), n, 1));
        let shown = domains.look(hosts.collect());
        assert_eq!(shown.len(), NAMED + 1);
        assert_eq!(of(&shown, "h1000.example").requests, 1000);
        assert_eq!(of(&shown, "h981.example").requests, 981);
        let rest: u64 = (1..=980).sum();
        assert_eq!(of(&shown, "other").requests, rest);
        assert_eq!(of(&shown, "other").in_flight, 980);
    }

    #[test]
    fn a_host_that_is_named_keeps_its_name_and_its_count() {
        let domains = Domains::default();
        let hosts = (0..20).map(|n| host(&format!("h{n}.example"), 5, 0));
        domains.look(hosts.collect());
        // The throttle forgot all of them and knows a busier one.
        let shown = domains.look(vec![host("new.example", 500, 3)]);
        assert_eq!(shown.len(), NAMED + 1);
        let series = |in_flight, requests| Series {
            in_flight,
            requests,
        };
        assert_eq!(of(&shown, "h0.example").requests, 5);
        assert_eq!(of(&shown, "other"), series(3, 500));
        let shown = domains.look(vec![host("h0.example", 2, 1)]);
        assert_eq!(of(&shown, "h0.example"), series(1, 7));
        assert_eq!(of(&shown, "other"), series(0, 500));
    }

    proptest! {
        #[test]
        fn no_series_goes_backwards_or_away(
            looks in prop::collection::vec(prop::collection::btree_map(0_u8..60, 0_u64..50, 0..40), 1..12),
        ) {
            let domains = Domains::default();
            let mut before: Vec<(String, Series)> = Vec::new();
            for look in looks {
                let hosts = look.iter().map(|(n, requests)| host(&format!("h{n}.example"), *requests, 0));
                let shown = domains.look(hosts.collect());
                prop_assert!(shown.len() <= NAMED + 1);
                for (label, series) in &before {
                    prop_assert!(shown.iter().any(|(name, _)| name == label));
                    prop_assert!(of(&shown, label).requests >= series.requests);
                }
                before = shown;
            }
        }
    }
}
