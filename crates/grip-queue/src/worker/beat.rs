//! The heartbeat: renews all leases of a worker in one statement.

use std::{sync::Arc, time::Duration};

use grip_db::DbError;
use tokio::time::{Instant, sleep, timeout};

use super::{Shared, away};

/// The lease is renewed so many times in its length.
const BEATS: u32 = 3;

pub(super) async fn run(shared: Arc<Shared>) {
    let beating = async {
        let mut failures = 0;
        loop {
            sleep(shared.until_the_next_beat(failures)).await;
            failures = match shared.beat().await {
                Ok(()) => 0,
                Err(_) => failures + 1,
            };
        }
    };
    shared.over.run_until_cancelled(beating).await;
}

impl Shared {
    fn beat_every(&self) -> Duration {
        self.options.lease / BEATS
    }

    /// Sooner after a failure: there is no time to lose.
    fn until_the_next_beat(&self, failures: u32) -> Duration {
        match failures {
            0 => self.beat_every(),
            _ => away::wait(failures).min(self.beat_every() / 4),
        }
    }

    async fn beat(&self) -> Result<(), DbError> {
        let (asked, sent) = (self.held.names(), Instant::now());
        if asked.is_empty() {
            return Ok(());
        }
        let renewing = self.queue.renew_held(asked.clone(), self.options.lease);
        // A server that does not answer must not cost the time in which another would.
        let renewed = timeout(self.beat_every(), renewing).await;
        let renewed = renewed.unwrap_or(Err(DbError::Silent));
        self.away.note(&renewed);
        let ours = renewed?;
        self.held.renewed(&asked, &ours, sent + self.options.lease);
        Ok(())
    }
}
