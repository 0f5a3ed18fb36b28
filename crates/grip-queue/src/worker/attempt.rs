//! One job from its claim to the end of its lease.

use std::{any::Any, panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt as _;
use grip_db::DbError;
use tokio::time::{Instant, sleep};

use super::{Job, Outcome, Shared, leases::HeldLease, outage};
use crate::{Failed, Failure, Finished, Lease};

/// Leases in a row that may run out before a job is taken for one that brings processes down.
const MOST_LOST: i64 = 10;

/// How the writing of an outcome went.
enum Ended {
    Gone,
    /// Done, and due again some time.
    Stays,
    Postponed,
    Later,
    Dead,
    Lost,
}

pub(super) async fn run(shared: Arc<Shared>, held_lease: HeldLease, lease: Lease) {
    let outcome = if lease.lost > MOST_LOST {
        Some(gives_up(&lease))
    } else {
        shared.attempt(&held_lease, &lease).await
    };
    if let Some(outcome) = outcome {
        shared.settle(&held_lease, &lease, outcome).await;
    }
}

fn gives_up(lease: &Lease) -> Outcome {
    let reason = format!(
        "{} leases in a row ran out before the work was done: does it bring the process down?",
        lease.lost
    );
    Outcome::Failed(Failure::permanent(reason))
}

impl Shared {
    /// Runs the handler; None if it had to be dropped.
    async fn attempt(&self, held_lease: &HeldLease, lease: &Lease) -> Option<Outcome> {
        let stop = self.group.token().child_token();
        let job = Job {
            lease: lease.clone(),
            stop: stop.clone(),
        };
        let running = async {
            held_lease.alone().await;
            self.handler.run(job).await
        };
        let running = AssertUnwindSafe(running).catch_unwind();
        let tenth = self.options.lease / 10;
        if held_lease.is_short(tenth) {
            self.lost(lease, "the claim took too long");
            return None;
        }
        let ending = async {
            held_lease.left(tenth * 2).await;
            stop.cancel();
            held_lease.left(tenth).await;
        };
        tokio::select! {
            // What is done counts, even if the lease ends at the same moment.
            biased;
            outcome = running => Some(outcome.unwrap_or_else(|panic| self.panicked(lease, &*panic))),
            () = self.give_up.cancelled() => None,
            () = held_lease.lost.cancelled() => {
                self.lost(lease, "somebody else has it");
                None
            }
            () = ending => {
                self.lost(lease, "it could not be renewed");
                None
            }
        }
    }

    fn panicked(&self, lease: &Lease, panic: &(dyn Any + Send)) -> Outcome {
        let said = panic.downcast_ref::<&str>().copied();
        let said = said.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let reason = format!("the work panicked: {}", said.unwrap_or("no message"));
        tracing::error!(kind = %lease.kind, key = %lease.key, %reason, "a job panicked");
        self.count(|counts| counts.panicked_total += 1);
        Outcome::Failed(Failure::transient(reason))
    }

    fn lost(&self, lease: &Lease, why: &str) {
        tracing::warn!(kind = %lease.kind, key = %lease.key, why, "the lease of a job was lost");
        self.count(|counts| counts.lost_total += 1);
    }

    /// Ends the lease. Where the database is down this is tried for as long as one lease lasts:
    /// the token keeps it right however late it is.
    async fn settle(&self, held_lease: &HeldLease, lease: &Lease, outcome: Outcome) {
        let latest = Instant::now() + self.options.lease;
        let mut failures = 0;
        let settling = async {
            loop {
                let written = self.write(lease, &outcome).await;
                self.outage.note(&written);
                match written {
                    Ok(written) => return self.written(lease, &written),
                    Err(DbError::Closed) => return,
                    Err(error) if Instant::now() > latest => {
                        return self.lost(lease, &format!("its end was not written: {error}"));
                    }
                    Err(_) => failures += 1,
                }
                sleep(outage::wait(failures)).await;
            }
        };
        tokio::select! {
            () = settling => {}
            () = self.give_up.cancelled() => {}
            () = held_lease.lost.cancelled() => self.lost(lease, "somebody else has it"),
        }
    }

    async fn write(&self, lease: &Lease, outcome: &Outcome) -> Result<Ended, DbError> {
        Ok(match outcome {
            Outcome::Finished => Ended::Stays,
            Outcome::Done => Ended::of(self.queue.finish(lease).await?, lease.period_ms.is_some()),
            Outcome::Remove => Ended::of(self.queue.remove_leased(lease).await?, false),
            Outcome::Failed(failure) => match self.queue.fail(lease, failure.clone()).await? {
                Failed::Later { .. } => Ended::Later,
                Failed::Dead => Ended::Dead,
                Failed::Lost => Ended::Lost,
            },
            Outcome::HandedOver { capability } => {
                if self.queue.hand_over(lease, capability).await? {
                    Ended::Postponed
                } else {
                    Ended::Lost
                }
            }
            Outcome::Postponed { until_ms, reason } => {
                if self.queue.postpone(lease, *until_ms, reason).await? {
                    Ended::Postponed
                } else {
                    Ended::Lost
                }
            }
        })
    }

    fn written(&self, lease: &Lease, written: &Ended) {
        if !matches!(written, Ended::Gone | Ended::Lost) {
            // It may be due before whatever the loop waits for.
            self.due.notify_one();
        }
        match written {
            Ended::Gone | Ended::Stays => self.count(|counts| counts.done_total += 1),
            Ended::Postponed => self.count(|counts| counts.postponed_total += 1),
            Ended::Later => self.count(|counts| counts.failed_total += 1),
            Ended::Dead => self.count(|counts| counts.died_total += 1),
            Ended::Lost => self.lost(lease, "somebody else has it"),
        }
    }
}

impl Ended {
    fn of(finished: Finished, periodic: bool) -> Self {
        match finished {
            Finished::Done if !periodic => Self::Gone,
            Finished::Done | Finished::Again => Self::Stays,
            Finished::Lost => Self::Lost,
        }
    }
}
