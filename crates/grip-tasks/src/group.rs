//! Groups that own their tasks.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    pin::Pin,
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{task::AbortHandle, time::timeout};
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};
use tracing::Instrument;

use crate::{
    JoinHandle, LowPriorityThreads,
    handle::{BlockingWork, Output},
    panic,
};

/// Owns tasks: they can be listed, told to stop, waited for and, in the end, aborted.
///
/// Cheap to clone; all clones are the same group. Dropping the last handle stops nothing: tasks
/// keep their group alive until they end or [`TaskGroup::shutdown`] ends them.
#[derive(Clone)]
pub struct TaskGroup {
    inner: Arc<Inner>,
}

/// How a shutdown went.
#[must_use = "tell the operator which way it ended"]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Every task ended by itself within the grace period.
    Drained,
    /// `left` tasks were still at work when the grace period was over, and were aborted.
    Aborted { left: usize },
}

/// The tasks of one kind in one group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskStatus {
    /// Names from the outermost group inwards, joined by `/`.
    pub group: String,
    pub kind: &'static str,
    pub running: usize,
    pub started_total: u64,
    /// Ended from outside: by a shutdown, by their handle, or with the runtime.
    pub aborted_total: u64,
    /// Ended by themselves because their group was told to stop.
    pub canceled_total: u64,
    pub panicked_total: u64,
}

struct Inner {
    path: String,
    token: CancellationToken,
    /// Holds a mark for every task of this group and of all groups below it.
    tracker: TaskTracker,
    parent: Option<TaskGroup>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    next_id: u64,
    kinds: BTreeMap<&'static str, Counters>,
    /// Bounded by the running tasks: a task takes itself out when it ends.
    running: BTreeMap<u64, Option<AbortHandle>>,
    /// Bounded by the living child groups: a child takes itself out when it is dropped.
    children: BTreeMap<u64, Weak<Inner>>,
    /// Set once the grace period is over: what starts now is aborted at once.
    aborting: bool,
}

#[derive(Clone, Copy, Default)]
struct Counters {
    running: usize,
    started: u64,
    aborted: u64,
    canceled: u64,
    panicked: u64,
}

impl TaskGroup {
    pub fn new(name: &'static str) -> Self {
        Self::build(name.to_owned(), CancellationToken::new(), None)
    }

    /// Makes a group that stops with this one and is listed below it.
    ///
    /// It can also be shut down alone, which leaves its parent and siblings at work.
    pub fn child(&self, name: &'static str) -> Self {
        let path = format!("{}/{name}", self.inner.path);
        let child = Self::build(path, self.inner.token.child_token(), Some(self.clone()));
        let mut state = self.inner.state.lock();
        state
            .children
            .insert(child.id(), Arc::downgrade(&child.inner));
        // A child of a group that is being aborted could otherwise start what nobody ends.
        child.inner.state.lock().aborting = state.aborting;
        drop(state);
        child
    }

    fn build(path: String, token: CancellationToken, parent: Option<TaskGroup>) -> Self {
        let tracker = TaskTracker::new();
        // Closed from the start: `wait` then means "no task right now".
        tracker.close();
        let inner = Arc::new(Inner {
            path,
            token,
            tracker,
            parent,
            state: Mutex::default(),
        });
        Self { inner }
    }

    /// The address of the shared part: unique among living groups.
    fn id(&self) -> u64 {
        self.inner.id()
    }

    /// The outermost group: the one whose tasks are all tasks of the process.
    pub fn root(&self) -> Self {
        let outermost = self.lineage().last();
        outermost.expect("a group is of its own lineage").clone()
    }

    /// How many tasks of this group and of those below it have not ended.
    pub fn running(&self) -> usize {
        self.inner.tracker.len()
    }

    /// Is cancelled when the group shall take in no new work.
    pub fn token(&self) -> CancellationToken {
        self.inner.token.clone()
    }

