//! The pipeline: cache, then what is here, then the network.
//!
//! Invariants:
//! - Concurrent misses of one key are one resolution.
//! - A resolution that finds no place in the queue is refused at once.
//! - The deadline counts from the moment of asking; waiting for a worker is part of it.
//! - What is under way when the node stops ends as cancelled, and no task is left.

mod providers;
mod status;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use grip_dht::{Dht, PeerName};
use grip_tasks::TaskGroup;
use moka::future::Cache as Store;
use serde::Serialize;
use tokio::{
    sync::{Semaphore, mpsc},
    time::{Instant, timeout_at},
};
use url::Url;

pub use self::{
    providers::Ranked,
    status::{Health as PipelineHealth, Status},
};
use crate::{
    Card, Health, Key, Manifest, ManifestId, NodeKey, Options, ResolveError, Shelf,
    breaker::Breakers,
    budget::HedgeBudget,
    cache::{Answer, Cache, Look},
    counters::{Live, count},
    flight::{Boarded, Flights, Job, Outcome, Waiting},
    publisher::Publisher,
    walk::Network,
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
        group.spawn("resolve.dispatch", dispatch(Arc::clone(&core), jobs));
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
        let outcome = self.core.resolve(key, ask, began).await;
        let took = began.elapsed();
        self.core.counters.latency.note(took);
        let counters = &self.core.counters;
        match outcome {
            Ok((answer, source)) => Ok(Resolved {
                id: answer.manifest.id(),
                manifest: answer.manifest.clone(),
                source,
                hops: answer.hops,
                asked: answer.asked,
                took,
            }),
            Err(error) => {
                match &error {
                    ResolveError::Busy { .. } => count(&counters.busy_total),
                    ResolveError::Timeout => count(&counters.timeouts_total),
                    ResolveError::Unknown => count(&counters.unknown_total),
                    ResolveError::BreakerOpen { .. } => count(&counters.breaker_open_total),
                    ResolveError::Canceled => count(&counters.canceled_total),
                    ResolveError::Malformed(_) => {}
                }
                Err(error)
            }
        }
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

impl Core {
    async fn resolve(
        &self,
        key: &Key,
        ask: Ask,
        began: Instant,
    ) -> Result<(Arc<Answer>, Source), ResolveError> {
        if self.group.token().is_cancelled() {
            return Err(ResolveError::Canceled);
        }
        let options = self.options.load_full();
        if !ask.fresh {
            match self.cache.look(key, &options).await {
                Look::Fresh(answer) => {
                    count(&self.counters.hits_total);
                    return Ok((answer, Source::Cache));
                }
                Look::Stale(answer) => {
                    count(&self.counters.stale_hits_total);
                    self.revalidate(key, began + options.deadline);
                    return Ok((answer, Source::Stale));
                }
                Look::Unknown => {
                    count(&self.counters.negative_hits_total);
                    return Err(ResolveError::Unknown);
                }
                Look::Miss => {}
            }
        }
        count(&self.counters.misses_total);
        // The flight has the whole budget: whoever is in more of a hurry leaves earlier.
        let waiting = self.board(key, ask.fresh, began + options.deadline)?;
        let limit = ask
            .deadline
            .unwrap_or(options.deadline)
            .min(options.deadline);
        let answer = wait(waiting, began + limit).await?;
        let source = answer.source;
        Ok((answer, source))
    }

    fn board(&self, key: &Key, fresh: bool, deadline: Instant) -> Result<Waiting, ResolveError> {
        match self.flights.board(&(key.clone(), fresh), deadline) {
            Some(Boarded::Began(waiting)) => Ok(waiting),
            Some(Boarded::Joined(waiting)) => {
                count(&self.counters.shared_total);
                Ok(waiting)
            }
            None if self.flights.is_closed() => Err(ResolveError::Canceled),
            None => Err(ResolveError::Busy {
                retry_after: Duration::from_secs(1),
            }),
        }
    }

    /// Looks for a key anew in the background, unless that is under way or there is no place.
    fn revalidate(&self, key: &Key, deadline: Instant) {
        if let Some(Boarded::Began(_)) = self.flights.board(&(key.clone(), false), deadline) {
            count(&self.counters.revalidations_total);
        }
    }

    async fn work(&self, job: Job) {
        let deadline = job.deadline;
        if Instant::now() >= deadline {
            job.finish(Err(ResolveError::Timeout));
            return;
        }
        let stop = self.group.token();
        let (key, fresh) = job.wish.clone();
        let looking = timeout_at(deadline, self.look(&key, fresh, deadline));
        let outcome: Outcome = match stop.run_until_cancelled(looking).await {
            None => Err(ResolveError::Canceled),
            Some(Err(_)) => Err(ResolveError::Timeout),
            Some(Ok(outcome)) => outcome,
        };
        match &outcome {
            Ok(answer) => self.cache.put(key, Some(Arc::clone(answer))).await,
            Err(ResolveError::Unknown) => self.cache.put(key, None).await,
            Err(_) => {}
        }
        job.finish(outcome);
    }

    async fn look(&self, key: &Key, fresh: bool, deadline: Instant) -> Outcome {
        let local = self.shelf.find(key).await.unwrap_or_else(|error| {
            tracing::warn!(%key, error = &error as &dyn std::error::Error, "not looked up here");
            None
        });
        let here = |manifest: Manifest| {
            count(&self.counters.local_total);
            Arc::new(Answer {
                manifest,
                providers: Vec::new(),
                source: Source::Local,
                hops: 0,
                asked: 0,
            })
        };
        let network = match (&self.network, local.clone()) {
            (_, Some(local)) if !fresh => return Ok(here(local)),
            (None, local) => return local.map(here).ok_or(ResolveError::Unknown),
            (Some(network), _) => network,
        };
        let known = [local.clone(), self.cache.held(key).await];
        let known = Manifest::join_all(known.into_iter().flatten());
        let options = self.options.load_full();
        match (network.walk(key, known, &options, deadline).await, local) {
            (Ok(found), _) => Ok(Arc::new(Answer {
                manifest: found.manifest,
                providers: found.providers,
                source: Source::Dht,
                hops: found.hops,
                asked: found.asked,
            })),
            (Err(ResolveError::Canceled), _) => Err(ResolveError::Canceled),
            (Err(_), Some(local)) => Ok(here(local)),
            (Err(error), None) => Err(error),
        }
    }
}

async fn wait(mut waiting: Waiting, deadline: Instant) -> Outcome {
    let told = async {
        let told = waiting.wait_for(Option::is_some).await;
        told.ok().and_then(|told| told.clone())
    };
    match timeout_at(deadline, told).await {
        Err(_) => Err(ResolveError::Timeout),
        Ok(told) => told.unwrap_or(Err(ResolveError::Canceled)),
    }
}

/// A worker that is at work, counted until it ends whichever way.
struct AtWork(Arc<AtomicUsize>);

impl AtWork {
    fn begin(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Hands jobs to workers, of which there are as many as slots.
async fn dispatch(core: Arc<Core>, mut jobs: mpsc::Receiver<Job>) {
    let stop = core.group.token();
    let next = async |jobs: &mut mpsc::Receiver<Job>| {
        let slot = Arc::clone(&core.slots).acquire_owned().await.ok()?;
        let job = jobs.recv().await?;
        Some((slot, job))
    };
    while let Some(Some((slot, job))) = stop.run_until_cancelled(next(&mut jobs)).await {
        let worker = Arc::clone(&core);
        let at_work = AtWork::begin(&core.at_work);
        core.group.spawn("resolve.worker", async move {
            worker.work(job).await;
            drop((at_work, slot));
        });
    }
    // Those who wait are told, and nobody can come any more.
    jobs.close();
    while let Ok(job) = jobs.try_recv() {
        drop(job);
    }
}

#[cfg(test)]
mod tests;
