//! The task that owns the swarm.
//!
//! Invariant: it waits for nothing but the swarm and its queues; slow work is done elsewhere and
//! comes back as a command.

mod events;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use grip_tasks::CancellationToken;
use libp2p::{
    Multiaddr, PeerId, Swarm,
    futures::StreamExt as _,
    kad::{self, Quorum, Record, store::RecordStore as _},
    swarm::dial_opts::{DialOpts, PeerCondition},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{MissedTickBehavior, interval},
};

use super::{
    address::{self, Policy},
    behaviour::Behaviour,
    codec::{Found, PeerAddresses},
    own_keys::OwnKeys,
    publications::Publications,
    reachability::{self, Signs},
    record_store::{RecordStore, Source},
    record_validation::{Offer, OwnUpdate, Publication, StoreCommand},
    request_handler::{PeerPermits, StoreQuery},
    request_streams::Waiting,
    stats::{Stats, count},
};
use crate::{Reachability, RecordKey};

const TICK: Duration = Duration::from_secs(1);

/// Ticks between two removals of expired records.
const EXPIRY_TICKS: u64 = 60;

/// A table with so many peers is refreshed this many times less often: one refresh is a search in
/// every bucket, some four hundred requests in a large network.
const ENOUGH_PEERS: usize = 20;
const SETTLED: u64 = 12;

/// Commands of callers.
pub(super) enum Command {
    LocalResponse {
        key: RecordKey,
        found: oneshot::Sender<Found>,
    },
    Open {
        peer: PeerId,
        addresses: Vec<Multiaddr>,
        waiting: Waiting,
    },
    /// Dials a peer that others named.
    Meet { peer: PeerId, address: Multiaddr },
    /// Peers of the routing table, the connected ones first.
    GoodPeers {
        limit: usize,
        found: oneshot::Sender<Vec<String>>,
    },
    /// Replaces the external addresses beside those that are listened on.
    External { addresses: Vec<Multiaddr> },
    /// Adds an address to the routing table without a check.
    #[cfg(any(test, feature = "testing"))]
    Learn { peer: PeerId, address: Multiaddr },
    /// Reads when the record under `key` expires.
    #[cfg(test)]
    Expiry {
        key: RecordKey,
        expiry: oneshot::Sender<Option<std::time::Instant>>,
    },
}

/// The inputs of the task; every queue is bounded, and a sender that finds one full is refused.
pub(super) struct Queues {
    pub commands: mpsc::Receiver<Command>,
    pub store_queries: mpsc::Receiver<StoreQuery>,
    pub store_commands: mpsc::Receiver<StoreCommand>,
}

pub(super) struct SwarmTask {
    pub swarm: Swarm<Behaviour>,
    pub own: PeerId,
    pub policy: Policy,
    pub network: libp2p::StreamProtocol,
    pub bootstrap: Vec<(PeerId, Multiaddr)>,
    pub bootstrap_ticks: u64,
    /// Addresses of ours that the operator named.
    pub external: Vec<Multiaddr>,
    pub stats: Arc<Stats>,
    pub offers: mpsc::Sender<Offer>,
    /// Each peer's part of the queue of offers.
    pub offer_permits: PeerPermits,
    /// How long a record of another is held.
    pub record_ttl: Duration,
    pub own_keys: OwnKeys,
    pub publications: Publications,
    pub ticks: u64,
    pub reachability: Reachability,
    pub stale: StaleStatus,
}

/// Parts of the shared status that are out of date.
#[derive(Default)]
pub(super) struct StaleStatus {
    pub counts: bool,
    pub table: bool,
    pub addresses: bool,
}

fn kad_key(key: &RecordKey) -> kad::RecordKey {
    kad::RecordKey::new(&key.as_bytes())
}

