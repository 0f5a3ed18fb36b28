//! The one thread that writes: group commit, then live fan-out, then the answers.
//!
//! All requests that wait when the thread is free become one commit, so the cost of a sync to
//! disk is shared by all connections; while it runs, the next group gathers.

mod unit;

use std::{panic::AssertUnwindSafe, sync::Arc, thread, time::Duration};

use grip_nostr::{Event, EventId, Timestamp};
use grip_store::{EventStore, Put, StoreError};
use tokio::sync::{mpsc, oneshot};

use crate::{Answer, Stats, WritePolicy, hub::Hub, stats::Raised};
use unit::{Outcome, Unit};

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

enum Job {
    Judge {
        events: Vec<Event>,
        policy: Arc<dyn WritePolicy>,
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
    Sweep {
        max: usize,
    },
    Stop {
        reply: oneshot::Sender<()>,
    },
}

impl Writer {
    pub(crate) fn start(store: EventStore, hub: Arc<Hub>, stats: Arc<Stats>, queue: usize) -> Self {
        let (jobs, queued) = mpsc::channel(queue);
        let thread = Thread {
            store,
            hub,
            stats: Arc::clone(&stats),
        };
        thread::Builder::new()
            .name("relay-writer".into())
            .spawn(move || thread.run(queued))
            .expect("a thread can be started when the process begins");
        Self { jobs, stats }
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

    /// Puts events to the policy in their order; the answers come in the same order.
    pub(crate) async fn judge(
        &self,
        events: Vec<Event>,
        policy: Arc<dyn WritePolicy>,
    ) -> Result<Vec<Answer>, WriteError> {
        let (reply, answer) = oneshot::channel();
        let job = Job::Judge {
            events,
            policy,
            reply,
        };
        self.ask(job, answer).await
    }

    /// Has expired events removed; does not wait for it.
    pub(crate) async fn sweep(&self, max: usize) {
        // A stopped writer has nothing to sweep.
        let _ = self.jobs.send(Job::Sweep { max }).await;
    }

    /// Ends the thread after what is queued now. Later requests get [`WriteError::Stopped`].
    pub(crate) async fn stop(&self) {
        let (reply, ended) = oneshot::channel();
        // Either error means that it has ended already.
        if self.jobs.send(Job::Stop { reply }).await.is_ok() {
            let _ = ended.await;
        }
    }

    async fn ask<T>(&self, job: Job, answer: oneshot::Receiver<T>) -> Result<T, WriteError> {
        let _waiting = Raised::new(&self.stats.write_queue);
        self.jobs.send(job).await.map_err(|_| WriteError::Stopped)?;
        answer.await.map_err(|_| WriteError::Stopped)
    }
}

impl Job {
    /// How much it adds to a group.
    fn len(&self) -> usize {
        match self {
            Self::Judge { events, .. } | Self::Save { events, .. } => events.len().max(1),
            Self::Remove { ids, .. } => ids.len().max(1),
            Self::Sweep { .. } | Self::Stop { .. } => 1,
        }
    }

    /// The parts that fail alone if they fail.
    fn units(&self) -> Vec<Unit<'_>> {
        match self {
            Self::Judge { events, policy, .. } => {
                let unit = |event| Unit::Judge(event, policy.as_ref());
                events.iter().map(unit).collect()
            }
            Self::Save { events, .. } => vec![Unit::Save(events)],
            Self::Remove { ids, .. } => vec![Unit::Remove(ids)],
            Self::Sweep { max } => vec![Unit::Sweep(*max)],
            Self::Stop { .. } => Vec::new(),
        }
    }

