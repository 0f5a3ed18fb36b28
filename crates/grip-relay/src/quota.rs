//! Quotas that all connections share, counted by the network of their clients.

use std::{collections::HashMap, sync::Arc};

use grip_types::ClientNetwork;
use parking_lot::Mutex;

/// One network has at most this part of what is free, so that whatever others have taken, the next
/// one finds room.
const PER_NETWORK: usize = 8;

/// An amount of bytes or records for all connections together. Connections without a network count
/// against the total alone.
pub(crate) struct Quota {
    total: usize,
    used: Mutex<Used>,
}

#[derive(Default)]
struct Used {
    all: usize,
    /// Bounded by connections: a network leaves with the last it holds.
    networks: HashMap<ClientNetwork, usize>,
}

/// What one holder has of a quota; free again on drop.
pub(crate) struct Held {
    quota: Arc<Quota>,
    network: Option<ClientNetwork>,
    amount: usize,
}

impl Quota {
    pub(crate) fn new(total: usize) -> Arc<Self> {
        let used = Mutex::default();
        Arc::new(Self { total, used })
    }

    /// A holder of nothing yet.
    pub(crate) fn holder(self: &Arc<Self>, network: Option<ClientNetwork>) -> Held {
        Held {
            quota: Arc::clone(self),
            network,
            amount: 0,
        }
    }

    #[cfg(test)]
    pub(crate) fn used(&self) -> usize {
        self.used.lock().all
    }
}

impl Used {
    fn add(&mut self, network: Option<ClientNetwork>, more: usize) {
        self.all += more;
        if let Some(network) = network {
            *self.networks.entry(network).or_default() += more;
        }
    }

    fn remove(&mut self, network: Option<ClientNetwork>, less: usize) {
        self.all -= less;
        if let Some(network) = network
            && let Some(used) = self.networks.get_mut(&network)
        {
            *used -= less;
            if *used == 0 {
                self.networks.remove(&network);
            }
        }
    }
}

impl Held {
    pub(crate) fn amount(&self) -> usize {
        self.amount
    }

    /// Takes more or gives back. False, and nothing changes, if the network has its share already.
    pub(crate) fn resize(&mut self, amount: usize) -> bool {
        if amount == self.amount {
            return true;
        }
        let mut used = self.quota.used.lock();
        if amount < self.amount {
            used.remove(self.network, self.amount - amount);
        } else {
            let more = amount - self.amount;
            let free = self.quota.total.saturating_sub(used.all);
            let fits = match &self.network {
                Some(network) => {
                    let of_network = used.networks.get(network).copied().unwrap_or(0);
                    of_network.saturating_add(more) <= free / PER_NETWORK
                }
                None => more <= free,
            };
            if !fits {
                return false;
            }
            used.add(self.network, more);
        }
        drop(used);
        self.amount = amount;
        true
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use grip_types::NetworkPrefixes;

    use super::*;

    fn network(last: u8) -> Option<ClientNetwork> {
        Some(NetworkPrefixes::default().network([203, 0, 113, last].into()))
    }

    /// All that one network gets in steps of one.
    fn take_all(quota: &Arc<Quota>, last: u8) -> Held {
        let mut held = quota.holder(network(last));
        while held.resize(held.amount() + 1) {}
        held
    }

    #[test]
    fn one_network_gets_a_ninth_however_many_holders_it_has() {
        let quota = Quota::new(9_000);
        let first = take_all(&quota, 1);
        assert_eq!(first.amount(), 1_000);
        assert_eq!(take_all(&quota, 1).amount(), 0);
        let second = take_all(&quota, 2);
        assert!(second.amount() > 880, "{}", second.amount());
        drop((first, second));
        assert_eq!(quota.used(), 0);
        assert!(quota.used.lock().networks.is_empty());
    }

    #[test]
    fn fifty_networks_that_take_all_they_get_leave_some_to_the_next() {
        let quota = Quota::new(512 << 20);
        let mut taken = Vec::new();
        for last in 0..50 {
            let mut held = quota.holder(network(last));
            while held.resize(held.amount() + (64 << 10)) {}
            taken.push(held);
        }
        let mut late = quota.holder(network(99));
        assert!(late.resize(64 << 10));
        let mut unnamed = quota.holder(None);
        assert!(unnamed.resize(64 << 10) && !unnamed.resize(512 << 20));
    }
}
