//! Permits for work at a time, with a bounded queue.

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};

use super::ProxyError;

/// The `Retry-After` of a refusal.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// How long somebody waits for a turn. The go command takes many modules side by side and counts
/// a refusal as the end of the build, so it is better held up than turned away.
const PATIENCE: Duration = Duration::from_secs(30);

/// Permits for one kind of work: at most so many at once, so many more wait, the rest is refused.
pub(super) struct Permits {
    turns: Arc<Semaphore>,
    queue: Arc<Semaphore>,
}

/// The right to do one piece of work, given back on drop.
#[must_use = "the permit is given back as soon as it is dropped"]
pub(super) struct Permit {
    _turn: OwnedSemaphorePermit,
    _queued: OwnedSemaphorePermit,
}

impl Permits {
    pub(super) fn new(at_once: usize, waiting: usize) -> Self {
        let at_once = at_once.clamp(1, Semaphore::MAX_PERMITS / 2);
        Self {
            turns: Arc::new(Semaphore::new(at_once)),
            queue: Arc::new(Semaphore::new(at_once + waiting)),
        }
    }

    /// Waits for a turn. Cancel safe: giving up leaves nothing in the queue.
    pub(super) async fn acquire(&self) -> Result<Permit, ProxyError> {
        let busy = || ProxyError::Busy {
            retry_after: RETRY_AFTER,
        };
        let queued = Arc::clone(&self.queue).try_acquire_owned();
        let queued = queued.map_err(|_| busy())?;
        let turn = timeout(PATIENCE, Arc::clone(&self.turns).acquire_owned()).await;
        let turn = turn.map_err(|_| busy())?;
        Ok(Permit {
            _turn: turn.expect("because turns are never closed"),
            _queued: queued,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_turn_is_waited_for_by_so_many_and_refused_to_the_next() {
        let permits = Permits::new(1, 1);
        let first = permits.acquire().await.unwrap();
        let second = permits.acquire();
        tokio::pin!(second);
        assert!(timeout(Duration::from_secs(1), &mut second).await.is_err());
        let third = permits.acquire().await;
        assert!(matches!(third, Err(ProxyError::Busy { .. })));
        drop(first);
        let _second = second.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_waits_for_ever_and_giving_up_leaves_no_place_behind() {
        let permits = Permits::new(1, 1);
        let _first = permits.acquire().await.unwrap();
        for _ in 0..3 {
            assert!(matches!(
                permits.acquire().await,
                Err(ProxyError::Busy { .. })
            ));
        }
    }
}
