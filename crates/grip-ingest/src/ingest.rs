//! The ingest: its parts, its workers, and what its users call.

mod report;

use std::{sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use grip_db::{Db, DbError};
use grip_github::GitHub;
use grip_queue::{NewJob, Queue, Worker, WorkerOptions, WorkerStatus};
use grip_tasks::TaskGroup;

use crate::{
    accept::{Accepted, Arrival, read},
    extract::Push,
    jobs::{self, Context, JobHandler, Role},
    options::Options,
    retention::Retained,
    store::{EventQuery, Gap, Key, RecordKind, Reextraction, Store, Stored, StoredEvent},
};

/// The most events or gaps that one answer has.
const MOST: usize = 1_000;
/// Pushes that are worked on at a time: that is the database's work, which likes company.
const PUSHES_AT_ONCE: usize = 16;
const HOUR_MS: i64 = 60 * 60 * 1_000;
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Notified of pushes, of the same one possibly twice.
pub trait PushListener: Send + Sync + 'static {
    /// Somebody has pushed to a repository. Not called for pushes of long ago.
    fn pushed<'a>(&'a self, push: &'a Push) -> BoxFuture<'a, ()>;

    /// Tags of a repository (`owner/name`) were made or removed; lists show no push for that.
    fn tagged<'a>(&'a self, repository: &'a str, is_private: bool) -> BoxFuture<'a, ()>;
}

/// What it is made of.
pub struct Parts {
    pub db: Db,
    pub queue: Queue,
    pub github: GitHub,
    pub pushes: Arc<dyn PushListener>,
    pub options: Options,
    pub group: TaskGroup,
}

/// Takes events in: its workers run as long as it is there.
#[must_use = "dropping it stops its workers"]
pub struct Ingest {
    context: Arc<Context>,
    workers: Vec<Worker>,
}

impl Ingest {
    /// Notes the lists and starts the work. What was done before is not repeated.
    pub async fn start(parts: Parts) -> Result<Self, DbError> {
        let context = Arc::new(Context {
            store: Store::new(parts.db),
            queue: parts.queue,
            github: parts.github,
            pushes: parts.pushes,
            options: parts.options,
            group: parts.group,
        });
        Self::start_with(context).await
    }

    pub(crate) async fn start_with(context: Arc<Context>) -> Result<Self, DbError> {
        for source in &context.options.sources {
            let job = context.poll_job(source).revive();
            let (store, queue) = (&context.store, &context.queue);
            store.add_source(queue, &source.to_string(), job).await?;
        }
        let soon = context.store.now_ms() + HOUR_MS;
        let retention = NewJob::new(jobs::RETENTION, "all")
            .every(DAY)
            .due_ms(soon)
            .revive();
        context.queue.enqueue(vec![retention]).await?;
        context.store.fill_json(&context.queue, false).await?;
        let workers = workers(&context);
        Ok(Self { context, workers })
    }

    /// Takes in what arrived, from wherever: keeps what is new, once, and asks for what follows
    /// from it. All of it is on the disk when this returns, or nothing.
    pub async fn accept(&self, source: &str, arrivals: Vec<Arrival>) -> Result<Accepted, DbError> {
        let batch = read(&self.context.group, arrivals).await?;
        let context = &self.context;
        let live_for = context.options.live_for;
        context
            .store
            .accept(&context.queue, source, batch, live_for)
            .await
    }

    /// Holes in the order they were found, from the one after `after`.
    pub async fn gaps(
        &self,
        only_open: bool,
        after: i64,
        limit: usize,
    ) -> Result<Vec<Gap>, DbError> {
        let store = &self.context.store;
        store.gaps(only_open, after, limit.min(MOST)).await
    }

    /// Everything that happened between two moments is known now: the holes within are filled.
    /// Says how many there were.
    pub async fn close_gaps(&self, from_ms: i64, to_ms: i64, by: &str) -> Result<u64, DbError> {
        self.context.store.close_gaps(from_ms, to_ms, by).await
    }

    /// Pushes, the latest first.
    pub async fn events(&self, query: &EventQuery) -> Result<Vec<StoredEvent>, DbError> {
        let limit = query.limit.min(MOST);
        let query = EventQuery {
            limit,
            ..query.clone()
        };
        self.context.store.events(&query).await
    }

    /// A person, as far as known.
    pub async fn user(&self, key: &Key) -> Result<Option<Stored>, DbError> {
        self.context.store.stored(RecordKind::User, key).await
    }

    /// A repository, as far as known.
    pub async fn repository(&self, key: &Key) -> Result<Option<Stored>, DbError> {
        self.context.store.stored(RecordKind::Repository, key).await
    }

    /// Lets go of what is older than it is kept, or only counts it.
    pub async fn retention(&self, dry_run: bool) -> Result<Retained, DbError> {
        self.context.retention(dry_run).await
    }

    /// Has everything that is kept read again by the rules of today, from the beginning. It goes
    /// on by itself, also after a restart; [`Status::progress`](crate::Status::progress) says how far it is.
    pub async fn reextract(&self) -> Result<(), DbError> {
        let (store, queue) = (self.context.store.clone(), self.context.queue.clone());
        store.fill_json(&queue, true).await?;
        let db = store.db().clone();
        db.write(move |mut db| {
            Box::pin(async move {
                let job = |work: Reextraction| NewJob::new(jobs::REEXTRACT, work.name()).revive();
                let jobs = Reextraction::ALL.into_iter().map(job).collect();
                queue.enqueue_in(&mut db, jobs).await?;
                for work in Reextraction::ALL {
                    store.begin_work(&mut db, work.name()).await?;
                }
                Ok(())
            })
        })
        .await
    }

    pub fn workers(&self) -> Vec<WorkerStatus> {
        self.workers.iter().map(Worker::status).collect()
    }

    /// Stops the work and waits until it is given back.
    pub async fn shutdown(self) {
        for worker in self.workers {
            worker.shutdown().await;
        }
    }
}

fn workers(context: &Arc<Context>) -> Vec<Worker> {
    let (options, group) = (&context.options, &context.group);
    let start = |kind: &str, role: Role, at_once: usize| {
        let options = WorkerOptions {
            at_once,
            lease: options.lease,
            poll: options.look_every,
            ..WorkerOptions::default()
        };
        let handler = Arc::new(JobHandler(Arc::clone(context), role));
        Worker::start(context.queue.clone(), kind, handler, options, group)
    };
    let (user, repository) = (RecordKind::User, RecordKind::Repository);
    let mut all = vec![
        start(jobs::push_kind(true), Role::Push, PUSHES_AT_ONCE),
        start(jobs::push_kind(false), Role::Push, PUSHES_AT_ONCE),
        start(jobs::TAGGED, Role::Tagged, 1),
        start(jobs::new_kind(user), Role::New(user), options.workers),
        start(
            jobs::new_kind(repository),
            Role::New(repository),
            options.workers,
        ),
        start(jobs::REFRESH, Role::Refresh, 1),
        start(jobs::REEXTRACT, Role::Reextract, 1),
        start(jobs::FILL_JSON, Role::FillJson, 1),
        start(jobs::RETENTION, Role::Retention, 1),
    ];
    if !options.sources.is_empty() {
        let at_once = options.sources.len().min(4);
        all.push(start(jobs::POLL, Role::Poll, at_once));
    }
    all
}

#[cfg(test)]
mod tests;
