//! The steps of a resolution, and the workers that do them.

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

use super::{Ask, Core, Source};
use crate::{
    Key, Manifest, ResolveError,
    cache::{Answer, Look},
    counters::count,
    flight::{Boarded, Job, Outcome, Waiting},
    walk,
};

impl Core {
    /// Resolves a key and counts how that went.
    pub(super) async fn answer(
        &self,
        key: &Key,
        ask: Ask,
        began: Instant,
    ) -> Result<(Arc<Answer>, Source), ResolveError> {
        let outcome = self.resolve(key, ask, began).await;
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
        let since = self.cache.moment(&key);
        let looking = timeout_at(deadline, self.look(&key, fresh, deadline));
        let outcome: Outcome = match stop.run_until_cancelled(looking).await {
            None => Err(ResolveError::Canceled),
            Some(Err(_)) => Err(ResolveError::Timeout),
            Some(Ok(outcome)) => outcome,
        };
        let outcome = match outcome {
            Ok(answer) => Ok(self.cache.put(&key, answer, since).await),
            Err(error) => {
                if error == ResolveError::Unknown {
                    self.cache.put_unknown(&key, since).await;
                }
                Err(error)
            }
        };
        job.finish(outcome);
    }

    async fn look(&self, key: &Key, fresh: bool, deadline: Instant) -> Outcome {
        // What cannot be read is not known to be nowhere.
        let (local, nothing) = match self.shelf.find(key).await {
            Ok(local) => (local, ResolveError::Unknown),
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(%key, error, "not looked up here");
                (None, ResolveError::Unreadable)
            }
        };
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
        let is_here = local.is_some();
        let held = self.cache.held(key).await;
        let known = Manifest::join_all(local.into_iter().chain(held));
        let local = known.clone().filter(|_| is_here);
        let network = match (&self.network, local.clone()) {
            (_, Some(local)) if !fresh => return Ok(here(local)),
            (None, local) => return local.map(here).ok_or(nothing),
            (Some(network), _) => network,
        };
        let options = self.options.load_full();
        // Nobody need wait to the end for what is here.
        let deadline = match &local {
            Some(_) => walk::soon(&options, Instant::now(), deadline),
            None => deadline,
        };
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
            (Err(ResolveError::Unknown), None) => Err(nothing),
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
pub(super) async fn dispatch(core: Arc<Core>, mut jobs: mpsc::Receiver<Job>) {
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
