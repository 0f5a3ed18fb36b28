//! Maintenance of object stores, by a task of its own: no sweep waits for it. Stores with new objects
//! are repacked, then a few are looked at for what nothing needs ([`crate::collection`]).
//!
//! First come, first served: a name does not decide when a store is repacked. One store at a time, so
//! that pushes keep the disk, and each for [`MAX_TIME`] at most.

use std::{
    collections::{HashSet, VecDeque},
    fmt,
    sync::Arc,
    time::Duration,
};

use grip_git::{Collected, RepackError, Repacked};
use grip_types::Identifier;
use parking_lot::Mutex;
use tokio::time;

use crate::{Grasp, grasp::Core};

/// How many identifiers are remembered; one beyond it waits for its next new objects to be noticed.
const MAX_PENDING: usize = 10_000;
/// How long one store may take. Git is killed then, and the store is as it was.
const MAX_TIME: Duration = Duration::from_secs(30 * 60);

/// The identifiers that got new objects, the first at the front.
#[derive(Default)]
pub(crate) struct PendingMaintenance {
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    order: VecDeque<Identifier>,
    members: HashSet<Identifier>,
}

impl PendingMaintenance {
    /// Puts an identifier at the end, unless it waits already.
    pub(crate) fn add(&self, identifier: &Identifier) {
        let mut queue = self.queue.lock();
        if queue.order.len() < MAX_PENDING && queue.members.insert(identifier.clone()) {
            queue.order.push_back(identifier.clone());
        }
    }

    fn take(&self) -> Option<Identifier> {
        let mut queue = self.queue.lock();
        let first = queue.order.pop_front()?;
        queue.members.remove(&first);
        Some(first)
    }

    fn len(&self) -> usize {
        self.queue.lock().order.len()
    }
}

/// What one round of maintenance did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Maintained {
    /// Object stores that were looked at, and repacked if they had too many packs.
    pub repacked: usize,
    /// Those that could not be, and wait for their next new objects.
    pub failed: usize,
    /// Unreachable objects that were removed, of the few stores that were looked at for them.
    pub collected: Collected,
}

impl fmt::Display for Maintained {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            repacked,
            failed,
            collected,
        } = self;
        let Collected { objects, bytes } = collected;
        write!(
            f,
            "{repacked} stores repacked, {failed} failed, \
             {objects} unreachable objects of {bytes} bytes removed"
        )
    }
}

impl Grasp {
    /// Maintains the stores that wait for it at this moment. A task of its own does this all the time.
    pub async fn maintain(&self) -> Maintained {
        self.core.maintain().await
    }
}

impl Core {
    pub(crate) async fn maintain_now(self: Arc<Self>) -> Result<Maintained, String> {
        Ok(self.maintain().await)
    }

    /// Repacks the stores that wait, and collects in the next few. Readers are not disturbed.
    async fn maintain(self: &Arc<Self>) -> Maintained {
        let stop = self.group.token();
        let mut done = Maintained::default();
        for _ in 0..self.maintenance.len() {
            let Some(identifier) = self.maintenance.take() else {
                break;
            };
            let repacking = time::timeout(MAX_TIME, self.repositories.repack(&identifier));
            // Git is killed when the node stops; the next new objects begin it again.
            let Some(repacked) = stop.run_until_cancelled(repacking).await else {
                break;
            };
            if self.note_repack(&identifier, repacked) {
                done.repacked += 1;
            } else {
                done.failed += 1;
            }
        }
        let collecting = time::timeout(MAX_TIME, self.collect_some());
        done.collected = collecting.await.unwrap_or_default();
        done
    }

    fn note_repack(
        &self,
        identifier: &Identifier,
        repacked: Result<Result<Repacked, RepackError>, time::error::Elapsed>,
    ) -> bool {
        match repacked {
            Ok(Ok(_)) => return true,
            Ok(Err(RepackError::Busy(_) | RepackError::MemoryFull(_))) => {
                self.maintenance.add(identifier);
            }
            Ok(Err(error @ RepackError::Incomplete { .. })) => log_incomplete(&error),
            Ok(Err(error)) => {
                tracing::warn!(%identifier, error = &error as &dyn std::error::Error, "failed to repack objects");
            }
            Err(_) => {
                tracing::warn!(%identifier, limit = ?MAX_TIME, "gave up repacking objects");
            }
        }
        false
    }
}

/// Objects were lost on this disk: packs stay as they are, and the repositories are checked by the next
/// audit.
pub(crate) fn log_incomplete(error: &RepackError) {
    tracing::error!(%error, "objects are lost; packs stay as they are until they are whole again");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_come_first_served_and_nobody_twice() {
        let pending = PendingMaintenance::default();
        let name = |name: &str| Identifier::parse(name).unwrap();
        for each in ["zebra", "ant", "zebra", "bee"] {
            pending.add(&name(each));
        }
        let order: Vec<Identifier> = std::iter::from_fn(|| pending.take()).collect();
        assert_eq!(order, ["zebra", "ant", "bee"].map(name));
        pending.add(&name("zebra"));
        assert_eq!(pending.len(), 1);
    }
}
