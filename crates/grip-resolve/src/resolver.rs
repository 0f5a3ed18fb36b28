//! The pipeline: cache, then what is here, then the network.
//!
//! Invariants:
//! - Concurrent misses of one key are one resolution.
//! - A resolution that finds no place in the queue is refused at once.
//! - The deadline counts from the moment of asking; waiting for a worker is part of it.
//! - What is under way when the node stops ends as cancelled, and no task is left.

mod pipeline;
mod providers;
mod status;

use std::{
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use arc_swap::ArcSwap;
use grip_dht::{Dht, PeerName};
use grip_tasks::TaskGroup;
use moka::future::Cache as Store;
use serde::Serialize;
use tokio::{sync::Semaphore, time::Instant};
use url::Url;

pub use self::{
    providers::Ranked,
    status::{Health as PipelineHealth, Status},
};
use crate::{
    Card, Health, Key, Manifest, ManifestId, NodeKey, Options, ResolveError, Shelf,
    breaker::Breakers, budget::HedgeBudget, cache::Cache, counters::Live, flight::Flights,
    publisher::Publisher, walk::Network,
};

/// Resolves keys. Cheap to clone; all clones are the same resolver.
#[derive(Clone)]
pub struct Resolver {
    core: Arc<Core>,
}

/// What a resolver is made of.
pub struct Parts {
    /// None: only what is here is found.
    pub dht: Option<Arc<dyn Dht>>,
    pub shelf: Arc<Shelf>,
    pub health: Arc<dyn Health>,
    pub options: Arc<ArcSwap<Options>>,
    /// None: no card is published.
    pub identity: Option<Identity>,
    pub group: TaskGroup,
}

/// Who this node is to others.
pub struct Identity {
    pub key: NodeKey,
    /// Where its repositories are, below which comes `<npub>/<identifier>.git`.
    pub urls: Vec<Url>,
}

/// How something is to be resolved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// Not from the cache, and the network is asked even if the answer is here.
    pub fresh: bool,
    /// Shorter than the configured deadline; a longer one is cut.
    pub deadline: Option<Duration>,
}

/// Where an answer came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    Cache,
    /// From the cache, not fresh any more; a new answer is being looked for.
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
    /// How far away it was when it was found; 0 for what is here.
    pub hops: u32,
    /// How many questions it took to find it.
    pub asked: u32,
    pub took: Duration,
}

pub(crate) struct Core {
    pub(crate) network: Option<Network>,
    pub(crate) shelf: Arc<Shelf>,
    health: Arc<dyn Health>,
    pub(crate) options: Arc<ArcSwap<Options>>,
    pub(crate) cache: Cache,
    flights: Flights,
    /// At most so many resolutions are under way.
    slots: Arc<Semaphore>,
    workers: usize,
    at_work: Arc<AtomicUsize>,
    pub(crate) counters: Arc<Live>,
    pub(crate) identity: Option<Identity>,
    cards: Store<PeerName, Option<Card>>,
    pub(crate) publisher: Publisher,
    pub(crate) group: TaskGroup,
}

impl Resolver {
    /// Starts the workers, the breakers and the publisher, all owned by the group.
    pub fn start(parts: Parts) -> Self {
        let options = parts.options.load_full();
        let counters = Arc::new(Live::default());
        let network = parts.dht.map(|dht| Network {
            own: dht.status().peer,
            breakers: Breakers::start(options.breaker, &parts.group),
            budget: HedgeBudget::default(),
            counters: Arc::clone(&counters),
            group: parts.group.clone(),
            dht,
        });
        let (flights, jobs) = Flights::new();
        let workers = options.workers.max(1);
        let core = Arc::new(Core {
            network,
            shelf: parts.shelf,
            health: parts.health,
            cache: Cache::new(options.cache_bytes),
            options: parts.options,
            flights,
            slots: Arc::new(Semaphore::new(workers)),
            workers,
            at_work: Arc::default(),
            counters,
            identity: parts.identity,
            cards: providers::cards(),
            publisher: Publisher::default(),
            group: parts.group,
        });
        let group = core.group.clone();
        group.spawn(
            "resolve.dispatch",
            pipeline::dispatch(Arc::clone(&core), jobs),
        );
        group.spawn("resolve.publisher", Publisher::run(Arc::clone(&core)));
        Self { core }
    }

    /// Reads a key and resolves it.
    pub async fn resolve_text(&self, key: &str, ask: Ask) -> Result<Resolved, ResolveError> {
        self.resolve(&Key::parse(key)?, ask).await
    }

    /// Finds the manifest of a key.
    ///
    /// Cancel safe: a resolution that was begun goes on for whoever asks next.
    pub async fn resolve(&self, key: &Key, ask: Ask) -> Result<Resolved, ResolveError> {
        let began = Instant::now();
        let (answer, source) = self.core.answer(key, ask, began).await?;
        Ok(Resolved {
            id: answer.manifest.id(),
            manifest: answer.manifest.clone(),
            source,
            hops: answer.hops,
            asked: answer.asked,
            took: began.elapsed(),
        })
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

#[cfg(test)]
mod tests;
