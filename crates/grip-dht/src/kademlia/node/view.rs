//! What others see of the node.

use libp2p::Multiaddr;

use super::Node;

/// Which parts of the view that others have of us are old.
#[derive(Default)]
pub(in crate::kademlia) struct Changed {
    pub counts: bool,
    pub table: bool,
    pub places: bool,
}

impl Node {
    /// Lets others see what has changed, and no more: the table is large and often unchanged.
    pub(in crate::kademlia) fn show(&mut self) {
        let changed = std::mem::take(&mut self.changed);
        if changed.counts {
            let connected_peers = self.swarm.network_info().num_peers();
            let shelf = self.kad().store_mut();
            let (records, provided_keys) = (shelf.record_count(), shelf.provided_count());
            self.shared.look(|view| {
                view.connected_peers = connected_peers;
                view.records = records;
                view.provided_keys = provided_keys;
            });
        }
        if changed.table {
            let buckets = self.kad().kbuckets();
            let known_peers = buckets.map(|bucket| bucket.num_entries()).sum();
            self.shared.look(|view| view.known_peers = known_peers);
        }
        if changed.places {
            let listening = self.swarm.listeners().map(Multiaddr::to_string);
            let external = self.swarm.external_addresses().map(Multiaddr::to_string);
            let (listening, external) = (listening.collect(), external.collect());
            self.shared.look(|view| {
                view.listening = listening;
                view.external = external;
            });
        }
    }
}
