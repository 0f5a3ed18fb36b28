//! Steps of a resolution, and the workers that take them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    sync::mpsc,
    time::{Instant, timeout_at},
};

use super::{Core, ResolveParams, Source};
use crate::{
    Key, Manifest, ResolveError,
    cache::{Answer, CacheLookup},
    counters::count,
    lookup,
    single_flight::{Flight, Job, Outcome, Waiting},
};

impl Core {
    /// Resolves a key and counts the outcome.
    pub(super) async fn answer(
        &self,
        key: &Key,
        params: ResolveParams,
        began: Instant,
    ) -> Result<(Arc<Answer>, Source), ResolveError> {
        let outcome = self.resolve(key, params, began).await;
        let counters = &self.counters;
        counters.latency.note(began.elapsed());
        match &outcome {
            Ok(_) | Err(ResolveError::Malformed(_)) => {}
            Err(ResolveError::Busy { .. }) => count(&counters.busy_total),
            Err(ResolveError::Timeout) => count(&counters.timeouts_total),
            Err(ResolveError::Unknown) => count(&counters.unknown_total),
            Err(ResolveError::BreakerOpen { .. }) => count(&counters.breaker_open_total),
            Err(ResolveError::Unreadable) => count(&counters.unreadable_total),
            Err(ResolveError::Canceled) => count(&counters.canceled_total),
        }
        outcome
    }

    async fn resolve(
        &self,
        key: &Key,
        params: ResolveParams,
        began: Instant,
    ) -> Result<(Arc<Answer>, Source), ResolveError> {
        if self.group.token().is_cancelled() {
            return Err(ResolveError::Canceled);
        }
        let options = self.options.load_full();
        if !params.fresh {
            match self.cache.look(key, &options).await {
                CacheLookup::Fresh(answer) => {
                    count(&self.counters.hits_total);
                    return Ok((answer, Source::Cache));
                }
                CacheLookup::Stale(answer) => {
                    count(&self.counters.stale_hits_total);
                    self.revalidate(key, began + options.deadline);
                    return Ok((answer, Source::Stale));
                }
                CacheLookup::Unknown => {
                    count(&self.counters.negative_hits_total);
                    return Err(ResolveError::Unknown);
                }
                CacheLookup::Miss => {}
            }
        }
        count(&self.counters.misses_total);
        // The flight has the whole deadline: a caller with a shorter one leaves earlier.
        let waiting = self.join_or_start(key, params.fresh, began + options.deadline)?;
        let limit = params
            .deadline
            .unwrap_or(options.deadline)
            .min(options.deadline);
        let answer = wait(waiting, began + limit).await?;
        let source = answer.source;
        Ok((answer, source))
    }

    fn join_or_start(
        &self,
        key: &Key,
        fresh: bool,
        deadline: Instant,
    ) -> Result<Waiting, ResolveError> {
        match self.flights.join_or_start(&(key.clone(), fresh), deadline) {
            Some(Flight::Started(waiting)) => Ok(waiting),
            Some(Flight::Joined(waiting)) => {
                count(&self.counters.shared_total);
                Ok(waiting)
            }
            None if self.flights.is_closed() => Err(ResolveError::Canceled),
            None => Err(ResolveError::Busy {
                retry_after: Duration::from_secs(1),
            }),
        }
    }

    /// Resolves a key again in the background, unless that is in flight or the queue is full.
    fn revalidate(&self, key: &Key, deadline: Instant) {
        if let Some(Flight::Started(_)) =
            self.flights.join_or_start(&(key.clone(), false), deadline)
        {
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
        let (key, fresh) = job.flight_key.clone();
        let looking = timeout_at(deadline, self.look(&key, fresh, deadline));
        let outcome: Outcome = match stop.run_until_cancelled(looking).await {
            None => Err(ResolveError::Canceled),
            Some(Err(_)) => Err(ResolveError::Timeout),
            Some(Ok(outcome)) => outcome,
        };
        let outcome = job.cache(&self.cache, outcome).await;
        job.finish(outcome);
    }

    async fn look(&self, key: &Key, fresh: bool, deadline: Instant) -> Outcome {
        // An unreadable manifest is not an unknown one.
        let (local, nothing) = match self.local_manifests.find(key).await {
            Ok(local) => (local, ResolveError::Unknown),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(%key, error, "failed to read local manifest");
                (None, ResolveError::Unreadable)
            }
        };
        let answer = |manifest: Manifest| {
            count(&self.counters.local_total);
            Arc::new(Answer {
                manifest,
                providers: Vec::new(),
                source: Source::Local,
                hops: 0,
                asked: 0,
            })
        };
        let is_local = local.is_some();
        let held = self.cache.held(key).await;
        let known = Manifest::join_all(local.into_iter().chain(held));
        let local = known.clone().filter(|_| is_local);
        let network = match (&self.network, local.clone()) {
            (_, Some(local)) if !fresh => return Ok(answer(local)),
            (None, local) => return local.map(answer).ok_or(nothing),
            (Some(network), _) => network,
        };
        let options = self.options.load_full();
        // With a local manifest no caller need wait for the deadline.
        let deadline = match &local {
            Some(_) => lookup::soon(&options, Instant::now(), deadline),
            None => deadline,
        };
        match (network.lookup(key, known, &options, deadline).await, local) {
            (Ok(found), _) => Ok(Arc::new(Answer {
                manifest: found.manifest,
                providers: found.providers,
                source: Source::Dht,
                hops: found.hops,
                asked: found.asked,
            })),
            (Err(ResolveError::Canceled), _) => Err(ResolveError::Canceled),
            (Err(_), Some(local)) => Ok(answer(local)),
            (Err(ResolveError::Unknown), None) => Err(nothing),
            (Err(error), None) => Err(error),
        }
    }
}

async fn wait(mut waiting: Waiting, deadline: Instant) -> Outcome {
    let outcome = async {
        let ended = waiting.wait_for(Option::is_some).await;
        ended.ok().and_then(|outcome| outcome.clone())
    };
    match timeout_at(deadline, outcome).await {
        Err(_) => Err(ResolveError::Timeout),
        Ok(outcome) => outcome.unwrap_or(Err(ResolveError::Canceled)),
    }
}

/// A busy worker, counted until it ends.
struct BusyWorker(Arc<AtomicUsize>);

impl BusyWorker {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Relaxed);
        Self(Arc::clone(count))
    }
}

impl Drop for BusyWorker {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Relaxed);
    }
}

/// Hands jobs to workers, of which there are as many as permits.
pub(super) async fn dispatch(core: Arc<Core>, mut jobs: mpsc::Receiver<Job>) {
    let stop = core.group.token();
    let next = async |jobs: &mut mpsc::Receiver<Job>| {
        let permit = Arc::clone(&core.permits).acquire_owned().await.ok()?;
        let job = jobs.recv().await?;
        Some((permit, job))
    };
    while let Some(Some((permit, job))) = stop.run_until_cancelled(next(&mut jobs)).await {
        let worker = Arc::clone(&core);
        let busy = BusyWorker::new(&core.busy_workers);
        core.group.spawn("resolve.worker", async move {
            worker.work(job).await;
            drop((busy, permit));
        });
    }
    // No job can follow, and those that wait are cancelled.
    jobs.close();
    while let Ok(job) = jobs.try_recv() {
        drop(job);
    }
}
