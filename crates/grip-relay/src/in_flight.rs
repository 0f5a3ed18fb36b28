//! Events under way, bounded in bytes: over all connections, and by the network of their clients.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use grip_types::ClientNetwork;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};

/// One network has at most this part of what is free; and one event, whatever is free.
const PER_NETWORK: usize = 8;

/// Bytes of events that are read and not decided. Who finds no room waits; it frees itself as events
/// are decided, whether or not their senders read the answers.
pub(crate) struct InFlight {
    total: usize,
    shares: Mutex<Shares>,
    /// The bound of all, for which networks wait in their order.
    all: Arc<Semaphore>,
}

#[derive(Default)]
struct Shares {
    used: usize,
    /// Bounded by connections: a network leaves with its last event and waiter.
    networks: HashMap<ClientNetwork, Share>,
}

#[derive(Default)]
struct Share {
    used: usize,
    waiting: usize,
    freed: Arc<Notify>,
}

/// The right to have an event under way; free again on drop.
pub(crate) struct InFlightPermit {
    _all: OwnedSemaphorePermit,
    _share: Option<ShareOf>,
}

impl InFlight {
    pub(crate) fn new(total: usize) -> Arc<Self> {
        Arc::new(Self {
            total,
            shares: Mutex::default(),
            all: Arc::new(Semaphore::new(total.min(Semaphore::MAX_PERMITS))),
        })
    }

    /// Waits for room. Cancel safe: giving up takes nothing.
    pub(crate) async fn acquire(
        self: &Arc<Self>,
        network: Option<ClientNetwork>,
        bytes: usize,
    ) -> InFlightPermit {
        // An event that is larger than the bound takes all of it.
        let bytes = bytes.min(self.total);
        let share = match network {
            Some(network) => Some(self.share(network, bytes).await),
            None => None,
        };
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let all = Arc::clone(&self.all).acquire_many_owned(bytes).await;
        InFlightPermit {
            _all: all.expect("never closed"),
            _share: share,
        }
    }

    async fn share(self: &Arc<Self>, network: ClientNetwork, bytes: usize) -> ShareOf {
        let waiter = Waiter::new(self, network);
        loop {
            let freed = waiter.freed.notified();
            let mut freed = std::pin::pin!(freed);
            freed.as_mut().enable();
            if self.try_share(&network, bytes) {
                // There may be room for another.
                waiter.freed.notify_one();
                return ShareOf {
                    in_flight: Arc::clone(self),
                    network,
                    bytes,
                };
            }
            freed.await;
        }
    }

    fn try_share(&self, network: &ClientNetwork, bytes: usize) -> bool {
        let mut shares = self.shares.lock();
        let free = self.total.saturating_sub(shares.used);
        let share = shares.networks.entry(*network).or_default();
        let fits = share.used == 0 || share.used + bytes <= free / PER_NETWORK;
        if fits {
            share.used += bytes;
            shares.used += bytes;
        }
        fits
    }

    fn change(&self, network: ClientNetwork, change: impl FnOnce(&mut Share)) {
        let mut shares = self.shares.lock();
        let mut entry = match shares.networks.entry(network) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(_) => return,
        };
        change(entry.get_mut());
        if entry.get().used == 0 && entry.get().waiting == 0 {
            entry.remove();
        }
    }
}

/// Keeps the share of a network in the map while somebody waits for it.
struct Waiter<'f> {
    in_flight: &'f InFlight,
    network: ClientNetwork,
    freed: Arc<Notify>,
}

impl<'f> Waiter<'f> {
    fn new(in_flight: &'f InFlight, network: ClientNetwork) -> Self {
        let mut shares = in_flight.shares.lock();
        let share = shares.networks.entry(network).or_default();
        share.waiting += 1;
        let freed = Arc::clone(&share.freed);
        Self {
            in_flight,
            network,
            freed,
        }
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.in_flight
            .change(self.network, |share| share.waiting -= 1);
    }
}

struct ShareOf {
    in_flight: Arc<InFlight>,
    network: ClientNetwork,
    bytes: usize,
}

impl Drop for ShareOf {
    fn drop(&mut self) {
        self.in_flight.shares.lock().used -= self.bytes;
        self.in_flight.change(self.network, |share| {
            share.used -= self.bytes;
            share.freed.notify_one();
        });
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;
    use grip_types::NetworkPrefixes;

    use super::*;

    fn network(last: u8) -> Option<ClientNetwork> {
        Some(NetworkPrefixes::default().network([203, 0, 113, last].into()))
    }

    #[tokio::test]
    async fn a_network_that_has_its_share_waits_and_others_do_not() {
        let in_flight = InFlight::new(9_000);
        let mut mine = Vec::new();
        while let Some(permit) = in_flight.acquire(network(1), 100).now_or_never() {
            mine.push(permit);
        }
        assert_eq!(mine.len(), 10, "a ninth of all");
        let other = in_flight.acquire(network(2), 800).now_or_never();
        assert!(other.is_some());
        let unnamed = in_flight.acquire(None, 5_000).now_or_never();
        assert!(unnamed.is_some());

        let waiting: Vec<_> = (0..3).map(|_| in_flight.acquire(network(1), 50)).collect();
        let waiting = futures_util::future::join_all(waiting);
        tokio::pin!(waiting);
        assert!((&mut waiting).now_or_never().is_none());
        drop((mine, other, unnamed));
        waiting.await;
        assert!(in_flight.shares.lock().networks.is_empty());
        assert_eq!(in_flight.shares.lock().used, 0);
    }

    #[tokio::test]
    async fn one_event_of_each_network_is_taken_whatever_is_free() {
        let in_flight = InFlight::new(1_000);
        let first = in_flight.acquire(network(1), 900).now_or_never();
        assert!(first.is_some());
        assert!(in_flight.acquire(network(2), 50).now_or_never().is_some());
        // Given up while it waits for the bound of all.
        assert!(in_flight.acquire(network(3), 500).now_or_never().is_none());
        drop(first);
        assert!(
            in_flight
                .acquire(network(3), 5_000)
                .now_or_never()
                .is_some()
        );
        assert!(in_flight.shares.lock().networks.is_empty());
    }
}
