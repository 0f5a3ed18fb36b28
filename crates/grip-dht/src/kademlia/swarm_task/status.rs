//! What others see of the node.

use libp2p::Multiaddr;

use super::SwarmTask;

/// Which parts of the view that others have of us are old.
#[derive(Default)]
pub(in crate::kademlia) struct StaleStatus {
    pub counts: bool,
    pub table: bool,
    pub addresses: bool,
}

impl SwarmTask {
    /// Lets others see what has changed, and no more: the table is large and often unchanged.
    pub(in crate::kademlia) fn update_status(&mut self) {
        let stale = std::mem::take(&mut self.stale);
        if stale.counts {
            let connected_peers = self.swarm.network_info().num_peers();
            let store = self.kad().store_mut();
            let (records, provided_keys) = (store.record_count(), store.provided_count());
            self.stats.update(|view| {
                view.connected_peers = connected_peers;
                view.records = records;
                view.provided_keys = provided_keys;
            });
        }
        if stale.table {
            let buckets = self.kad().kbuckets();
            let known_peers = buckets.map(|bucket| bucket.num_entries()).sum();
            self.stats.update(|view| view.known_peers = known_peers);
        }
        if stale.addresses {
            let listening = self.swarm.listeners().map(Multiaddr::to_string);
            let external = self.swarm.external_addresses().map(Multiaddr::to_string);
            let (listening, external) = (listening.collect(), external.collect());
            self.stats.update(|view| {
                view.listening = listening;
                view.external = external;
            });
        }
    }
}
