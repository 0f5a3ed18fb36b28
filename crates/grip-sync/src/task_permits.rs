//! Permits for tasks, quick and slow ones apart.

use std::{sync::Arc, time::Duration};

use tokio::{
    pin, select,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::sleep,
};

/// Permits for tasks.
///
/// A task whose host takes long moves from its quick room to the slow one, so that hosts which
/// hang hold up no quick task until there are very many of them. Where the slow room is full it
/// stays where it is.
pub(crate) struct TaskPermits {
    attempts: Arc<Semaphore>,
    turns: Arc<Semaphore>,
    slow: Arc<Semaphore>,
    max_slow: usize,
    patience: Duration,
}

/// The right to one task, given back on drop.
#[must_use = "the permit is free again as soon as it is dropped"]
pub(crate) struct TaskPermit {
    held: OwnedSemaphorePermit,
    is_slow: bool,
}

impl TaskPermits {
    pub(crate) fn new(max_tasks: usize, max_slow: usize, patience: Duration) -> Self {
        let room = |size: usize| Arc::new(Semaphore::new(size.clamp(1, Semaphore::MAX_PERMITS)));
        let max_slow = max_slow.min(Semaphore::MAX_PERMITS);
        Self {
            attempts: room(max_tasks.div_ceil(2)),
            turns: room(max_tasks / 2),
            slow: Arc::new(Semaphore::new(max_slow)),
            max_slow,
            patience,
        }
    }

    /// Waits for room for an identifier that is due. Cancel safe.
    pub(crate) async fn attempt(&self) -> TaskPermit {
        Self::quick(&self.attempts).await
    }

    /// Waits for room for an identifier whose host has capacity. Cancel safe.
    pub(crate) async fn turn(&self) -> TaskPermit {
        Self::quick(&self.turns).await
    }

    async fn quick(room: &Arc<Semaphore>) -> TaskPermit {
        let held = Arc::clone(room).acquire_owned().await;
        let held = held.expect("because the room is never closed");
        let is_slow = false;
        TaskPermit { held, is_slow }
    }

    /// Says whether an identifier that is due has to wait for room.
    pub(crate) fn is_full(&self) -> bool {
        self.attempts.available_permits() == 0
    }

    /// Tasks in the slow room now.
    pub(crate) fn slow(&self) -> usize {
        self.max_slow - self.slow.available_permits()
    }

    /// Waits for `work`, and moves to the slow room when it takes long.
    pub(crate) async fn run<T>(&self, task: &mut TaskPermit, work: impl Future<Output = T>) -> T {
        pin!(work);
        if !task.is_slow {
            select! {
                biased;
                done = &mut work => return done,
                () = sleep(self.patience) => {}
            }
            if let Ok(held) = Arc::clone(&self.slow).try_acquire_owned() {
                *task = TaskPermit {
                    held,
                    is_slow: true,
                };
            }
        }
        work.await
    }
}

impl std::fmt::Debug for TaskPermit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TaskPermit")
            .field("permits", &self.held.num_permits())
            .field("is_slow", &self.is_slow)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(2);

    #[tokio::test(start_paused = true)]
    async fn a_slow_task_makes_room_for_a_quick_one_while_there_is_slow_room() {
        let tasks = TaskPermits::new(2, 1, PATIENCE);
        for (slow, free) in [(1, true), (1, false)] {
            let mut task = tasks.attempt().await;
            assert!(tasks.attempt().now_or_never().is_none());
            tasks.run(&mut task, sleep(PATIENCE * 2)).await;
            assert_eq!(tasks.slow(), slow);
            assert_eq!(tasks.attempt().now_or_never().is_some(), free);
            // The first stays in the slow room for good.
            if free {
                std::mem::forget(task);
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_quick_task_stays_where_it_is_and_gives_its_slot_back() {
        let tasks = TaskPermits::new(2, 1, PATIENCE);
        let mut task = tasks.turn().await;
        let done = tasks.run(&mut task, async { 7 }).await;
        assert_eq!((done, tasks.slow()), (7, 0));
        drop(task);
        assert!(tasks.turn().now_or_never().is_some());
    }

    #[tokio::test]
    async fn even_one_task_leaves_room_for_both_kinds() {
        let tasks = TaskPermits::new(1, 0, PATIENCE);
        let _attempt = tasks.attempt().await;
        assert!(tasks.turn().now_or_never().is_some());
    }
}
