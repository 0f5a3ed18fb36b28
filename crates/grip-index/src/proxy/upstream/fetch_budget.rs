//! Bytes that networks of clients make this node fetch, hour by hour.
//!
//! Whose share is used up: that of the network alone which had it fetched. A module that is cached
//! costs nobody anything.

use std::{
    num::NonZeroUsize,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use grip_types::ClientNetwork;
use lru::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;

const HOUR: Duration = Duration::from_secs(3600);
/// The least that a fetch costs, whatever it brings: also a refusal costs the host and us a request.
const MIN_COST: u64 = 512 << 10;
/// The least that a fetch may bring if anything is left: else the last one of the hour would mostly
/// be for nothing.
const MIN_ALLOWED: u64 = 16 << 20;
/// Networks that are remembered; the one that fetched longest ago is forgotten.
const MAX_NETWORKS: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();

pub(super) struct FetchBudget {
    bytes_per_hour: u64,
    networks: Mutex<LruCache<ClientNetwork, Spent>>,
}

struct Spent {
    since: Instant,
    bytes: u64,
}

impl FetchBudget {
    pub(super) fn new(bytes_per_hour: u64) -> Self {
        Self {
            bytes_per_hour,
            networks: Mutex::new(LruCache::new(MAX_NETWORKS)),
        }
    }

    /// How long a network that has nothing left has to wait; none if it may fetch.
    pub(super) fn wait(&self, network: ClientNetwork) -> Option<Duration> {
        let now = Instant::now();
        let networks = self.networks.lock();
        let spent = networks.peek(&network)?;
        let end = spent.since + HOUR;
        (now < end && spent.bytes >= self.bytes_per_hour).then(|| end - now)
    }

    /// Begins a fetch for a network, which costs it something at once; or says how long it has to wait.
    pub(super) fn begin(&self, network: ClientNetwork) -> Result<Fetching<'_>, Duration> {
        let now = Instant::now();
        let mut networks = self.networks.lock();
        let spent = Spent::of(&mut networks, network, now);
        let allowed = match spent.bytes {
            // Else what is larger than all of the budget could never be had.
            0 => u64::MAX,
            bytes if bytes >= self.bytes_per_hour => return Err(spent.since + HOUR - now),
            bytes => MIN_ALLOWED.max(self.bytes_per_hour - bytes),
        };
        spent.bytes += MIN_COST;
        Ok(Fetching {
            payer: Some((self, network)),
            allowed,
            received: AtomicU64::new(0),
        })
    }

    fn spend(&self, network: ClientNetwork, bytes: u64) {
        let mut networks = self.networks.lock();
        let spent = Spent::of(&mut networks, network, Instant::now());
        spent.bytes = spent.bytes.saturating_add(bytes);
    }
}

impl Spent {
    /// What a network has spent in its hour.
    fn of(
        networks: &mut LruCache<ClientNetwork, Self>,
        network: ClientNetwork,
        now: Instant,
    ) -> &mut Self {
        let fresh = || Self {
            since: now,
            bytes: 0,
        };
        let spent = networks.get_or_insert_mut(network, fresh);
        if now >= spent.since + HOUR {
            *spent = fresh();
        }
        spent
    }
}

/// A fetch, and who pays for it.
pub(super) struct Fetching<'a> {
    payer: Option<(&'a FetchBudget, ClientNetwork)>,
    allowed: u64,
    received: AtomicU64,
}

impl Fetching<'_> {
    /// A fetch that nobody pays for.
    pub(super) fn unpaid() -> Self {
        Self {
            payer: None,
            allowed: u64::MAX,
            received: AtomicU64::new(0),
        }
    }

    /// Bytes that it may bring.
    pub(super) fn allowed(&self) -> u64 {
        self.allowed
    }

    /// Bytes that it has brought.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Counts bytes as they come, so that fetches at the same time see what this one has cost.
    pub(super) fn receive(&self, bytes: u64) {
        let before = self.received.fetch_add(bytes, Ordering::Relaxed);
        let cost = (before + bytes).max(MIN_COST) - before.max(MIN_COST);
        if let Some((budget, network)) = self.payer
            && cost > 0
        {
            budget.spend(network, cost);
        }
    }

    /// How long its network has to wait if it has brought all that it may.
    pub(super) fn wait(&self) -> Option<Duration> {
        let (budget, network) = self.payer?;
        let is_spent = self.received() >= self.allowed;
        // Nothing, if the hour has ended meanwhile.
        is_spent.then(|| budget.wait(network).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use grip_types::NetworkPrefixes;

    use super::*;

    fn network(last: u8) -> ClientNetwork {
        NetworkPrefixes::default().network(std::net::IpAddr::from([192, 0, 2, last]))
    }

    const BUDGET: u64 = 100 << 20;

    #[tokio::test(start_paused = true)]
    async fn a_network_that_fetched_its_share_waits_for_its_hour_and_no_other_does() {
        let budget = FetchBudget::new(BUDGET);
        let fetching = budget.begin(network(1)).unwrap();
        fetching.receive(BUDGET - 1);
        assert_eq!(budget.wait(network(1)), None);
        fetching.receive(1_000);
        assert_eq!(budget.wait(network(1)), Some(HOUR));
        assert_eq!(budget.begin(network(1)).err(), Some(HOUR));
        assert_eq!(budget.wait(network(2)), None);
        tokio::time::advance(HOUR).await;
        assert_eq!(budget.wait(network(1)), None);
        assert!(budget.begin(network(1)).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn fetches_that_bring_nothing_cost_something() {
        let budget = FetchBudget::new(BUDGET);
        let begun = (0..1_000).take_while(|_| budget.begin(network(1)).is_ok());
        assert_eq!(begun.count() as u64, BUDGET / MIN_COST);
        assert!(budget.begin(network(2)).is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn a_fetch_may_bring_what_others_at_the_same_time_have_left() {
        let budget = FetchBudget::new(BUDGET);
        let first = budget.begin(network(1)).unwrap();
        assert_eq!(first.allowed(), u64::MAX, "the first may be of any size");
        let second = budget.begin(network(1)).unwrap();
        assert_eq!(second.allowed(), BUDGET - MIN_COST);
        first.receive(BUDGET - 3 * MIN_COST);
        let third = budget.begin(network(1)).unwrap();
        assert_eq!(third.allowed(), MIN_ALLOWED);
        third.receive(MIN_ALLOWED - 1);
        assert_eq!(third.wait(), None);
        third.receive(1);
        assert_eq!(third.wait(), Some(HOUR));
    }
}
