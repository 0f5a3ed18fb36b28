//! Permits for tasks, quick and slow ones apart, and never more than the settings say in all.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use grip_tasks::CancellationToken;
use grip_types::Owner;
use parking_lot::Mutex;
use tokio::{
    pin, select,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::sleep,
};

use crate::meter::Meter;

/// Permits for tasks: a quarter of all for identifiers that are due, a quarter for those whose host
/// has capacity, the rest for tasks whose host takes long.
///
/// Whose share is used up: a host can take as long as it likes. A task whose host takes long moves
/// to the slow ones, so that it holds up no quick one. Where those are all taken, one gives way: of
/// the owner who has most of them, of one who is not served before one who is, and then the one
/// whose host sent least. So hosts that hang never keep a host waiting that answers.
pub(crate) struct TaskPermits {
    attempts: Arc<Semaphore>,
    turns: Arc<Semaphore>,
    slow: Arc<SlowTasks>,
    patience: Duration,
}

/// The right to one task, given back on drop.
#[must_use = "the permit is free again as soon as it is dropped"]
#[derive(Debug)]
pub(crate) struct TaskPermit(Held);

#[derive(Debug)]
enum Held {
    Quick { _permit: OwnedSemaphorePermit },
    Slow(SlowPermit),
}

/// A task had to give way to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GaveWay;

impl TaskPermits {
    pub(crate) fn new(max_tasks: usize, patience: Duration) -> Self {
        let max_tasks = max_tasks.clamp(2, Semaphore::MAX_PERMITS);
        let quick = (max_tasks / 4).max(1);
        Self {
            attempts: Arc::new(Semaphore::new(quick)),
            turns: Arc::new(Semaphore::new(quick)),
            slow: Arc::new(SlowTasks::new(max_tasks - 2 * quick)),
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
        let permit = Arc::clone(room).acquire_owned().await;
        let permit = permit.expect("because the room is never closed");
        TaskPermit(Held::Quick { _permit: permit })
    }

    /// Says whether an identifier that is due has to wait for room.
    pub(crate) fn is_full(&self) -> bool {
        self.attempts.available_permits() == 0
    }

    /// Slow tasks now.
    pub(crate) fn slow(&self) -> usize {
        self.slow.tasks.lock().len()
    }

    /// Waits for `work` of `owner`, which becomes slow when it takes long.
    pub(crate) async fn run<T>(
        &self,
        task: &mut TaskPermit,
        owner: Owner,
        meter: &Arc<Meter>,
        work: impl Future<Output = T>,
    ) -> Result<T, GaveWay> {
        pin!(work);
        if matches!(task.0, Held::Quick { .. }) {
            select! {
                biased;
                done = &mut work => return Ok(done),
                () = sleep(self.patience) => {}
            }
            if self.slow.max == 0 {
                return Ok(work.await);
            }
            let permit = self.slow.enter(owner, meter).ok_or(GaveWay)?;
            task.0 = Held::Slow(permit);
        }
        let Held::Slow(permit) = &task.0 else {
            return Ok(work.await);
        };
        permit.measure(owner, meter);
        select! {
            biased;
            done = work => Ok(done),
            () = permit.stop.cancelled() => Err(GaveWay),
        }
    }
}

/// The tasks whose host is slow.
#[derive(Debug)]
struct SlowTasks {
    max: usize,
    tasks: Mutex<Vec<SlowTask>>,
    latest: AtomicU64,
}

struct SlowTask {
    owner: Owner,
    meter: Arc<Meter>,
    stop: CancellationToken,
    number: u64,
}

/// A place among the slow tasks, which may be taken back.
#[derive(Debug)]
struct SlowPermit {
    of: Arc<SlowTasks>,
    number: u64,
    stop: CancellationToken,
}

impl SlowTasks {
    fn new(max: usize) -> Self {
        Self {
            max,
            tasks: Mutex::default(),
            latest: AtomicU64::new(0),
        }
    }

