//! Writer thread: group commit, then live fan-out, then the answers.
//!
//! All requests that wait when the thread is free become one commit, so the cost of a sync to
//! disk is shared by all connections; while it runs, the next group gathers. Networks of clients have
//! their turn one after the other, so that a flood of one waits behind itself.

mod operation;
mod write_queue;

use std::{cell::Cell, panic::AssertUnwindSafe, sync::Arc, thread, time::Duration};

use grip_nostr::{Event, EventId, Timestamp};
use grip_store::{EventStore, Put, StoreError, WriteView};
use grip_tasks::fault;
use grip_types::ClientNetwork;
use tokio::sync::{mpsc, oneshot, watch};

use crate::{Answer, Stats, WritePolicy, stats::Raised, subscriptions::Subscriptions};
use operation::{Operation, Outcome};
use write_queue::Waiting;

/// Most events of one commit, so that no answer waits for a group without end.
const MAX_GROUP: usize = 2_048;
/// After so many failures in a row the rest of a group is not tried any more.
const MAX_FAILURES: usize = 3;
/// Bytes on their way to subscribers beyond which the writer lets them catch up.
const BACKLOG_BYTES: u64 = 64 << 20;
/// The longest it lets them, and the steps it looks in.
const BACKLOG_WAIT: Duration = Duration::from_millis(20);
const BACKLOG_STEP: Duration = Duration::from_millis(1);

/// A handle to the writer thread. Requests queue up to a bound; beyond it callers wait.
#[derive(Clone)]
pub struct Writer {
    jobs: mpsc::Sender<Job>,
    /// Why nothing is written any more.
    failure: watch::Receiver<Option<String>>,
    stats: Arc<Stats>,
}

/// Why nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the rules failed on this event")]
    Panicked,
    #[error("writing keeps failing, so this was not tried")]
    GivenUp,
    #[error("the relay is shutting down")]
    Stopped,
}

/// A change of the store that is more than events put or taken out. It is made as a whole or not at
/// all, and may be tried twice.
pub type Change =
    dyn Fn(&[Event], &mut WriteView<'_>, Timestamp) -> Result<Vec<Put>, StoreError> + Send + Sync;

/// Log of the commits of a store, which other copies of it follow.
pub trait CommitLog: Send + Sync {
    /// Makes the changes of one transaction ([`WriteView::encoded_changes`]) durable. The commit follows
    /// if this succeeds, and only then. Blocks.
    fn append(&self, changes: Vec<u8>) -> Result<u64, Box<dyn std::error::Error + Send + Sync>>;

    /// The commit of this number in the log is made here, too.
    fn applied(&self, seq: u64);

    /// The commit of this number could not be made here: this copy is not what the log says.
    fn failed(&self, seq: u64);
}

enum Job {
    Judge {
        events: Vec<Event>,
        policy: Arc<dyn WritePolicy>,
        network: Option<ClientNetwork>,
        reply: oneshot::Sender<Vec<Answer>>,
    },
    Save {
        events: Vec<Event>,
        reply: oneshot::Sender<Result<Vec<Put>, WriteError>>,
    },
    Remove {
        ids: Vec<EventId>,
        reply: oneshot::Sender<Result<(), WriteError>>,
    },
    Change {
        events: Vec<Event>,
        change: Box<Change>,
        reply: oneshot::Sender<Result<Vec<Put>, WriteError>>,
    },
    /// Shows that requests are taken and answered.
    Probe {
        reply: oneshot::Sender<()>,
    },
    Stop {
        reply: oneshot::Sender<()>,
    },
}

impl Writer {
    pub(crate) fn start(
        store: EventStore,
        subscriptions: Arc<Subscriptions>,
        stats: Arc<Stats>,
        queue: usize,
        log: Option<Arc<dyn CommitLog>>,
    ) -> Self {
        let (jobs, queued) = mpsc::channel(queue);
        let (failed, failure) = watch::channel(None);
        let thread = Thread {
            failed: Failed(failed),
            store,
            subscriptions,
            stats: Arc::clone(&stats),
            log,
        };
        thread::Builder::new()
            .name("relay-writer".into())
            .spawn(move || thread.run(queued))
            .expect("a thread can be started when the process begins");
        Self {
            jobs,
            failure,
            stats,
        }
    }

    /// Stores events without asking a policy: all in one commit, or none.
    ///
    /// Subscribers are told before this returns. Dropping the future does not undo the request.
    pub async fn save(&self, events: Vec<Event>) -> Result<Vec<Put>, WriteError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Job::Save { events, reply }, answer).await?
    }

    /// Takes events out, as if they had never come.
    pub async fn remove(&self, ids: Vec<EventId>) -> Result<(), WriteError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Job::Remove { ids, reply }, answer).await?
    }

    /// Makes a change in one commit. It says what became of each of `events`; subscribers are told of
    /// those it stored.
    pub async fn change(
        &self,
        events: Vec<Event>,
        change: Box<Change>,
    ) -> Result<Vec<Put>, WriteError> {
        let (reply, answer) = oneshot::channel();
        let job = Job::Change {
            events,
            change,
            reply,
        };
        self.ask(job, answer).await?
    }

    /// Puts events to the policy in their order; the answers come in the same order.
    pub(crate) async fn judge(
        &self,
        events: Vec<Event>,
        policy: Arc<dyn WritePolicy>,
        network: Option<ClientNetwork>,
    ) -> Result<Vec<Answer>, WriteError> {
        let (reply, answer) = oneshot::channel();
        let job = Job::Judge {
            events,
            policy,
            network,
            reply,
        };
        self.ask(job, answer).await
    }

    /// Returns as soon as the thread has come round to this request: it is not stuck.
    pub(crate) async fn probe(&self) -> Result<(), WriteError> {
        let (reply, answer) = oneshot::channel();
        self.ask(Job::Probe { reply }, answer).await
    }

    /// Ends the thread after what is queued now. Later requests get [`WriteError::Stopped`].
    pub(crate) async fn stop(&self) {
        let (reply, ended) = oneshot::channel();
        // Either error means that it has ended already.
        if self.jobs.send(Job::Stop { reply }).await.is_ok() {
            let _ = ended.await;
        }
    }

    /// Resolves with the reason when nothing can be written any more: the store is dead, or the
    /// thread has ended without being stopped. Pending as long as all is well.
    pub async fn failed(&self) -> String {
        let mut failure = self.failure.clone();
        if let Ok(reason) = failure.wait_for(Option::is_some).await
            && let Some(reason) = &*reason
        {
            return reason.clone();
        }
        // It was stopped.
        std::future::pending().await
    }

    async fn ask<T>(&self, job: Job, answer: oneshot::Receiver<T>) -> Result<T, WriteError> {
        let _waiting = Raised::new(&self.stats.write_queue);
        self.jobs.send(job).await.map_err(|_| WriteError::Stopped)?;
        answer.await.map_err(|_| WriteError::Stopped)
    }
}