    /// Answers with the outcomes of its units. Whoever went away meanwhile is not told.
    fn answer(self, mut outcomes: impl Iterator<Item = Outcome>) {
        match self {
            Self::Judge { events, reply, .. } => {
                let answers = outcomes.by_ref().take(events.len());
                let _ = reply.send(answers.map(Outcome::into_answer).collect());
            }
            Self::Save { reply, .. } => {
                let outcome = outcomes.next().expect("one unit, one outcome");
                let _ = reply.send(outcome.into_puts());
            }
            Self::Remove { reply, .. } => {
                let outcome = outcomes.next().expect("one unit, one outcome");
                let _ = reply.send(outcome.into_puts().map(drop));
            }
            Self::Sweep { .. } => drop(outcomes.next()),
            Self::Stop { reply } => drop(reply.send(())),
        }
    }
}

struct Thread {
    store: EventStore,
    hub: Arc<Hub>,
    stats: Arc<Stats>,
}

impl Thread {
    fn run(self, mut queued: mpsc::Receiver<Job>) {
        while let Some(first) = queued.blocking_recv() {
            self.let_subscribers_catch_up();
            let group = gather(first, &mut queued);
            let stops = matches!(group.last(), Some(Job::Stop { .. }));
            if stops {
                queued.close();
            }
            self.serve(group);
            if stops {
                return;
            }
        }
    }

    /// Slows down when events come faster than they can be passed on: otherwise readers would be
    /// cut as slow because we are. A reader that takes nothing delays nobody for long.
    fn let_subscribers_catch_up(&self) {
        let mut waited = Duration::ZERO;
        while self.stats.outbound_bytes.get() > BACKLOG_BYTES && waited < BACKLOG_WAIT {
            thread::park_timeout(BACKLOG_STEP);
            waited += BACKLOG_STEP;
        }
    }

    fn serve(&self, group: Vec<Job>) {
        let units: Vec<Unit<'_>> = group.iter().flat_map(Job::units).collect();
        let outcomes = match self.commit(&units) {
            Ok(outcomes) => outcomes,
            Err(error) if units.len() == 1 => vec![Outcome::Failed(error)],
            Err(_) => self.commit_singly(&units),
        };
        drop(units);
        let mut outcomes = outcomes.into_iter();
        for job in group {
            job.answer(&mut outcomes);
        }
    }

    /// One at a time, so that a request at fault takes no other with it.
    fn commit_singly(&self, units: &[Unit<'_>]) -> Vec<Outcome> {
        let mut failures = 0;
        let mut single = |unit: &Unit<'_>| {
            if failures == MAX_FAILURES {
                return Outcome::Failed(WriteError::GivenUp);
            }
            match self.commit(std::slice::from_ref(unit)) {
                Ok(mut outcomes) => {
                    failures = 0;
                    outcomes.pop().expect("one unit, one outcome")
                }
                Err(error) => {
                    failures += 1;
                    Outcome::Failed(error)
                }
            }
        };
        units.iter().map(&mut single).collect()
    }

    /// One transaction, durable on return; then the fan-out of what is new.
    fn commit(&self, units: &[Unit<'_>]) -> Result<Vec<Outcome>, WriteError> {
        let batch = self.hub.begin();
        let now = Timestamp::now();
        let work = || {
            self.store
                .write(|view| units.iter().map(|unit| unit.apply(view, now)).collect())
        };
        let done: Result<Vec<Outcome>, WriteError> =
            match std::panic::catch_unwind(AssertUnwindSafe(work)) {
                Ok(done) => done.map_err(WriteError::Store),
                Err(_) => Err(WriteError::Panicked),
            };
        let outcomes = done.as_deref().unwrap_or_default();
        let pairs = units.iter().zip(outcomes);
        self.hub.publish(
            batch,
            pairs
                .clone()
                .flat_map(|(unit, outcome)| unit.fresh(outcome)),
        );
        pairs.for_each(|(unit, outcome)| unit.note(outcome));
        match &done {
            Ok(_) => self.stats.committed(units.iter().map(Unit::len).sum()),
            Err(error) => {
                self.stats.commits_failed.add(1);
                tracing::error!(error = error as &dyn std::error::Error, "commit failed");
            }
        }
        done
    }
}

/// `first` and whatever waits behind it, up to a bound or to the end.
fn gather(first: Job, queued: &mut mpsc::Receiver<Job>) -> Vec<Job> {
    let mut events = first.len();
    let mut group = vec![first];
    while events < MAX_GROUP && !matches!(group.last(), Some(Job::Stop { .. })) {
        let Ok(job) = queued.try_recv() else { break };
        events += job.len();
        group.push(job);
    }
    group
}
