//! Resolution of keys: cache, then local manifests, then the network.
//!
//! Invariants:
//! - Concurrent misses of one key are one resolution.
//! - A resolution that finds the queue full, or whose turn would come too late, is refused at once.
//! - The deadline counts from the call; waiting for a worker is part of it. Who joins a flight that
//!   ends at an earlier deadline goes on with another.
//! - A resolution sees the settings of the moment of its start, in all of its steps.
//! - Resolutions in flight when the node drains go on to their deadline or the node's; when it stops
//!   they end as cancelled, and no task is left.

mod drain;
mod load;
mod pipeline;
mod providers;
mod status;

use std::{
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use grip_dht::{Dht, PeerName};
use grip_nostr::RepoAddr;
use grip_tasks::{CancellationToken, Live, TaskGroup};
use moka::future::Cache as Store;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::{sync::Semaphore, time::Instant};
use url::Url;

pub use self::{
    providers::Ranked,
    status::{Health as PipelineHealth, Status},
};
use crate::{
    HealthOf, Key, LocalManifests, Manifest, ManifestId, NodeKey, NodeRecord, Options,
    ResolveError,
    cache::Cache,
    counters::LiveCounters,
    lookup::Network,
    publisher::Publisher,
    single_flight::{self, Flights},
};

/// Resolves keys. Cheap to clone; all clones are the same resolver.
#[derive(Clone)]
pub struct Resolver {
    core: Arc<Core>,
}

/// Parts that a resolver is made of.
pub struct Parts {
    /// None: only local manifests are found.
    pub dht: Option<Arc<dyn Dht>>,
    pub local_manifests: Arc<LocalManifests>,
    pub health: Arc<HealthOf>,
    /// One snapshot, swapped as a whole.
    pub options: Arc<Live<Options>>,
    /// None: no node record is published.
    pub identity: Option<Identity>,
    /// Cancelled when callers stop coming: what is in flight then has until the drain deadline.
    pub draining: CancellationToken,
    pub group: TaskGroup,
}

/// This node as other nodes see it.
pub struct Identity {
    pub key: NodeKey,
    /// Where its repositories are, below which comes `<npub>/<identifier>.git`.
    pub urls: Vec<Url>,
}

/// Parameters of one resolution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResolveParams {
    /// Not from the cache, and the network is queried even if the answer is local.
    pub fresh: bool,
    /// Shorter than the configured deadline; a longer one is cut.
    pub deadline: Option<Duration>,
}

/// The origin of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "ResolveSource")]
pub enum Source {
    Cache,
    /// From the cache, no longer fresh; it is being resolved again.
    Stale,
    Local,
    Dht,
}

/// An answer.
#[derive(Clone, Debug)]
pub struct Resolved {
    pub manifest: Manifest,
    pub id: ManifestId,
    pub source: Source,
    /// Hops to the peer that had it; 0 for a local manifest.
    pub hops: u32,
    /// Requests that it took to find it.
    pub asked: u32,
    pub took: Duration,
}

pub(crate) struct Core {
    pub(crate) network: Option<Network>,
    pub(crate) local_manifests: Arc<LocalManifests>,
    health: Arc<HealthOf>,
    pub(crate) options: Arc<Live<Options>>,
    pub(crate) cache: Cache,
    flights: Flights,
    queue_capacity: usize,
    load: load::Load,
    /// Permits of the workers.
    permits: Arc<Semaphore>,
    workers: usize,
    busy_workers: Arc<AtomicUsize>,
    pub(crate) counters: Arc<LiveCounters>,
    pub(crate) identity: Option<Identity>,
    node_records: Store<PeerName, Option<NodeRecord>>,
    pub(crate) publisher: Publisher,
    draining: CancellationToken,
    /// Ends every resolution in flight; cancelled by [`drain::run`] alone.
    cut: CancellationToken,
    pub(crate) group: TaskGroup,
}

impl Resolver {
    /// Starts the workers and the publisher, all owned by the group.
    pub fn start(parts: Parts) -> Self {
        let options = parts.options.get();
        let cut = CancellationToken::new();
        let counters = Arc::new(LiveCounters::default());
        let network = parts.dht.map(|dht| {
            let counters = Arc::clone(&counters);
            Network::new(
                dht,
                options.breaker,
                counters,
                cut.clone(),
                parts.group.clone(),
            )
        });
        let queue_capacity = options.queue.max(1);
        let (flights, jobs) = Flights::new(queue_capacity);
        let workers = options.workers.max(1);
        let core = Arc::new(Core {
            network,
            local_manifests: parts.local_manifests,
            health: parts.health,
            cache: Cache::new(options.cache_bytes),
            options: parts.options,
            flights,
            queue_capacity,
            load: load::Load::default(),
            permits: Arc::new(Semaphore::new(workers)),
            workers,
            busy_workers: Arc::default(),
            counters,
            identity: parts.identity,
            node_records: providers::node_records(),
            publisher: Publisher::default(),
            draining: parts.draining,
            cut,
            group: parts.group,
        });
        let group = core.group.clone();
        group.spawn(
            "resolve.dispatch",
            pipeline::dispatch(Arc::clone(&core), jobs),
        );
        group.spawn("resolve.drain", drain::run(Arc::clone(&core)));
        group.spawn("resolve.publisher", Publisher::run(Arc::clone(&core)));
        Self { core }
    }

    /// Finds the manifest of a key.
    ///
    /// Cancel safe: a resolution that was started goes on for the next caller.
    pub async fn resolve(
        &self,
        key: &Key,
        params: ResolveParams,
    ) -> Result<Resolved, ResolveError> {
        let began = Instant::now();
        let options = self.core.options.get();
        let (answer, source) = self.core.answer(key, params, &options, began).await?;
        Ok(Resolved {
            id: answer.manifest.id(),
            manifest: answer.manifest.clone(),
            source,
            hops: answer.hops,
            asked: answer.asked,
            took: began.elapsed(),
        })
    }

    /// Clears the cache; resolutions in flight go on.
    pub fn forget_all(&self) {
        self.core.forget_all();
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

impl Core {
    /// Drops what is cached of a repository that has changed.
    pub(crate) async fn forget(&self, name: &RepoAddr) {
        self.local_manifests.forget(name).await;
        let key = Key::Name(name.clone());
        single_flight::outdate(&self.flights, Some(&key));
        self.cache.forget(&key).await;
    }

    pub(crate) fn forget_all(&self) {
        single_flight::outdate(&self.flights, None);
        self.cache.clear();
    }
}

#[cfg(test)]
mod tests;