impl Job {
    /// Whose turn it takes; the node's own work has one, too.
    fn network(&self) -> Option<ClientNetwork> {
        match self {
            Self::Judge { network, .. } => *network,
            Self::Save { .. }
            | Self::Remove { .. }
            | Self::Change { .. }
            | Self::Probe { .. }
            | Self::Stop { .. } => None,
        }
    }

    /// How much it adds to a group.
    fn len(&self) -> usize {
        match self {
            Self::Judge { events, .. } | Self::Save { events, .. } => events.len().max(1),
            Self::Change { events, .. } => events.len().max(1),
            Self::Remove { ids, .. } => ids.len().max(1),
            Self::Probe { .. } | Self::Stop { .. } => 1,
        }
    }

    /// The parts that fail alone if they fail.
    fn operations(&self) -> Vec<Operation<'_>> {
        match self {
            Self::Judge { events, policy, .. } => {
                let operation = |event| Operation::Judge(event, policy.as_ref());
                events.iter().map(operation).collect()
            }
            Self::Save { events, .. } => vec![Operation::Save(events)],
            Self::Remove { ids, .. } => vec![Operation::Remove(ids)],
            Self::Change { events, change, .. } => vec![Operation::Change(events, &**change)],
            Self::Probe { .. } | Self::Stop { .. } => Vec::new(),
        }
    }

    /// Answers with the outcomes of its operations, to those who still wait.
    fn answer(self, mut outcomes: impl Iterator<Item = Outcome>) {
        match self {
            Self::Judge { events, reply, .. } => {
                let answers = outcomes.by_ref().take(events.len());
                let _ = reply.send(answers.map(Outcome::into_answer).collect());
            }
            Self::Save { reply, .. } | Self::Change { reply, .. } => {
                let outcome = outcomes.next().expect("one operation, one outcome");
                let _ = reply.send(outcome.into_puts());
            }
            Self::Remove { reply, .. } => {
                let outcome = outcomes.next().expect("one operation, one outcome");
                let _ = reply.send(outcome.into_puts().map(drop));
            }
            Self::Probe { reply } | Self::Stop { reply } => drop(reply.send(())),
        }
    }
}

struct Thread {
    failed: Failed,
    store: EventStore,
    subscriptions: Arc<Subscriptions>,
    stats: Arc<Stats>,
    log: Option<Arc<dyn CommitLog>>,
}

impl Thread {
    fn run(mut self, mut queued: mpsc::Receiver<Job>) {
        let mut waiting = Waiting::default();
        loop {
            if waiting.is_empty() {
                let Some(first) = queued.blocking_recv() else {
                    return;
                };
                waiting.push(first);
            }
            fault::point("relay.writer");
            if fault::fails("relay.writer") {
                return;
            }
            self.let_subscribers_catch_up();
            while let Ok(job) = queued.try_recv() {
                waiting.push(job);
            }
            if waiting.stops() {
                queued.close();
            }
            self.serve(waiting.take(MAX_GROUP));
            if waiting.has_stopped() {
                self.failed.disarm();
                return;
            }
        }
    }

