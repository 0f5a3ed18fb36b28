//! Token buckets, per connection and per address.

use std::{collections::HashMap, num::NonZeroU32, time::Duration};

use governor::{DefaultDirectRateLimiter, DefaultKeyedRateLimiter, Quota, RateLimiter};
use grip_tasks::{ByteBudget, SpentBytes};
use grip_types::ClientNetwork;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::limits::{HourlyBytes, Rate, Rates};

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

/// One bucket for each cost; `None` where its rate is off.
struct Buckets<L> {
    messages: Option<L>,
    events: Option<L>,
    requests: Option<L>,
}

impl<L> Buckets<L> {
    fn new(rates: Rates, bucket: impl Fn(Quota) -> L) -> Self {
        Self {
            messages: quota(rates.messages).map(&bucket),
            events: quota(rates.events).map(&bucket),
            requests: quota(rates.requests).map(&bucket),
        }
    }

    fn of(&self, cost: Cost) -> Option<&L> {
        match cost {
            Cost::Message => self.messages.as_ref(),
            Cost::Event => self.events.as_ref(),
            Cost::Request => self.requests.as_ref(),
        }
    }
}

/// The buckets of all addresses. Bounded by [`AddressRates::forget_idle`], which drops full ones.
pub(crate) struct AddressRates(Buckets<DefaultKeyedRateLimiter<ClientNetwork>>);

impl AddressRates {
    pub(crate) fn new(rates: Rates) -> Self {
        Self(Buckets::new(rates, RateLimiter::dashmap))
    }

    /// An address whose bucket is full again is as good as new. To be called now and then: between
    /// two calls the buckets grow by the addresses that connected.
    pub(crate) fn forget_idle(&self) {
        let costs = [Cost::Message, Cost::Event, Cost::Request];
        for limiter in costs.into_iter().filter_map(|cost| self.0.of(cost)) {
            limiter.retain_recent();
            limiter.shrink_to_fit();
        }
    }
}

/// Bytes of events in an hour, by network. Bounded as [`AddressRates`].
pub(crate) struct BytesPerHour {
    /// None where there is no limit.
    budget: Option<ByteBudget>,
    networks: Mutex<HashMap<ClientNetwork, SpentBytes>>,
}

impl BytesPerHour {
    pub(crate) fn new(bytes: HourlyBytes) -> Self {
        let hour = Duration::from_secs(3_600);
        // What is used up in one go comes back at the rate of an hour's.
        let window = (hour * bytes.burst).checked_div(bytes.per_hour);
        let window = window.filter(|window| !window.is_zero());
        let limit = u64::from(bytes.burst);
        Self {
            budget: window.map(|window| ByteBudget { limit, window }),
            networks: Mutex::default(),
        }
    }

    /// Takes `bytes` of the network's. More than it may ever have at once are refused.
    pub(crate) fn take(&self, network: ClientNetwork, bytes: u64) -> bool {
        let (Some(budget), now) = (self.budget, Instant::now()) else {
            return true;
        };
        let mut networks = self.networks.lock();
        let spent = networks.entry(network).or_default();
        let fits = spent.now(budget, now).saturating_add(bytes) <= budget.limit;
        if fits {
            spent.add(bytes, budget, now);
        }
        fits
    }

    pub(crate) fn give_back(&self, network: ClientNetwork, bytes: u64) {
        if let Some(spent) = self.networks.lock().get_mut(&network) {
            spent.give_back(bytes);
        }
    }

    pub(crate) fn forget_idle(&self) {
        let (Some(budget), now) = (self.budget, Instant::now()) else {
            return;
        };
        let mut networks = self.networks.lock();
        networks.retain(|_, spent| spent.now(budget, now) > 0);
        networks.shrink_to_fit();
    }
}

/// The buckets of one connection.
pub(crate) struct ConnectionRates {
    network: ClientNetwork,
    buckets: Buckets<DefaultDirectRateLimiter>,
}

impl ConnectionRates {
    pub(crate) fn new(rates: Rates, network: ClientNetwork) -> Self {
        Self {
            network,
            buckets: Buckets::new(rates, RateLimiter::direct),
        }
    }

    /// Takes one token here and one of the address.
    pub(crate) fn allows(&self, cost: Cost, addresses: &AddressRates) -> bool {
        let of_address = addresses.0.of(cost);
        let bucket = self.buckets.of(cost);
        bucket.is_none_or(|bucket| bucket.check().is_ok())
            && of_address.is_none_or(|bucket| bucket.check_key(&self.network).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use grip_types::NetworkPrefixes;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn bytes_come_back_with_the_hour_and_when_they_are_given_back() {
        let network = |last| NetworkPrefixes::default().network([192, 0, 2, last].into());
        let bytes = BytesPerHour::new(HourlyBytes {
            per_hour: 100,
            burst: 200,
        });
        assert!(bytes.take(network(1), 150) && !bytes.take(network(1), 51));
        assert!(bytes.take(network(2), 200) && !bytes.take(network(3), 201));
        bytes.give_back(network(1), 100);
        assert!(bytes.take(network(1), 150) && !bytes.take(network(1), 1));
        tokio::time::advance(Duration::from_secs(3_600)).await;
        assert!(bytes.take(network(1), 100) && !bytes.take(network(1), 1));
        tokio::time::advance(Duration::from_secs(2 * 3_600)).await;
        bytes.forget_idle();
        assert!(bytes.networks.lock().is_empty());
        let off = BytesPerHour::new(HourlyBytes {
            per_hour: 0,
            burst: 0,
        });
        assert!(off.take(network(1), u64::MAX));
    }

    #[test]
    fn relay_8_a_rate_of_zero_is_no_limit_and_a_burst_runs_out() {
        let ip = "192.0.2.1".parse().unwrap();
        let ip = NetworkPrefixes::default().network(ip);
        let addresses = AddressRates::new(Rates::OFF);
        let free = ConnectionRates::new(Rates::OFF, ip);
        assert!((0..1_000).all(|_| free.allows(Cost::Event, &addresses)));

        let rates = Rates {
            events: Rate::new(1, 3),
            ..Rates::OFF
        };
        let bound = ConnectionRates::new(rates, ip);
        let allowed = (0..10).filter(|_| bound.allows(Cost::Event, &addresses));
        assert_eq!(allowed.count(), 3);
        assert!(bound.allows(Cost::Request, &addresses));

        // Two connections of one address share its bucket.
        let addresses = AddressRates::new(rates);
        let other = ConnectionRates::new(Rates::OFF, ip);
        let both = [&free, &other].into_iter().cycle().take(10);
        assert_eq!(
            both.filter(|one| one.allows(Cost::Event, &addresses))
                .count(),
            3
        );
        addresses.forget_idle();
    }
}
