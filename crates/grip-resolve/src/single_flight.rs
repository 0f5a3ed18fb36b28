//! Flights of the resolver: one resolution per key, shared by all concurrent callers.
//!
//! Invariant: an answer that was resolved before its key was forgotten is not cached after.

use std::sync::Arc;

use tokio::time::Instant;

use crate::{
    Key, Options, ResolveError,
    cache::{Answer, Cache},
};

pub(crate) type Outcome = Result<Arc<Answer>, ResolveError>;

/// A key, and whether the network is queried even if the answer is local.
pub(crate) type FlightKey = (Key, bool);

pub(crate) type Flights = grip_tasks::SingleFlight<FlightKey, FlightContext, Outcome>;
pub(crate) type Flight = grip_tasks::Flight<FlightContext, Outcome>;
pub(crate) type Jobs = grip_tasks::Jobs<FlightKey, FlightContext, Outcome>;
pub(crate) type Job = grip_tasks::Job<FlightKey, FlightContext, Outcome>;

/// What the starter of a flight gives along.
#[derive(Clone)]
pub(crate) struct FlightContext {
    pub deadline: Instant,
    /// The settings of the moment of its start, for all of its steps.
    pub options: Arc<Options>,
}

/// Keeps the answers that are in flight for `key`, or for all keys, out of the cache.
///
/// To be called before the cache forgets: then either an answer is not put there, or it is removed
/// by the cache or by [`cache_outcome`].
pub(crate) fn outdate(flights: &Flights, key: Option<&Key>) {
    flights.outdate(|(of, _)| key.is_none_or(|key| key == of));
}

/// Caches an outcome unless its key was forgotten meanwhile; an answer is joined with the cached
/// one.
pub(crate) async fn cache_outcome(job: &Job, cache: &Cache, outcome: Outcome) -> Outcome {
    if job.is_outdated() {
        return outcome;
    }
    let key = &job.key.0;
    let outcome = match outcome {
        Ok(answer) => Ok(cache.put(key, answer).await),
        Err(ResolveError::Unknown) => {
            cache.put_unknown(key).await;
            Err(ResolveError::Unknown)
        }
        Err(error) => return Err(error),
    };
    if job.is_outdated() {
        cache.forget(key).await;
    }
    outcome
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use grip_testkit::Author;

    use super::*;
    use crate::{Source, cache::CacheLookup, testing::manifest_of};

    #[tokio::test]
    async fn what_was_resolved_before_a_key_was_forgotten_is_not_cached_after() {
        let (cache, (flights, mut jobs)) = (Cache::new(1 << 20), Flights::new(4));
        let author = Author::new();
        let [manifest, other] = ["x", "y"].map(|name| manifest_of(&author, name, 1));
        let answer = Arc::new(Answer {
            manifest: manifest.clone(),
            providers: Vec::new(),
            source: Source::Dht,
            hops: 1,
            asked: 1,
        });
        let (key, other) = (Key::Name(manifest.name()), Key::Name(other.name()));
        let context = FlightContext {
            deadline: Instant::now() + Duration::from_secs(9),
            options: Arc::default(),
        };
        let outdated = [None, Some(&other), Some(&key), None];
        for (forgotten, is_cached) in outdated.into_iter().zip([true, true, false, false]) {
            for outcome in [Ok(Arc::clone(&answer)), Err(ResolveError::Unknown)] {
                let started = flights.join_or_start(&(key.clone(), true), context.clone());
                assert!(started.is_ok());
                let job = jobs.next().await.unwrap();
                if !is_cached || forgotten.is_some() {
                    outdate(&flights, forgotten);
                    cache.forget(&key).await;
                }
                let kept = cache_outcome(&job, &cache, outcome.clone()).await;
                assert_eq!(
                    kept.map(|it| it.manifest.id()),
                    outcome.map(|it| it.manifest.id())
                );
                let look = cache.look(&key, &Options::default()).await;
                assert_eq!(
                    !matches!(look, CacheLookup::Miss),
                    is_cached,
                    "{forgotten:?}"
                );
            }
        }
    }
}