    /// Slows down when events come faster than they can be passed on: otherwise readers would be
    /// cut as slow because we are. Readers that lag delay nobody.
    fn let_subscribers_catch_up(&self) {
        let backlog = || {
            let Stats {
                outbound_bytes,
                lagging_bytes,
                ..
            } = &*self.stats;
            outbound_bytes.get().saturating_sub(lagging_bytes.get())
        };
        let mut waited = Duration::ZERO;
        while backlog() > BACKLOG_BYTES && waited < BACKLOG_WAIT {
            thread::park_timeout(BACKLOG_STEP);
            waited += BACKLOG_STEP;
        }
    }

    fn serve(&self, group: Vec<Job>) {
        let operations: Vec<Operation<'_>> = group.iter().flat_map(Job::operations).collect();
        let outcomes = if operations.is_empty() {
            Vec::new()
        } else {
            match self.commit(&operations) {
                Ok(outcomes) => outcomes,
                Err(error) if operations.len() == 1 => vec![Outcome::Failed(error)],
                Err(_) => self.commit_singly(&operations),
            }
        };
        drop(operations);
        let mut outcomes = outcomes.into_iter();
        for job in group {
            job.answer(&mut outcomes);
        }
    }

    /// One at a time, so that a request at fault takes no other with it.
    fn commit_singly(&self, operations: &[Operation<'_>]) -> Vec<Outcome> {
        let mut failures = 0;
        let mut single = |operation: &Operation<'_>| {
            if failures == MAX_FAILURES {
                return Outcome::Failed(WriteError::GivenUp);
            }
            match self.commit(std::slice::from_ref(operation)) {
                Ok(mut outcomes) => {
                    failures = 0;
                    outcomes.pop().expect("one operation, one outcome")
                }
                Err(error) => {
                    failures += 1;
                    Outcome::Failed(error)
                }
            }
        };
        operations.iter().map(&mut single).collect()
    }

    /// One transaction, durable on return; then the fan-out of what is new.
    fn commit(&self, operations: &[Operation<'_>]) -> Result<Vec<Outcome>, WriteError> {
        let batch = self.subscriptions.begin();
        let now = Timestamp::now();
        let logged = Cell::new(None);
        let work = || {
            if fault::fails("relay.store") {
                return Err(StoreError::Dead);
            }
            self.store.write(|view| {
                let applied: Result<Vec<Outcome>, StoreError> = operations
                    .iter()
                    .map(|operation| operation.apply(view, now))
                    .collect();
                if let Some(log) = &self.log
                    && applied.is_ok()
                {
                    logged.set(append(&**log, view)?);
                }
                applied
            })
        };
        let done: Result<Vec<Outcome>, WriteError> =
            match std::panic::catch_unwind(AssertUnwindSafe(work)) {
                Ok(done) => done.map_err(WriteError::Store),
                Err(_) => Err(WriteError::Panicked),
            };
        if let (Some(log), Some(seq)) = (&self.log, logged.get()) {
            match &done {
                Ok(_) => log.applied(seq),
                Err(_) => log.failed(seq),
            }
        }
        let outcomes = done.as_deref().unwrap_or_default();
        let pairs = operations.iter().zip(outcomes);
        self.subscriptions.publish(
            batch,
            pairs
                .clone()
                .flat_map(|(operation, outcome)| operation.fresh(outcome)),
        );
        pairs.for_each(|(operation, outcome)| operation.note(outcome));
        match &done {
            Ok(_) => self
                .stats
                .committed(operations.iter().map(Operation::len).sum()),
            Err(error) => {
                if matches!(error, WriteError::Store(StoreError::Dead)) {
                    self.failed.because(
                        "the event store is dead after an error of the disk; look at the disk, then \
                         start the node again",
                    );
                }
                self.stats.commits_failed.add(1);
                tracing::error!(error = error as &dyn std::error::Error, "commit failed");
            }
        }
        done
    }
}

/// Logs what a transaction changes, if it changes anything, and says under which number.
fn append(log: &dyn CommitLog, view: &WriteView<'_>) -> Result<Option<u64>, StoreError> {
    let changes = view.encoded_changes();
    if changes.is_empty() {
        return Ok(None);
    }
    let seq = log.append(changes).map_err(StoreError::NotLogged)?;
    fault::point("cluster.events_logged");
    Ok(Some(seq))
}

/// Tells that nothing is written any more; on drop too, unless the thread was stopped.
struct Failed(watch::Sender<Option<String>>);

impl Failed {
    fn because(&self, reason: &str) {
        self.0.send_if_modified(|failure| {
            let is_first = failure.is_none();
            failure.get_or_insert_with(|| reason.to_owned());
            is_first
        });
    }

    /// The thread ends because it was asked to.
    fn disarm(&mut self) {
        self.0 = watch::Sender::new(None);
    }
}

impl Drop for Failed {
    fn drop(&mut self) {
        self.because(
            "the thread that writes events has ended; start the node again, and report the lines above",
        );
    }
}
