//! Limits of hosts.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use grip_types::{Domain, NetworkPrefixes};
use serde::Serialize;

use crate::{BreakerOptions, Mode};

/// Bounds of what is added to a window.
const LEAST_MARGIN: Duration = Duration::from_millis(2);
const MOST_MARGIN: Duration = Duration::from_millis(250);

/// Settings of a throttle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// For every host without an override.
    pub limits: Limits,
    /// For single hosts, by their own name only (not for names below it).
    pub overrides: BTreeMap<Domain, Limits>,
    pub breaker: BreakerOptions,
    /// Hosts that the operator named, beside those with an override. They always have room, and no
    /// window of a network: other names of the same machine do not take theirs.
    pub configured: BTreeSet<Domain>,
    /// For all names together that lead to one network of addresses: 20 in flight, 120 a window.
    /// Half of it is for hosts that have answered well before. Never less than `limits`.
    pub network: Limits,
    /// Which addresses are one network.
    pub prefixes: NetworkPrefixes,
    /// Hosts remembered at once, beside those the operator named: 10,000. At the bound those make
    /// room that are to be left alone or were used longest ago.
    pub max_domains: usize,
    /// An idle host is forgotten after this time, its counters with it: 10 minutes.
    pub forget_after: Duration,
}

/// How much one host may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Requests in flight at once: 5.
    pub in_flight: u32,
    /// Starts within any `window`, as the host counts them: 30.
    pub per_window: u32,
    /// 60 seconds.
    pub window: Duration,
}

impl Options {
    /// The limits of one host.
    pub fn limits_of(&self, domain: &Domain) -> Limits {
        *self.overrides.get(domain).unwrap_or(&self.limits)
    }

    /// Whether the operator named this host.
    pub(crate) fn is_configured(&self, domain: &Domain) -> bool {
        self.overrides.contains_key(domain) || self.configured.contains(domain)
    }

    pub(crate) fn configured_len(&self) -> usize {
        self.overrides.len() + self.configured.len()
    }

    /// The limits of one host while the whole is kept so.
    pub(crate) fn limits_in(&self, mode: Mode, domain: &Domain) -> Limits {
        let limits = self.limits_of(domain);
        match mode {
            Mode::Local | Mode::Shared => limits,
            Mode::Fallback { percent, .. } => limits.scaled(percent),
        }
    }
}

impl Limits {
    /// `percent` of these limits in the same window, but at least one request.
    pub(crate) fn scaled(self, percent: u32) -> Self {
        Self {
            in_flight: scaled(self.in_flight, percent),
            per_window: scaled(self.per_window, percent),
            window: self.window,
        }
    }

    /// How long a start counts: a little longer than the window.
    ///
    /// A slow request followed by a fast one arrive closer together than they left, and it is the
    /// host's count that matters.
    pub(crate) fn counted_for(self) -> Duration {
        let margin = (self.window / 100).clamp(LEAST_MARGIN, MOST_MARGIN);
        self.window + margin
    }

    /// Requests in flight at once. A limit of nothing would wait for a response that cannot come.
    pub(crate) fn slots(self) -> u32 {
        self.in_flight.max(1)
    }

    /// Starts within a window.
    pub(crate) fn starts(self) -> u32 {
        self.per_window.max(1)
    }

    /// Slots that each lane leaves to the other while both use a host.
    pub(crate) fn reserved_slots(self) -> u32 {
        self.in_flight.saturating_sub(1).min(1)
    }

    /// Starts that each lane leaves to the other while both use a host.
    pub(crate) fn reserved_starts(self) -> u32 {
        self.per_window / 5
    }
}

fn scaled(of: u32, percent: u32) -> u32 {
    let part = u64::from(of) * u64::from(percent.min(100)) / 100;
    u32::try_from(part)
        .expect("because a part is no more than the whole")
        .max(1)
}

impl Default for Options {
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            overrides: BTreeMap::new(),
            breaker: BreakerOptions::default(),
            configured: BTreeSet::new(),
            network: Limits {
                in_flight: 20,
                per_window: 120,
                ..Limits::default()
            },
            prefixes: NetworkPrefixes::default(),
            max_domains: 10_000,
            forget_after: Duration::from_secs(600),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            in_flight: 5,
            per_window: 30,
            window: Duration::from_secs(60),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_limit_is_at_least_one_request() {
        let quarter = Limits::default().scaled(25);
        assert_eq!((quarter.in_flight, quarter.per_window), (1, 7));
        let none = Limits::default().scaled(0);
        assert_eq!((none.in_flight, none.per_window), (1, 1));
        assert_eq!(Limits::default().scaled(900), Limits::default());
    }

    #[test]
    fn the_fallback_shrinks_the_overrides_too() {
        let host = Domain::parse("big.example").unwrap();
        let mut options = Options::default();
        let big = Limits {
            in_flight: 40,
            per_window: 4_000,
            ..Limits::default()
        };
        options.overrides.insert(host.clone(), big);
        let (percent, outage) = (25, 1);
        let fallback = Mode::Fallback { percent, outage };
        let limits = options.limits_in(fallback, &host);
        assert_eq!((limits.in_flight, limits.per_window), (10, 1_000));
        let other = Domain::parse("sub.big.example").unwrap();
        assert_eq!(options.limits_in(fallback, &other).per_window, 7);
        assert_eq!(options.limits_in(Mode::Shared, &host), big);
    }
}