    /// Takes a place, if need be that of another; none if this one is the first to give way.
    fn enter(self: &Arc<Self>, owner: Owner, meter: &Arc<Meter>) -> Option<SlowPermit> {
        let mut tasks = self.tasks.lock();
        let number = self.latest.fetch_add(1, Relaxed);
        let stop = CancellationToken::new();
        tasks.push(SlowTask {
            owner,
            meter: Arc::clone(meter),
            stop: stop.clone(),
            number,
        });
        if tasks.len() > self.max {
            let gives_way = first_to_give_way(&tasks)?;
            let gone = tasks.swap_remove(gives_way);
            gone.stop.cancel();
            if gone.number == number {
                return None;
            }
        }
        Some(SlowPermit {
            of: Arc::clone(self),
            number,
            stop,
        })
    }
}

fn first_to_give_way(tasks: &[SlowTask]) -> Option<usize> {
    let of = |owner: &Owner| tasks.iter().filter(|task| task.owner == *owner).count();
    let rank = |task: &SlowTask| {
        let most = std::cmp::Reverse(of(&task.owner));
        let oldest = std::cmp::Reverse(task.meter.age());
        (most, task.owner.is_served, task.meter.rate(), oldest)
    };
    let ranked = tasks.iter().enumerate();
    ranked
        .min_by_key(|(_, task)| rank(task))
        .map(|(place, _)| place)
}

impl SlowPermit {
    /// Notes whose fetch it is that takes long now.
    fn measure(&self, owner: Owner, meter: &Arc<Meter>) {
        let mut tasks = self.of.tasks.lock();
        if let Some(task) = tasks.iter_mut().find(|task| task.number == self.number) {
            task.owner = owner;
            task.meter = Arc::clone(meter);
        }
    }
}

impl Drop for SlowPermit {
    fn drop(&mut self) {
        let mut tasks = self.of.tasks.lock();
        tasks.retain(|task| task.number != self.number);
    }
}

impl std::fmt::Debug for SlowTask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SlowTask")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(2);

    fn owner(n: u8, is_served: bool) -> Owner {
        let key = [n; 32];
        Owner { key, is_served }
    }

    fn meter() -> Arc<Meter> {
        Arc::new(Meter::unpaid())
    }

    /// Runs something that never ends until it has become slow.
    async fn hang(tasks: &TaskPermits, of: Owner, meter: &Arc<Meter>) -> Option<TaskPermit> {
        let mut task = tasks.attempt().await;
        let hanging = tasks.run(&mut task, of, meter, std::future::pending::<()>());
        let hung = tokio::time::timeout(PATIENCE * 2, hanging).await;
        hung.is_err().then_some(task)
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_task_makes_room_for_a_quick_one() {
        let tasks = TaskPermits::new(4, PATIENCE);
        let mut task = tasks.attempt().await;
        assert!(tasks.attempt().now_or_never().is_none());
        let work = sleep(PATIENCE * 2);
        let done = tasks.run(&mut task, owner(1, false), &meter(), work).await;
        assert_eq!((done, tasks.slow()), (Ok(()), 1));
        assert!(tasks.attempt().now_or_never().is_some());
        drop(task);
        assert_eq!(tasks.slow(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_quick_task_stays_where_it_is_and_gives_its_slot_back() {
        let tasks = TaskPermits::new(4, PATIENCE);
        let mut task = tasks.turn().await;
        let work = async { 7 };
        let done = tasks.run(&mut task, owner(1, false), &meter(), work).await;
        assert_eq!((done, tasks.slow()), (Ok(7), 0));
        drop(task);
        assert!(tasks.turn().now_or_never().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn tasks_in_all_are_as_many_as_the_setting_says() {
        for max in [2, 3, 4, 7, 64, 100] {
            let tasks = TaskPermits::new(max, PATIENCE);
            let quick = tasks.attempts.available_permits() + tasks.turns.available_permits();
            assert_eq!(quick + tasks.slow.max, max);
        }
        let tasks = TaskPermits::new(1, PATIENCE);
        let _attempt = tasks.attempt().await;
        assert!(tasks.turn().now_or_never().is_some(), "one of each kind");
    }

    #[tokio::test(start_paused = true)]
    async fn the_owner_with_most_slow_tasks_gives_way() {
        let tasks = TaskPermits::new(8, PATIENCE);
        let (greedy, other) = (owner(1, true), owner(2, false));
        let mut held = Vec::new();
        for _ in 0..4 {
            held.push(hang(&tasks, greedy, &meter()).await.unwrap());
        }
        let theirs = hang(&tasks, other, &meter()).await;
        assert!(theirs.is_some());
        let owners: Vec<_> = tasks.slow.tasks.lock().iter().map(|it| it.owner).collect();
        assert_eq!(owners.iter().filter(|of| **of == other).count(), 1);
        assert_eq!(owners.len(), 4);
        // And when it comes again it does not push the other out.
        let again = hang(&tasks, greedy, &meter()).await;
        assert!(again.is_some());
        let owners: Vec<_> = tasks.slow.tasks.lock().iter().map(|it| it.owner).collect();
        assert!(owners.contains(&other));
    }

    #[tokio::test(start_paused = true)]
    async fn a_host_that_sends_is_not_kept_out_by_hosts_that_hang() {
        let tasks = TaskPermits::new(8, PATIENCE);
        let sending = meter();
        sending.add(50 << 20);
        let clone = hang(&tasks, owner(0, false), &sending).await;
        let clone = clone.unwrap();
        let mut held = Vec::new();
        for n in 1..100 {
            held.push(hang(&tasks, owner(n, false), &meter()).await);
        }
        let slow = tasks.slow.tasks.lock();
        assert_eq!(slow.len(), 4);
        assert!(slow.iter().any(|task| task.owner == owner(0, false)));
        drop(slow);
        drop(clone);
        assert_eq!(tasks.slow(), 3);
    }
}