    /// Runs `future` as a task of this group.
    ///
    /// A panic is logged once, with `kind`, and reaches the handle as well. Dropping the handle
    /// leaves the task at work.
    pub fn spawn<F>(&self, kind: &'static str, future: F) -> JoinHandle<F::Output>
    where
        F: Future + Send + 'static,
        F::Output: Send + 'static,
    {
        let output = Output::new();
        let shared = output.share();
        let work = async move { shared.set(future.await) };
        JoinHandle::new(self.spawn_boxed(kind, Box::pin(work)), output)
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that gives a task its owner"
    )]
    fn spawn_boxed(
        &self,
        kind: &'static str,
        future: Pin<Box<dyn Future<Output = ()> + Send>>,
    ) -> tokio::task::JoinHandle<()> {
        let guard = self.begin(kind);
        let id = guard.id;
        let span = tracing::debug_span!("task", group = %self.inner.path, kind);
        let work = async move {
            // Owned by the task, so that it is dropped with it on every path.
            let mut guard = guard;
            let outcome = panic::caught(future).await;
            guard.end(outcome);
        };
        let handle = tokio::spawn(work.instrument(span));
        self.adopt(id, handle.abort_handle());
        handle
    }

    /// Runs `work` on a thread where it may block.
    ///
    /// Once begun it cannot be aborted: long work looks at the token now and then.
    pub fn spawn_blocking<F, T>(&self, kind: &'static str, work: F) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (work, output) = Output::of(work);
        JoinHandle::new(self.spawn_blocking_boxed(kind, work, None), output)
    }

