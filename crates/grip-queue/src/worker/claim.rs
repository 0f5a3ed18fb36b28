//! The claim loop: claims due jobs, starts their attempts, waits.

use std::{sync::Arc, time::Duration};

use grip_db::DbError;
use tokio::time::{sleep, timeout};

use super::{Shared, attempt, leases::HeldLease, outage};

/// The wait when a job is due according to one clock and not yet to another.
const SHORTEST_WAIT: Duration = Duration::from_millis(5);

/// What the loop does next.
enum Next {
    /// There may be more.
    Look,
    /// Nothing is due before so long.
    Wait(Duration),
    /// The database does not answer: wait so long, whatever one hears.
    BackOff(Duration),
    /// All places are taken.
    Full,
    End,
}

pub(super) async fn run(shared: Arc<Shared>) {
    // However this ends, the heartbeat ends with it.
    let _over = shared.over.clone().drop_guard();
    let stop = shared.group.token();
    let mut news = shared.queue.listen(&shared.kind);
    let mut failures = 0;
    while !stop.is_cancelled() {
        // Before looking: what is told from here on is not missed.
        news.mark_unchanged();
        let freed = shared.held.freed.notified();
        let next = shared.look(&mut failures).await;
        let wait = async {
            match next {
                Next::Look => {}
                Next::End => stop.cancelled().await,
                Next::Full => freed.await,
                Next::BackOff(wait) => sleep(wait).await,
                Next::Wait(wait) => tokio::select! {
                    () = sleep(wait) => {}
                    () = shared.due.notified() => {}
                    _ = news.changed() => {}
                },
            }
        };
        stop.run_until_cancelled(wait).await;
    }
    shared.drain().await;
}

impl Shared {
    /// Claims what is due, as far as there are places.
    async fn look(self: &Arc<Self>, failures: &mut u32) -> Next {
        let found = self.claim().await;
        self.outage.note(&found);
        match found {
            Ok(next) => {
                *failures = 0;
                next
            }
            Err(DbError::Closed) => Next::End,
            Err(_) => {
                *failures += 1;
                Next::BackOff(outage::wait(*failures))
            }
        }
    }

    async fn claim(self: &Arc<Self>) -> Result<Next, DbError> {
        let free = self.options.at_once.saturating_sub(self.held.len());
        if free == 0 {
            return Ok(Next::Full);
        }
        let (queue, asked) = (&self.queue, free.min(self.options.take));
        let able = self.options.capabilities.as_deref();
        let (kind, lease) = (&*self.kind, self.options.lease);
        let leases = queue.claim_able(kind, able, asked, lease).await?;
        let got = leases.len();
        self.count(|counts| counts.claimed_total += got as u64);
        for lease in leases {
            let held_lease = HeldLease::take(self, &lease);
            self.group
                .spawn("job", attempt::run(Arc::clone(self), held_lease, lease));
        }
        if got == asked {
            return Ok(Next::Look);
        }
        let due = queue.next_due_able(kind, able).await?;
        let wait = due.map(|due| due.saturating_sub(queue.db().now_ms()).max(0));
        let wait = wait.map(|wait| Duration::from_millis(wait.unsigned_abs()));
        let wait = wait.map_or(self.options.poll, |wait| wait.min(self.options.poll));
        Ok(Next::Wait(wait.max(SHORTEST_WAIT)))
    }

    /// Lets the jobs under way come to an end, ends the rest and gives it back.
    async fn drain(&self) {
        let ended = timeout(self.options.drain, self.held.emptied()).await;
        if ended.is_ok() {
            return;
        }
        let mut left = self.held.names();
        self.give_up.cancel();
        // Only what has ended is given back: the next holder may begin at once.
        if timeout(self.options.drain, self.held.emptied())
            .await
            .is_err()
        {
            let busy = self.held.names();
            left.retain(|lease| !busy.contains(lease));
        }
        match self.queue.release_held(left, &[&self.kind]).await {
            Ok(count) => tracing::info!(kind = %self.kind, count, "unfinished jobs are given back"),
            Err(error) => {
                let after = self.options.lease;
                tracing::warn!(kind = %self.kind, %error, ?after, "unfinished jobs are not given back");
            }
        }
    }
}
