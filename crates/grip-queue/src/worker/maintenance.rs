//! Periodic maintenance of a kind, by each of its workers.

use std::{sync::Arc, time::Duration};

use grip_db::DbError;
use tokio::time::{Instant, sleep};

use super::Shared;
use crate::clock::Watch;

/// How often the clock and the size of the table are looked at.
const LOOK: Duration = Duration::from_secs(5);
/// How often jobs are counted, so that a kind that is full is known.
const COUNT: Duration = Duration::from_secs(60);
/// How often the rest is done where nothing calls for it.
const TIDY: Duration = Duration::from_secs(60 * 60);

pub(super) async fn run(shared: Arc<Shared>) {
    let keeping = async {
        let mut watch = Watch::new(shared.queue.db().now_ms());
        let (mut counted, mut tidied) = (Instant::now(), None::<Instant>);
        loop {
            let was_set = watch.was_set_back(shared.queue.db().now_ms());
            if was_set || tidied.is_none_or(|at| at.elapsed() >= TIDY) {
                tidied = shared.tidy().await.ok().map(|()| Instant::now());
            }
            if let Err(error) = shared.queue.analyze_if_grown().await {
                tracing::debug!(%error, "the size of the queue is not known");
            }
            if counted.elapsed() >= COUNT && shared.queue.stats().await.is_ok() {
                counted = Instant::now();
            }
            sleep(LOOK).await;
        }
    };
    shared.over.run_until_cancelled(keeping).await;
}

impl Shared {
    async fn tidy(&self) -> Result<(), DbError> {
        let brought = self.queue.adjust_to_clock(&self.kind).await?;
        if brought > 0 {
            tracing::warn!(kind = %self.kind, brought, "the clock was set back: jobs that lay too far ahead are due sooner");
        }
        let forgotten = self.queue.forget_dead(&self.kind).await?;
        if forgotten > 0 {
            tracing::info!(kind = %self.kind, forgotten, "jobs that failed for good long ago are forgotten");
        }
        Ok(())
    }
}