    /// Runs `work` on one of `threads`.
    pub fn spawn_low_priority<F, T>(
        &self,
        threads: &LowPriorityThreads,
        kind: &'static str,
        work: F,
    ) -> JoinHandle<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (work, output) = Output::of(work);
        JoinHandle::new(self.spawn_blocking_boxed(kind, work, Some(threads)), output)
    }

    fn spawn_blocking_boxed(
        &self,
        kind: &'static str,
        work: BlockingWork,
        threads: Option<&LowPriorityThreads>,
    ) -> tokio::task::JoinHandle<()> {
        let mut guard = self.begin(kind);
        let id = guard.id;
        let span = tracing::Span::current();
        let work = move || {
            let _entered = span.enter();
            guard.end(catch_unwind(AssertUnwindSafe(work)));
        };
        let handle = match threads {
            Some(threads) => threads.spawn(work),
            None => tokio::task::spawn_blocking(work),
        };
        self.adopt(id, handle.abort_handle());
        handle
    }

    /// Counts a task in; what it returns counts it out when dropped.
    fn begin(&self, kind: &'static str) -> Guard {
        let mut state = self.inner.state.lock();
        let id = state.next_id;
        state.next_id += 1;
        state.running.insert(id, None);
        let counters = state.kinds.entry(kind).or_default();
        counters.running += 1;
        counters.started += 1;
        drop(state);
        let marks = self.lineage().map(|group| group.inner.tracker.token());
        Guard {
            marks: marks.collect(),
            group: self.clone(),
            kind,
            id,
            end: End::Aborted,
        }
    }

    /// Keeps the handle of a task that may have ended already.
    fn adopt(&self, id: u64, handle: AbortHandle) {
        let mut state = self.inner.state.lock();
        if state.aborting {
            handle.abort();
        }
        if let Some(slot) = state.running.get_mut(&id) {
            *slot = Some(handle);
        }
    }

    /// This group and those above it.
    fn lineage(&self) -> impl Iterator<Item = &TaskGroup> {
        std::iter::successors(Some(self), |group| group.inner.parent.as_ref())
    }

    /// Stops this group and all below it: cancels the token, waits up to `grace` for the tasks to
    /// end by themselves, then aborts the rest.
    ///
    /// Aborted tasks end at their next `.await`; they are given `grace` once more to do so, so
    /// that blocking work which ignores the token cannot hold up the end of the process for ever.
    /// Cancel safe: the token stays cancelled, and a second call goes on waiting.
    pub async fn shutdown(&self, grace: Duration) -> Ended {
        self.inner.token.cancel();
        if timeout(grace, self.inner.tracker.wait()).await.is_ok() {
            return Ended::Drained;
        }
        let left = self.inner.tracker.len();
        if left == 0 {
            return Ended::Drained;
        }
        self.abort();
        if timeout(grace, self.inner.tracker.wait()).await.is_err() {
            let stuck = self.inner.tracker.len();
            tracing::warn!(group = %self.inner.path, stuck, "tasks still run after their abort");
        }
        Ended::Aborted { left }
    }

    fn abort(&self) {
        let mut state = self.inner.state.lock();
        state.aborting = true;
        let handles: Vec<AbortHandle> = state.running.values().flatten().cloned().collect();
        let children: Vec<TaskGroup> = state.children.values().filter_map(upgrade).collect();
        // An abort may drop the task here and now, and with it a guard that wants the lock.
        drop(state);
        for handle in handles {
            handle.abort();
        }
        for child in children {
            child.abort();
        }
    }

    /// What runs and ran in this group and in the living groups below it, by group and kind.
    ///
    /// Groups of the same name side by side are added up.
    pub fn status(&self) -> Vec<TaskStatus> {
        let mut found = BTreeMap::new();
        self.collect(&mut found);
        let status = |((group, kind), sum): ((String, &'static str), Counters)| TaskStatus {
            group,
            kind,
            running: sum.running,
            started_total: sum.started,
            aborted_total: sum.aborted,
            canceled_total: sum.canceled,
            panicked_total: sum.panicked,
        };
        found.into_iter().map(status).collect()
    }

    fn collect(&self, found: &mut BTreeMap<(String, &'static str), Counters>) {
        let state = self.inner.state.lock();
        let children: Vec<TaskGroup> = state.children.values().filter_map(upgrade).collect();
        let kinds = state.kinds.clone();
        drop(state);
        for (kind, counters) in kinds {
            let sum = found.entry((self.inner.path.clone(), kind)).or_default();
            sum.running += counters.running;
            sum.started += counters.started;
            sum.aborted += counters.aborted;
            sum.canceled += counters.canceled;
            sum.panicked += counters.panicked;
        }
        for child in children {
            child.collect(found);
        }
    }
}

fn upgrade(child: &Weak<Inner>) -> Option<TaskGroup> {
    child.upgrade().map(|inner| TaskGroup { inner })
}

impl Inner {
    fn id(&self) -> u64 {
        std::ptr::from_ref(self).addr() as u64
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(parent) = &self.parent {
            parent.inner.state.lock().children.remove(&self.id());
        }
    }
}

enum End {
    Finished,
    Panicked,
    /// What is left when the task is dropped before it ended.
    Aborted,
}

/// One running task, counted out on drop whichever way it ends.
struct Guard {
    group: TaskGroup,
    kind: &'static str,
    id: u64,
    end: End,
    marks: Vec<TaskTrackerToken>,
}

impl Guard {
    /// Notes how the task ended; goes on with its panic if it had one.
    fn end(&mut self, outcome: Result<(), panic::Payload>) {
        match outcome {
            Ok(()) => self.end = End::Finished,
            Err(payload) => {
                self.end = End::Panicked;
                tracing::error!(
                    group = %self.group.inner.path,
                    kind = self.kind,
                    reason = panic::message(&payload),
                    "task panicked"
                );
                resume_unwind(payload)
            }
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut state = self.group.inner.state.lock();
        state.running.remove(&self.id);
        let counters = state.kinds.entry(self.kind).or_default();
        counters.running -= 1;
        match self.end {
            End::Finished if self.group.inner.token.is_cancelled() => counters.canceled += 1,
            End::Finished => {}
            End::Panicked => counters.panicked += 1,
            End::Aborted => counters.aborted += 1,
        }
        drop(state);
        // Last, so that the counters are right for those who wait for the group; and from the
        // outermost inwards, so that those of the groups above are right as well.
        while self.marks.pop().is_some() {}
    }
}

#[cfg(test)]
mod tests;
