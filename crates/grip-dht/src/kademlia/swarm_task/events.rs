//! Events of the swarm.

use libp2p::{
    PeerId, identify,
    kad::{self, InboundRequest, PutRecordError, QueryResult},
    swarm::SwarmEvent,
};

use super::SwarmTask;
use crate::{
    RecordKey,
    kademlia::{behaviour::BehaviourEvent, record_validation::Offer, stats::count},
    limits,
};

impl SwarmTask {
    pub(in crate::kademlia) fn event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        match event {
            SwarmEvent::Behaviour(BehaviourEvent::Kad(event)) => self.kademlia(event),
            SwarmEvent::Behaviour(BehaviourEvent::Identify(identify::Event::Received {
                peer_id,
                info,
                ..
            })) => self.identified(peer_id, &info),
            SwarmEvent::NewListenAddr { address, .. } => {
                if self.policy.allows(&address) {
                    self.swarm.add_external_address(address);
                }
                self.stale.addresses = true;
                if self.swarm.network_info().num_peers() == 0 {
                    // The host may have had no network until now.
                    self.bootstrap();
                }
            }
            SwarmEvent::ExpiredListenAddr { address, .. } => {
                self.swarm.remove_external_address(&address);
                self.stale.addresses = true;
            }
            SwarmEvent::ListenerError { error, .. } => {
                tracing::warn!(%error, "listener failed");
            }
            SwarmEvent::ListenerClosed {
                addresses, reason, ..
            } => {
                tracing::warn!(?addresses, ?reason, "listener closed");
            }
            SwarmEvent::ConnectionEstablished { endpoint, .. } => {
                // From within the operator's own network it proves nothing to the world.
                if endpoint.is_listener()
                    && self.policy.is_from_outside(endpoint.get_remote_address())
                {
                    count(&self.stats.counts.inbound_total);
                }
                self.stale.counts = true;
            }
            SwarmEvent::ConnectionClosed { .. } => self.stale.counts = true,
            _ => {}
        }
    }

    /// Puts a peer of the network into the routing table with the allowed ones of its addresses, and
    /// removes those that it no longer names.
    fn identified(&mut self, peer: PeerId, info: &identify::Info) {
        if !info.protocols.contains(&self.network) {
            return;
        }
        let (good, refused) = self.policy.filter_addresses(&info.listen_addrs);
        self.stats.refused_addresses(refused);
        if good.is_empty() {
            return;
        }
        let before = self.known_addresses(peer);
        for address in &good {
            self.kad().add_address(&peer, address.clone());
        }
        // Its name alone is no address once it has named one.
        let named = |address| self.bootstrap.contains(&(peer, address));
        let old = before.into_iter().filter(|address| !good.contains(address));
        let old: Vec<_> = old.filter(|address| !named(address.clone())).collect();
        for address in old {
            self.kad().remove_address(&peer, &address);
        }
        self.stale.table = true;
    }

    fn kademlia(&mut self, event: kad::Event) {
        match event {
            kad::Event::InboundRequest {
                request:
                    InboundRequest::PutRecord {
                        source,
                        record: Some(record),
                        ..
                    },
            } => self.offered(source, record),
            kad::Event::InboundRequest {
                request:
                    InboundRequest::AddProvider {
                        record: Some(record),
                    },
            } => self.provided(record),
            kad::Event::OutboundQueryProgressed {
                id, result, step, ..
            } if step.last => {
                self.ended(id, &result);
            }
            kad::Event::RoutingUpdated { .. } => self.stale.table = true,
            _ => {}
        }
    }

    /// Queues a record for validation; what finds the queue full is dropped, and comes again when its
    /// publisher republishes it.
    fn offered(&mut self, source: PeerId, record: kad::Record) {
        let counts = &self.stats.counts;
        let key = RecordKey::new(record.key.to_vec());
        let Some(key) = key
            .ok()
            .filter(|_| record.value.len() <= limits::RECORD_BYTES)
        else {
            return count(&counts.refused_total);
        };
        let Some(permit) = self.offer_permits.try_acquire(source) else {
            return count(&counts.unjudged_total);
        };
        let offer = Offer {
            key,
            value: record.value.into(),
            source: self.source(source),
            expires: std::time::Instant::now() + self.record_ttl,
            _permit: permit,
        };
        if self.offers.try_send(offer).is_err() {
            count(&counts.unjudged_total);
        }
    }

    /// Stores a provider record. That the provider itself sent it has been checked; whether it has
    /// what the key names shows in its response.
    fn provided(&mut self, mut record: kad::ProviderRecord) {
        let (addresses, refused) = self.policy.filter_addresses(&record.addresses);
        self.stats.refused_addresses(refused);
        record.addresses = addresses;
        let source = self.source(record.provider);
        if let Err(error) = self.store().add_provider_from(record, source) {
            tracing::debug!(%error, "failed to store provider record");
        }
        self.stale.counts = true;
    }

    fn ended(&mut self, query: kad::QueryId, result: &QueryResult) {
        let stored_at = match result {
            QueryResult::PutRecord(Ok(_)) => limits::PEERS,
            QueryResult::PutRecord(Err(
                PutRecordError::QuorumFailed { success, .. }
                | PutRecordError::Timeout { success, .. },
            )) => success.len(),
            QueryResult::StartProviding(_) => 0,
            _ => return,
        };
        let alone = self.swarm.network_info().num_peers() == 0;
        let stats = std::sync::Arc::clone(&self.stats);
        self.publications.ended(query, stored_at, alone, &stats);
        self.stale.counts = true;
    }
}