impl SwarmTask {
    pub(super) async fn run(mut self, mut queues: Queues, stop: CancellationToken) {
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        self.bootstrap();
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                event = self.swarm.select_next_some() => self.event(event),
                Some(command) = queues.commands.recv() => self.command(command),
                Some(query) = queues.store_queries.recv() => self.query(query),
                Some(command) = queues.store_commands.recv() => self.store_command(command),
                _ = tick.tick() => self.tick(),
            }
            self.update_status();
        }
    }

    fn kad(&mut self) -> &mut kad::Behaviour<RecordStore> {
        &mut self.swarm.behaviour_mut().kad.inner
    }

    fn store(&mut self) -> &mut RecordStore {
        self.kad().store_mut()
    }

    /// Puts the configured peers back into the routing table, and looks for others through them.
    ///
    /// Where they are is known to the address filter; the table is for everybody to read.
    fn bootstrap(&mut self) {
        for (peer, address) in self.bootstrap.clone() {
            let shown = self.policy.shown(peer, &address);
            self.kad().add_address(&peer, shown);
        }
        // Fails only where no peer is known.
        let _ = self.kad().bootstrap();
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::LocalResponse { key, found } => {
                let own = self.own;
                let is_own = self.store().is_own(&kad_key(&key));
                let mut local = self.find(&key, &own);
                local.value = local.value.filter(|_| !is_own);
                let _ = found.send(local);
            }
            Command::Open {
                peer,
                addresses,
                waiting,
            } => {
                let streams = &mut self.swarm.behaviour_mut().request_streams;
                streams.open(peer, addresses, waiting);
            }
            Command::Meet { peer, address } => self.meet(peer, address),
            Command::GoodPeers { limit, found } => {
                let _ = found.send(self.good_peers(limit));
            }
            Command::External { addresses } => self.set_external(addresses),
            #[cfg(any(test, feature = "testing"))]
            Command::Learn { peer, address } => {
                self.kad().add_address(&peer, address);
            }
            #[cfg(test)]
            Command::Expiry { key, expiry } => {
                let record = self.store().get(&kad_key(&key));
                let _ = expiry.send(record.and_then(|record| record.expires));
            }
        }
    }

    /// It gets into the routing table once it has shown that it is one of this network.
    fn meet(&mut self, peer: PeerId, address: Multiaddr) {
        let dial = DialOpts::peer_id(peer)
            .condition(PeerCondition::DisconnectedAndNotDialing)
            .addresses(vec![address])
            .build();
        if let Err(error) = self.swarm.dial(dial) {
            tracing::debug!(%peer, %error, "failed to dial a peer that others named");
        }
    }

    /// Peers hear of the change when they ask who we are, and with what is published next.
    fn set_external(&mut self, addresses: Vec<Multiaddr>) {
        let old = std::mem::replace(&mut self.external, addresses);
        for address in old {
            let is_listened_on = self.swarm.listeners().any(|it| *it == address);
            if !is_listened_on && !self.external.contains(&address) {
                self.swarm.remove_external_address(&address);
            }
        }
        for address in self.external.clone() {
            self.swarm.add_external_address(address);
        }
        self.stale.addresses = true;
    }

    fn good_peers(&mut self, limit: usize) -> Vec<String> {
        let policy = self.policy;
        let mut good = Vec::new();
        for bucket in self.kad().kbuckets() {
            for entry in bucket.iter() {
                let peer = *entry.node.key.preimage();
                let addresses = entry.node.value.iter().map(address::without_peer);
                // Those of the operator are in the settings.
                let Some(address) = addresses.into_iter().find(|it| policy.allows(it)) else {
                    continue;
                };
                let is_away = entry.status != kad::NodeStatus::Connected;
                good.push((is_away, format!("{address}/p2p/{peer}")));
            }
        }
        good.sort();
        good.into_iter().take(limit).map(|(_, peer)| peer).collect()
    }

    fn query(&mut self, query: StoreQuery) {
        let StoreQuery {
            key,
            requester,
            found,
        } = query;
        if !found.is_closed() {
            // The requester may have left meanwhile.
            let _ = found.send(self.find(&key, &requester));
        }
    }

    /// Everything that is stored under `key`, for `requester`.
    fn find(&mut self, key: &RecordKey, requester: &PeerId) -> Found {
        Found {
            value: self.held(key),
            providers: self.providers(key),
            closer: self.closest(key, requester),
        }
    }

    fn held(&mut self, key: &RecordKey) -> Option<Bytes> {
        let record = self.store().get(&kad_key(key))?;
        let is_expired = record.is_expired(std::time::Instant::now());
        (!is_expired).then(|| Bytes::copy_from_slice(&record.value))
    }

    fn providers(&mut self, key: &RecordKey) -> Vec<PeerAddresses> {
        let now = std::time::Instant::now();
        let mut providers = self.store().providers(&kad_key(key));
        providers.retain(|provider| !provider.is_expired(now));
        let with_addresses = |provider: kad::ProviderRecord| {
            let addresses = if provider.provider == self.own {
                self.swarm.external_addresses().cloned().collect()
            } else {
                provider.addresses
            };
            let (allowed, _) = self.policy.filter_addresses(&addresses);
            (provider.provider, allowed)
        };
        providers.into_iter().map(with_addresses).collect()
    }

    fn closest(&mut self, key: &RecordKey, requester: &PeerId) -> Vec<PeerAddresses> {
        let policy = self.policy;
        let key = kad::KBucketKey::new(kad_key(key));
        let peers = self.kad().find_closest_local_peers(&key, requester);
        let allowed =
            |peer: kad::KadPeer| (peer.node_id, policy.filter_addresses(&peer.multiaddrs).0);
        peers.take(crate::limits::PEERS).map(allowed).collect()
    }

    fn store_command(&mut self, command: StoreCommand) {
        match command {
            StoreCommand::Read { key, held } => {
                let _ = held.send(self.held(&key));
            }
            StoreCommand::Store(offer) => self.put(offer),
            StoreCommand::Renew { key, expires } => {
                self.store().renew(&kad_key(&key), expires);
            }
            StoreCommand::Own(OwnUpdate::Publish(publication)) => self.publish(publication),
            StoreCommand::Own(OwnUpdate::Withdraw { key, done }) => {
                self.own_keys.remove(&key);
                let key = kad_key(&key);
                self.kad().stop_providing(&key);
                self.kad().remove_record(&key);
                let _ = done.send(());
            }
        }
        self.stale.counts = true;
    }

    fn put(&mut self, offer: Offer) {
        let key = kad_key(&offer.key);
        let is_own = self.store().is_own(&key);
        let record = Record {
            key,
            value: offer.value.into(),
            // The joint with a record of our own stays our own.
            publisher: is_own.then_some(self.own),
            expires: (!is_own).then_some(offer.expires),
        };
        if let Err(error) = self.store().put_from(record, offer.source) {
            tracing::debug!(%error, key = %offer.key, "failed to store record");
        }
    }

    /// Who is charged for what `peer` has stored here.
    fn source(&self, peer: PeerId) -> Source {
        let connections = &self.swarm.behaviour().connection_limits;
        Source::new(peer, connections.host_of(&peer))
    }

    /// Stores and provides a key at the nodes nearest to it.
    fn publish(&mut self, publication: Publication) {
        let Publication { key, value, caller } = publication;
        let kad_key = kad_key(&key);
        if let Some(displaced) = self.own_keys.publish(key) {
            self.displace(&displaced);
        }
        let mut queries = Vec::with_capacity(2);
        if let Some(value) = value {
            let record = Record::new(kad_key.clone(), value.into());
            queries.extend(self.kad().put_record(record, Quorum::All).ok());
        } else {
            self.kad().remove_record(&kad_key);
        }
        queries.extend(self.kad().start_providing(kad_key).ok());
        self.publications.begin(&queries, caller);
    }

    /// Stops providing a key that makes room for another; those who hold it let it expire.
    fn displace(&mut self, key: &RecordKey) {
        let displaced = self.stats.counts.displaced_total.load(Ordering::Relaxed);
        if displaced == 0 {
            tracing::warn!(
                max_published = self.own_keys.max(),
                "more keys are published than may be provided at once: each is provided a part of \
                 the time; raise dht_max_published"
            );
        }
        count(&self.stats.counts.displaced_total);
        let key = kad_key(key);
        self.kad().stop_providing(&key);
        self.kad().remove_record(&key);
    }

    fn tick(&mut self) {
        self.ticks += 1;
        if self.ticks.is_multiple_of(EXPIRY_TICKS) {
            self.store().remove_expired(std::time::Instant::now());
            self.stale.counts = true;
        }
        let known_peers = self.stats.status().known_peers;
        let ticks = if known_peers < ENOUGH_PEERS {
            self.bootstrap_ticks
        } else {
            self.bootstrap_ticks * SETTLED
        };
        if self.ticks.is_multiple_of(ticks) {
            self.bootstrap();
        }
        self.check_reachability(known_peers);
    }

    fn check_reachability(&mut self, known_peers: usize) {
        let signs = Signs {
            up: TICK * u32::try_from(self.ticks).unwrap_or(u32::MAX),
            known_peers,
            inbound: self.stats.counts.inbound_total.load(Ordering::Relaxed),
            external: self.swarm.external_addresses().count(),
        };
        let reachability = signs.reachability();
        if reachability != self.reachability {
            self.reachability = reachability;
            self.stats
                .update(|status| status.reachability = reachability);
            reachability::warn(reachability);
        }
    }

    /// Addresses of `peer` in the routing table.
    fn known_addresses(&mut self, peer: PeerId) -> Vec<Multiaddr> {
        let Some(bucket) = self.kad().kbucket(peer) else {
            return Vec::new();
        };
        let entry = bucket
            .iter()
            .find(|entry| *entry.node.key.preimage() == peer);
        let addresses =
            entry.map(|entry| entry.node.value.iter().map(address::without_peer).collect());
        addresses.unwrap_or_default()
    }

    /// Updates the stale parts of the shared status, and no more: the table is large and often
    /// unchanged.
    pub(super) fn update_status(&mut self) {
        let stale = std::mem::take(&mut self.stale);
        if stale.counts {
            let connected_peers = self.swarm.network_info().num_peers();
            let store = self.store();
            let (records, provided_keys) = (store.record_count(), store.provided_count());
            let (published_keys, max_published) = (self.own_keys.len(), self.own_keys.max());
            self.stats.update(|status| {
                status.connected_peers = connected_peers;
                status.records = records;
                status.provided_keys = provided_keys;
                status.published_keys = published_keys;
                status.max_published = max_published;
            });
        }
        if stale.table {
            let buckets = self.kad().kbuckets();
            let known_peers = buckets.map(|bucket| bucket.num_entries()).sum();
            self.stats.update(|status| status.known_peers = known_peers);
        }
        if stale.addresses {
            let listening = self.swarm.listeners().map(Multiaddr::to_string);
            let external = self.swarm.external_addresses().map(Multiaddr::to_string);
            let (listening, external) = (listening.collect(), external.collect());
            self.stats.update(|status| {
                status.listening = listening;
                status.external = external;
            });
        }
    }
}
