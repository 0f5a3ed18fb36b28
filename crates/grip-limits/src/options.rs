//! What a host may be asked.

use std::{collections::BTreeMap, time::Duration};

use grip_types::Domain;
use serde::Serialize;

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
    /// Hosts remembered at once: 10,000. At the bound a host with nothing to remember makes room,
    /// and where there is none, requests to unknown hosts are refused.
    pub max_domains: usize,
    /// An idle host is forgotten after this time, its counters with it: 10 minutes.
    pub forget_after: Duration,
}

/// How much one host may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Requests under way at once: 5.
    pub in_flight: u32,
    /// Starts within any `window`, as the host counts them: 30.
    pub per_window: u32,
    /// 60 seconds.
    pub window: Duration,
}

/// When a failing host is left alone, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BreakerOptions {
    /// How far back answers count: 30 seconds.
    pub window: Duration,
    /// Shuts when this part of the answers are failures: 50.
    pub trip_percent: u32,
    /// Never shuts on fewer answers than this: 4.
    pub min_requests: u32,
    /// How long it stays shut before it lets probes through: 10 seconds.
    pub cooldown: Duration,
    /// Probes at once, and probes that must succeed before it passes everything again: 3.
    pub probes: u32,
}

impl Options {
    /// The limits of one host.
    pub fn limits_of(&self, domain: &Domain) -> Limits {
        *self.overrides.get(domain).unwrap_or(&self.limits)
    }

    /// The same settings with only `percent` of every limit, but at least one request.
    pub fn part(&self, percent: u32) -> Self {
        let overrides = self.overrides.iter();
        Self {
            limits: self.limits.part(percent),
            overrides: overrides
                .map(|(domain, limits)| (domain.clone(), limits.part(percent)))
                .collect(),
            ..self.clone()
        }
    }
}

impl Limits {
    /// `percent` of these limits in the same window, but at least one request.
    pub fn part(self, percent: u32) -> Self {
        Self {
            in_flight: part(self.in_flight, percent),
            per_window: part(self.per_window, percent),
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

    /// Slots that each lane leaves to the other while both use a host.
    pub(crate) fn reserved_slots(self) -> u32 {
        self.in_flight.saturating_sub(1).min(1)
    }

    /// Starts that each lane leaves to the other while both use a host.
    pub(crate) fn reserved_starts(self) -> u32 {
        self.per_window / 5
    }
}

fn part(of: u32, percent: u32) -> u32 {
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

impl Default for BreakerOptions {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(30),
            trip_percent: 50,
            min_requests: 4,
            cooldown: Duration::from_secs(10),
            probes: 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_limit_is_at_least_one_request() {
        let quarter = Limits::default().part(25);
        assert_eq!((quarter.in_flight, quarter.per_window), (1, 7));
        let none = Limits::default().part(0);
        assert_eq!((none.in_flight, none.per_window), (1, 1));
        assert_eq!(Limits::default().part(900), Limits::default());
    }

    #[test]
    fn a_part_of_the_settings_shrinks_the_overrides_too() {
        let host = Domain::parse("big.example").unwrap();
        let mut options = Options::default();
        let big = Limits {
            in_flight: 40,
            per_window: 4_000,
            ..Limits::default()
        };
        options.overrides.insert(host.clone(), big);
        let part = options.part(25);
        assert_eq!(part.limits_of(&host).per_window, 1_000);
        assert_eq!(part.limits_of(&host).in_flight, 10);
        let other = Domain::parse("sub.big.example").unwrap();
        assert_eq!(part.limits_of(&other).per_window, 7);
    }
}
