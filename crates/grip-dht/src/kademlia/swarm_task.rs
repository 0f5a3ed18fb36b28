//! The task that owns the swarm.
//!
//! Invariant: it never waits for anybody but the swarm and its queues; what takes time is done
//! elsewhere and comes back as an command.

mod events;
mod status;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use grip_tasks::CancellationToken;
use libp2p::{
    Multiaddr, PeerId, Swarm,
    futures::StreamExt as _,
    kad::{self, Quorum, Record, store::RecordStore as _},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{Instant, MissedTickBehavior, interval},
};

pub(super) use self::status::StaleStatus;
use super::{
    address::{self, Policy},
    behaviour::Behaviour,
    codec::{Found, PeerAddresses},
    publications::{Caller, Own, Publications},
    record_validation::{Offer, OwnUpdate, Publication, StoreCommand},
    request_handler::{PeerPermits, StoreQuery},
    request_streams::Waiting,
    stats::Stats,
};
use crate::{DhtError, RecordKey};

/// How often the node looks at its clock.
const TICK: Duration = Duration::from_secs(1);

/// Ticks between two looks for what has expired.
const SWEEP_TICKS: u64 = 60;

/// Most publications under way when we tell something again by ourselves.
const ANEW: usize = 16;

/// What callers ask of the node.
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
    /// Believes without a look that a peer is somewhere.
    #[cfg(test)]
    Learn { peer: PeerId, address: Multiaddr },
    /// Asks until when the record under `key` is held.
    #[cfg(test)]
    Expiry {
        key: RecordKey,
        expiry: oneshot::Sender<Option<std::time::Instant>>,
    },
}

