//! The heartbeat: renews all leases of a worker in one statement.

use std::{sync::Arc, time::Duration};

use grip_db::DbError;
use tokio::time::{Instant, sleep, timeout};

use super::{Shared, outage};

/// The lease is renewed so many times in its length.
const RENEWALS_PER_LEASE: u32 = 3;

pub(super) async fn run(shared: Arc<Shared>) {
    let beating = async {
        let mut failures = 0;
        loop {
            sleep(shared.until_next_renewal(failures)).await;
            failures = match shared.renew().await {
                Ok(()) => 0,
                Err(_) => failures + 1,
            };
        }
    };
    shared.over.run_until_cancelled(beating).await;
}

impl Shared {
    fn heartbeat_interval(&self) -> Duration {
        self.options.lease / RENEWALS_PER_LEASE
    }

    /// Sooner after a failure: there is no time to lose.
    fn until_next_renewal(&self, failures: u32) -> Duration {
        match failures {
            0 => self.heartbeat_interval(),
            _ => outage::wait(failures).min(self.heartbeat_interval() / 4),
        }
    }

    async fn renew(&self) -> Result<(), DbError> {
        let (asked, sent) = (self.held.names(), Instant::now());
        if asked.is_empty() {
            return Ok(());
        }
        let renewing = self.queue.renew_held(asked.clone(), self.options.lease);
        // A server that does not answer must not cost the time in which another would.
        let renewed = timeout(self.heartbeat_interval(), renewing).await;
        let renewed = renewed.unwrap_or(Err(DbError::TimedOut));
        self.outage.note(&renewed);
        let ours = renewed?;
        self.held.renewed(&asked, &ours, sent + self.options.lease);
        Ok(())
    }
}
