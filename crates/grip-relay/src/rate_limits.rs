//! Token buckets, per connection and per address.

use std::{
    net::{IpAddr, Ipv6Addr},
    num::NonZeroU32,
};

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};

use crate::limits::{Rate, Rates};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cost {
    Message,
    Event,
    Request,
}

fn quota(rate: Rate) -> Option<Quota> {
    let per_second = NonZeroU32::new(rate.per_second)?;
    let burst = NonZeroU32::new(rate.burst).unwrap_or(per_second);
    Some(Quota::per_second(per_second).allow_burst(burst))
}

/// The buckets of all addresses. Bounded by [`ByAddress::forget_idle`], which drops full buckets.
pub(crate) struct ByAddress {
    messages: Option<DefaultKeyedRateLimiter<IpAddr>>,
    events: Option<DefaultKeyedRateLimiter<IpAddr>>,
    requests: Option<DefaultKeyedRateLimiter<IpAddr>>,
}

impl ByAddress {
    pub(crate) fn new(rates: Rates) -> Self {
        let keyed = |rate| quota(rate).map(RateLimiter::dashmap);
        Self {
            messages: keyed(rates.messages),
            events: keyed(rates.events),
            requests: keyed(rates.requests),
        }
    }

    /// An address whose bucket is full again is as good as new. To be called now and then: between
    /// two calls the buckets grow by the addresses that connected.
    pub(crate) fn forget_idle(&self) {
        for limiter in [&self.messages, &self.events, &self.requests]
            .into_iter()
            .flatten()
        {
            limiter.retain_recent();
            limiter.shrink_to_fit();
        }
    }

    fn allows(&self, cost: Cost, key: &IpAddr) -> bool {
        let limiter = match cost {
            Cost::Message => &self.messages,
            Cost::Event => &self.events,
            Cost::Request => &self.requests,
        };
        limiter
            .as_ref()
            .is_none_or(|limiter| limiter.check_key(key).is_ok())
    }
}

/// The buckets of one connection.
pub(crate) struct ByConnection {
    key: IpAddr,
    messages: Option<DefaultDirectRateLimiter>,
    events: Option<DefaultDirectRateLimiter>,
    requests: Option<DefaultDirectRateLimiter>,
}

impl ByConnection {
    pub(crate) fn new(rates: Rates, ip: IpAddr) -> Self {
        let direct = |rate| quota(rate).map(RateLimiter::direct);
        Self {
            key: network(ip),
            messages: direct(rates.messages),
            events: direct(rates.events),
            requests: direct(rates.requests),
        }
    }

    /// Takes one token here and one of the address.
    pub(crate) fn allows(&self, cost: Cost, addresses: &ByAddress) -> bool {
        let limiter = match cost {
            Cost::Message => &self.messages,
            Cost::Event => &self.events,
            Cost::Request => &self.requests,
        };
        limiter
            .as_ref()
            .is_none_or(|limiter| limiter.check().is_ok())
            && addresses.allows(cost, &self.key)
    }
}

/// One customer of an IPv6 provider has a whole /64 to choose addresses from.
fn network(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(v6) => {
            let [a, b, c, d, ..] = v6.segments();
            Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()
        }
        v4 => v4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_ipv6_network_share_a_bucket() {
        let of = |text: &str| network(text.parse().unwrap());
        assert_eq!(of("2001:db8:1:2:3::4"), of("2001:db8:1:2:ffff::"));
        assert_ne!(of("2001:db8:1:2::"), of("2001:db8:1:3::"));
        assert_eq!(of("::ffff:192.0.2.1"), of("192.0.2.1"));
        assert_ne!(of("192.0.2.1"), of("192.0.2.2"));
    }

    #[test]
    fn relay_8_a_rate_of_zero_is_no_limit_and_a_burst_runs_out() {
        let ip: IpAddr = "192.0.2.1".parse().unwrap();
        let addresses = ByAddress::new(Rates::OFF);
        let free = ByConnection::new(Rates::OFF, ip);
        assert!((0..1_000).all(|_| free.allows(Cost::Event, &addresses)));

        let rates = Rates {
            events: Rate::new(1, 3),
            ..Rates::OFF
        };
        let bound = ByConnection::new(rates, ip);
        let allowed = (0..10).filter(|_| bound.allows(Cost::Event, &addresses));
        assert_eq!(allowed.count(), 3);
        assert!(bound.allows(Cost::Request, &addresses));

        // Two connections of one address share its bucket.
        let addresses = ByAddress::new(rates);
        let other = ByConnection::new(Rates::OFF, ip);
        let both = [&free, &other].into_iter().cycle().take(10);
        assert_eq!(
            both.filter(|one| one.allows(Cost::Event, &addresses))
                .count(),
            3
        );
        addresses.forget_idle();
    }
}
