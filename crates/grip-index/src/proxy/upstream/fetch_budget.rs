//! Bytes that networks of clients make this node fetch, hour by hour.
//!
//! Whose share is used up: that of the network alone which had it fetched. A module that is cached
//! costs nobody anything.

use std::{num::NonZeroUsize, time::Duration};

use grip_types::ClientNetwork;
use lru::LruCache;
use parking_lot::Mutex;
use tokio::time::Instant;

const HOUR: Duration = Duration::from_secs(3600);
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

    pub(super) fn spend(&self, network: ClientNetwork, bytes: u64) {
        let now = Instant::now();
        let mut networks = self.networks.lock();
        let fresh = || Spent {
            since: now,
            bytes: 0,
        };
        let spent = networks.get_or_insert_mut(network, fresh);
        if now >= spent.since + HOUR {
            *spent = fresh();
        }
        spent.bytes = spent.bytes.saturating_add(bytes);
    }
}

#[cfg(test)]
mod tests {
    use grip_types::NetworkPrefixes;

    use super::*;

    fn network(last: u8) -> ClientNetwork {
        NetworkPrefixes::default().network(std::net::IpAddr::from([192, 0, 2, last]))
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_that_fetched_its_share_waits_for_its_hour_and_no_other_does() {
        let budget = FetchBudget::new(100);
        budget.spend(network(1), 99);
        assert_eq!(budget.wait(network(1)), None);
        budget.spend(network(1), 1_000);
        assert_eq!(budget.wait(network(1)), Some(HOUR));
        assert_eq!(budget.wait(network(2)), None);
        tokio::time::advance(HOUR).await;
        assert_eq!(budget.wait(network(1)), None);
        budget.spend(network(1), 99);
        assert_eq!(budget.wait(network(1)), None);
    }
}
