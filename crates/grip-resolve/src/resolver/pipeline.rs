//! Steps of a resolution, and the workers that take them.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use grip_tasks::Refused;
use tokio::time::{Instant, timeout_at};

use super::{Core, ResolveParams, Source};
use crate::{
    BusyCause, Key, Manifest, Options, ResolveError,
    cache::{Answer, CacheLookup},
    counters::count,
    lookup,
    single_flight::{Flight, FlightContext, Job, Jobs, Outcome, cache_outcome},
};

impl Core {
    /// Resolves a key and counts the outcome.
    pub(super) async fn answer(
        &self,
        key: &Key,
        params: ResolveParams,
        options: &Arc<Options>,
        began: Instant,
    ) -> Result<(Arc<Answer>, Source), ResolveError> {
        let outcome = self.resolve(key, params, options, began).await;
        let counters = &self.counters;
        counters.latency.note(began.elapsed());
        match &outcome {
            Ok(_) | Err(ResolveError::Malformed(_)) => {}
            Err(ResolveError::Busy { cause, .. }) => match cause {
                BusyCause::QueueFull => count(&counters.queue_full_total),
                BusyCause::ExpectedWait => count(&counters.shed_total),
                BusyCause::OutboundRequests => count(&counters.requests_full_total),
                BusyCause::Commands => {}
            },
            Err(ResolveError::PeersBusy { .. }) => count(&counters.peers_busy_total),
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
        options: &Arc<Options>,
        began: Instant,
    ) -> Result<(Arc<Answer>, Source), ResolveError> {
        if self.cut.is_cancelled() {
            return Err(ResolveError::Canceled);
        }
        if !params.fresh {
            match self.cache.look(key, options).await {
                CacheLookup::Fresh(answer) => {
                    count(&self.counters.hits_total);
                    return Ok((answer, Source::Cache));
                }
                CacheLookup::Stale(answer) => {
                    count(&self.counters.stale_hits_total);
                    self.revalidate(key, options, began);
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
        let answer = self.fly(key, params, options, began).await?;
        let source = answer.source;
        Ok((answer, source))
    }

    /// Waits for the flight of a key, which may have begun before.
    ///
    /// One that ends without an answer at a deadline before this caller's is followed by another:
    /// who comes late has its own time.
    async fn fly(
        &self,
        key: &Key,
        params: ResolveParams,
        options: &Arc<Options>,
        began: Instant,
    ) -> Outcome {
        let limit = params.deadline.unwrap_or(options.deadline);
        let deadline = began + limit.min(options.deadline);
        loop {
            let flight = self.join_or_start(key, params.fresh, options, began)?;
            let ends = flight.context.deadline;
            let outcome = wait(flight, deadline).await;
            let is_late = matches!(outcome, Err(ResolveError::Timeout));
            if !is_late || ends >= deadline || Instant::now() >= deadline {
                return outcome;
            }
            count(&self.counters.rejoined_total);
        }
    }

    /// A flight has the whole deadline: a caller with a shorter one leaves earlier.
    fn join_or_start(
        &self,
        key: &Key,
        fresh: bool,
        options: &Arc<Options>,
        began: Instant,
    ) -> Result<Flight, ResolveError> {
        let flight_key = (key.clone(), fresh);
        if let Some(flight) = self.flights.join(&flight_key) {
            count(&self.counters.shared_total);
            return Ok(flight);
        }
        let deadline = began + options.deadline;
        let budget = deadline.saturating_duration_since(Instant::now());
        let ahead = self.busy_workers.load(Relaxed) + self.flights.queued();
        let busy = |cause, retry_after| ResolveError::Busy { cause, retry_after };
        if let Some(wait) = self.load.too_long_wait(ahead, self.workers, budget) {
            return Err(busy(BusyCause::ExpectedWait, wait));
        }
        let context = FlightContext {
            deadline,
            options: Arc::clone(options),
        };
        let flight = self.flights.join_or_start(&flight_key, context);
        let flight = flight.map_err(|refused| match refused {
            Refused::Closed => ResolveError::Canceled,
            Refused::Full => busy(
                BusyCause::QueueFull,
                self.load.expected_wait(ahead, self.workers),
            ),
        })?;
        if flight.is_joined {
            count(&self.counters.shared_total);
        }
        Ok(flight)
    }

    /// Resolves a key again in the background, unless that is in flight or there is no room.
    fn revalidate(&self, key: &Key, options: &Arc<Options>, began: Instant) {
        let flight = self.join_or_start(key, false, options, began);
        if flight.is_ok_and(|flight| !flight.is_joined) {
            count(&self.counters.revalidations_total);
        }
    }

    async fn work(&self, job: Job) {
        let FlightContext { deadline, options } = job.context.clone();
        let began = Instant::now();
        if began >= deadline {
            job.finish(Err(ResolveError::Timeout));
            return;
        }
        let (key, fresh) = job.key.clone();
        let looking = timeout_at(deadline, self.look(&key, fresh, &options, deadline));
        let outcome: Outcome = match self.cut.run_until_cancelled(looking).await {
            None => Err(ResolveError::Canceled),
            Some(Err(_)) => Err(ResolveError::Timeout),
            Some(Ok(outcome)) => outcome,
        };
        let outcome = cache_outcome(&job, &self.cache, outcome).await;
        let is_late = matches!(outcome, Err(ResolveError::Timeout | ResolveError::Canceled));
        self.load.note(began.elapsed(), !is_late);
        job.finish(outcome);
    }

    async fn look(&self, key: &Key, fresh: bool, options: &Options, deadline: Instant) -> Outcome {
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
        // With a local manifest no caller need wait for the deadline.
        let deadline = match &local {
            Some(_) => lookup::soon(options, Instant::now(), deadline),
            None => deadline,
        };
        match (network.lookup(key, known, options, deadline).await, local) {
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

async fn wait(flight: Flight, deadline: Instant) -> Outcome {
    match timeout_at(deadline, flight.wait()).await {
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
pub(super) async fn dispatch(core: Arc<Core>, mut jobs: Jobs) {
    let next = async |jobs: &mut Jobs| {
        let permit = Arc::clone(&core.permits).acquire_owned().await.ok()?;
        let job = jobs.next().await?;
        Some((permit, job))
    };
    while let Some(Some((permit, job))) = core.cut.run_until_cancelled(next(&mut jobs)).await {
        let worker = Arc::clone(&core);
        let busy = BusyWorker::new(&core.busy_workers);
        core.group.spawn("resolve.worker", async move {
            worker.work(job).await;
            drop((busy, permit));
        });
    }
    // No job can follow, and those that wait, or are just being queued, are cancelled.
    jobs.close();
    while let Some(job) = jobs.next().await {
        drop(job);
    }
}