/// All that comes in; every queue is bounded, and whoever finds one full is told "busy".
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
    pub stats: Arc<Stats>,
    pub offers: mpsc::Sender<Offer>,
    /// Each peer's share of the offers that wait.
    pub offering: Arc<PeerPermits>,
    /// How long a record of another is held once it is told.
    pub record_ttl: Duration,
    pub published: Own,
    pub publications: Publications,
    pub ticks: u64,
    pub stale: StaleStatus,
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

    fn kad(&mut self) -> &mut kad::Behaviour<super::record_store::RecordStore> {
        &mut self.swarm.behaviour_mut().kad.inner
    }

    /// Brings the peers that the operator named back to mind, and looks for others through them.
    fn bootstrap(&mut self) {
        for (peer, address) in self.bootstrap.clone() {
            self.kad().add_address(&peer, address);
        }
        // Fails only where nobody is known.
        let _ = self.kad().bootstrap();
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::LocalResponse { key, found } => {
                let own = self.own;
                let is_own = self.is_own(&key);
                let mut here = self.find(&key, &own);
                here.value = here.value.filter(|_| !is_own);
                let _ = found.send(here);
            }
            Command::Open {
                peer,
                addresses,
                waiting,
            } => {
                let streams = &mut self.swarm.behaviour_mut().request_streams;
                streams.open(peer, addresses, waiting);
            }
            #[cfg(test)]
            Command::Learn { peer, address } => {
                self.kad().add_address(&peer, address);
            }
            #[cfg(test)]
            Command::Expiry { key, expiry } => {
                let key = kad::RecordKey::new(&key.as_bytes());
                let record = self.kad().store_mut().get(&key);
                let _ = expiry.send(record.and_then(|record| record.expires));
            }
        }
    }

    /// All that lies here under `key`, as `requester` may hear of it.
    fn find(&mut self, key: &RecordKey, requester: &PeerId) -> Found {
        Found {
            value: self.held(key),
            providers: self.providers(key),
            closer: self.closest(key, requester),
        }
    }

    fn closest(&mut self, key: &RecordKey, requester: &PeerId) -> Vec<PeerAddresses> {
        let policy = self.policy;
        let key = kad::KBucketKey::new(kad::RecordKey::new(&key.as_bytes()));
        let peers = self.kad().find_closest_local_peers(&key, requester);
        let seen = |peer: kad::KadPeer| (peer.node_id, policy.filter_addresses(&peer.multiaddrs).0);
        peers.take(crate::limits::PEERS).map(seen).collect()
    }

    fn query(&mut self, query: StoreQuery) {
        let StoreQuery {
            key,
            requester,
            found,
        } = query;
        if found.is_closed() {
            return;
        }
        // The requester may have gone meanwhile.
        let _ = found.send(self.find(&key, &requester));
    }

    fn held(&mut self, key: &RecordKey) -> Option<Bytes> {
        let key = kad::RecordKey::new(&key.as_bytes());
        let record = self.kad().store_mut().get(&key)?;
        let is_good = !record.is_expired(std::time::Instant::now());
        is_good.then(|| Bytes::copy_from_slice(&record.value))
    }

    fn is_own(&mut self, key: &RecordKey) -> bool {
        let key = kad::RecordKey::new(&key.as_bytes());
        self.kad().store_mut().is_own(&key)
    }

    fn providers(&mut self, key: &RecordKey) -> Vec<PeerAddresses> {
        let key = kad::RecordKey::new(&key.as_bytes());
        let now = std::time::Instant::now();
        let mut providers = self.kad().store_mut().providers(&key);
        providers.retain(|provider| !provider.is_expired(now));
        let seen = |provider: kad::ProviderRecord| {
            let addresses = match provider.provider == self.own {
                true => self.swarm.external_addresses().cloned().collect(),
                false => provider.addresses,
            };
            (
                provider.provider,
                self.policy.filter_addresses(&addresses).0,
            )
        };
        providers.into_iter().map(seen).collect()
    }

    fn store_command(&mut self, command: StoreCommand) {
        match command {
            StoreCommand::Held { key, held } => {
                let _ = held.send(self.held(&key));
            }
            StoreCommand::Store(offer) => self.store(offer),
            StoreCommand::Renew { key, expires } => {
                let key = kad::RecordKey::new(&key.as_bytes());
                self.kad().store_mut().renew(&key, expires);
            }
            StoreCommand::OwnUpdate(OwnUpdate::Publish(publication)) => self.publish(publication),
            StoreCommand::OwnUpdate(OwnUpdate::Withdraw { key, done }) => {
                self.withdraw(&key);
                let _ = done.send(());
            }
        }
        self.stale.counts = true;
    }

    fn store(&mut self, offer: Offer) {
        let is_own = self.is_own(&offer.key);
        let record = Record {
            key: kad::RecordKey::new(&offer.key.as_bytes()),
            value: offer.value.into(),
            // What is joined with our own stays our own.
            publisher: is_own.then_some(self.own),
            expires: (!is_own).then_some(offer.expires),
        };
        if let Err(error) = self.kad().store_mut().put(record) {
            tracing::debug!(%error, key = %offer.key, "a record was not stored");
        }
    }

    fn publish(&mut self, publication: Publication) {
        let Publication {
            key,
            value,
            done,
            permit,
        } = publication;
        if !self.published.told(&key, Instant::now()) {
            let _ = done.send(Err(DhtError::Full));
            return;
        }
        if value.is_none() {
            let key = kad::RecordKey::new(&key.as_bytes());
            self.kad().remove_record(&key);
        }
        let caller = Caller { done, permit };
        self.tell(&key, value.map(Vec::from), Some(caller));
    }

    /// Stores and provides `key` at the nodes nearest to it.
    fn tell(&mut self, key: &RecordKey, value: Option<Vec<u8>>, caller: Option<Caller>) {
        let key = kad::RecordKey::new(&key.as_bytes());
        let mut queries = Vec::with_capacity(2);
        if let Some(value) = value {
            let record = Record::new(key.clone(), value);
            queries.extend(self.kad().put_record(record, Quorum::All).ok());
        }
        queries.extend(self.kad().start_providing(key).ok());
        self.publications.begin(&queries, caller);
    }

    fn withdraw(&mut self, key: &RecordKey) {
        self.published.forget(key);
        let key = kad::RecordKey::new(&key.as_bytes());
        self.kad().stop_providing(&key);
        self.kad().remove_record(&key);
    }

    fn tick(&mut self) {
        self.ticks += 1;
        let now = Instant::now();
        while self.publications.len() < ANEW
            && let Some(key) = self.published.next(now)
        {
            self.published.told(&key, now);
            let is_own = self.is_own(&key);
            let value = self.held(&key).filter(|_| is_own);
            self.tell(&key, value.map(Vec::from), None);
        }
        if self.ticks.is_multiple_of(SWEEP_TICKS) {
            self.kad().store_mut().sweep(std::time::Instant::now());
            self.stale.counts = true;
        }
        if self.ticks.is_multiple_of(self.bootstrap_ticks) {
            self.bootstrap();
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
        let addresses = entry.map(|entry| entry.node.value.iter().map(address::bare).collect());
        addresses.unwrap_or_default()
    }
}
