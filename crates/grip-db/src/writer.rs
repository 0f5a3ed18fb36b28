//! The one connection that writes in order.
//!
//! Calls wait in a bounded queue; the writer takes all that wait, does their work in one
//! transaction and answers each of them after the commit. So one disk flush serves many callers,
//! and a lone caller never waits for company. Work that fails is undone by itself.

use std::{
    panic::AssertUnwindSafe,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use futures_util::FutureExt as _;
use grip_tasks::{CancellationToken, TaskGroup};
use sqlx::sqlite::SqliteConnectOptions;
use tokio::{sync::mpsc, time::timeout};

use crate::{Connection, DbError, WriterStats, connection::Notes, database::Host, topics::Topics};

mod call;
mod link;

pub(crate) use self::call::{Handle, Reserved};
use self::{
    call::{Call, Job},
    link::{Line, Source},
};

/// Calls that may wait; the next caller waits for a place before it is queued.
const QUEUE: usize = 1024;
/// Calls in one commit, so that the first of them is not kept waiting for the last of thousands.
const GROUP: usize = 256;

pub(crate) struct Writer {
    line: Line,
    counters: Arc<Counters>,
}

#[derive(Default)]
pub(crate) struct Counters {
    applied: AtomicU64,
    commits: AtomicU64,
    failed: AtomicU64,
}

impl Counters {
    pub(crate) fn read(&self) -> WriterStats {
        WriterStats {
            applied_total: self.applied.load(Ordering::Relaxed),
            commits_total: self.commits.load(Ordering::Relaxed),
            failed_total: self.failed.load(Ordering::Relaxed),
        }
    }
}

impl Writer {
    pub(crate) async fn connect(options: SqliteConnectOptions) -> Result<Self, sqlx::Error> {
        Ok(Self {
            line: Line::to_file(options).await?,
            counters: Arc::default(),
        })
    }

    /// Connects when there is something to write.
    pub(crate) fn lazy(host: Host) -> Self {
        Self {
            line: Line::to_server(host),
            counters: Arc::default(),
        }
    }

    pub(crate) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    pub(crate) fn start(self, topics: Arc<Topics>, group: &TaskGroup) -> Handle {
        let (calls, queue) = mpsc::channel(QUEUE);
        group.spawn("writer", self.run(queue, topics, group.token()));
        Handle { calls }
    }

    async fn run(
        mut self,
        mut queue: mpsc::Receiver<Call>,
        topics: Arc<Topics>,
        stop: CancellationToken,
    ) {
        while let Some(calls) = next_group(&mut queue, stop.clone()).await {
            for topic in self.serve(calls).await {
                topics.tell(&topic);
            }
        }
        self.line.close().await;
    }

    /// Does the work of a group, answers its callers, and returns the topics to tell of.
    async fn serve(&mut self, calls: Vec<Call>) -> Vec<String> {
        let (mut calls, late): (Vec<Call>, Vec<Call>) =
            calls.into_iter().partition(|call| self.has_time(&**call));
        for call in late {
            self.answer(call, Err(DbError::Silent));
        }
        if calls.is_empty() {
            return Vec::new();
        }
        let mut notes = Notes::default();
        let outcomes = match self.commit_in_time(&mut calls, &mut notes).await {
            Ok(outcomes) => {
                self.counters.commits.fetch_add(1, Ordering::Relaxed);
                outcomes
            }
            Err(error) => {
                notes.told.clear();
                // Closing undoes what was begun, whatever state the transaction was left in.
                self.line.hang_up().await;
                vec![Err(error); calls.len()]
            }
        };
        for (call, outcome) in calls.into_iter().zip(outcomes) {
            self.answer(call, outcome);
        }
        notes.told
    }

    /// A server may hang, so that work for it is answered in time: two thirds of the patience are
    /// for the turn, one is for the work. The disk of a file is waited for.
    fn has_time(&self, call: &dyn Job) -> bool {
        match &self.line.source {
            Source::Sqlite(_) => true,
            Source::Postgres(host) => call.since().elapsed() < host.patience() - host.answer(),
        }
    }

    async fn commit_in_time(
        &mut self,
        calls: &mut [Call],
        notes: &mut Notes,
    ) -> Result<Vec<Result<(), DbError>>, DbError> {
        let longest = match &self.line.source {
            Source::Sqlite(_) => return self.commit(calls, notes).await,
            Source::Postgres(host) => host.answer(),
        };
        let committed = timeout(longest, self.commit(calls, notes)).await;
        committed.unwrap_or(Err(DbError::Silent))
    }

    fn answer(&self, call: Call, outcome: Result<(), DbError>) {
        self.count(&outcome);
        call.answer(outcome);
    }

    fn count(&self, outcome: &Result<(), DbError>) {
        let counter = match outcome {
            Ok(()) => &self.counters.applied,
            Err(_) => &self.counters.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Does all work in one transaction, each piece all or nothing.
    async fn commit(
        &mut self,
        calls: &mut [Call],
        notes: &mut Notes,
    ) -> Result<Vec<Result<(), DbError>>, DbError> {
        let mut connection = self.line.connection(notes).await?;
        connection.begin().await?;
        let alone = calls.len() == 1;
        let mut outcomes = Vec::with_capacity(calls.len());
        for call in calls {
            outcomes.push(attempt(&mut connection, &mut **call, alone).await?);
        }
        match alone && outcomes[0].is_err() {
            true => connection.command("ROLLBACK").await?,
            false => connection.command("COMMIT").await?,
        }
        Ok(outcomes)
    }
}

/// Does one piece of work. The outer error is one that nobody else in the transaction survives.
async fn attempt(
    connection: &mut Connection<'_>,
    job: &mut dyn Job,
    alone: bool,
) -> Result<Result<(), DbError>, DbError> {
    if !alone {
        connection.command("SAVEPOINT piece").await?;
    }
    let told = connection.notes().told.len();
    let running = AssertUnwindSafe(job.run(connection.part())).catch_unwind();
    let ended = running.await.unwrap_or(Err(DbError::Panicked));
    let ended = connection.notes().judge(ended);
    if ended.is_err() {
        connection.notes().told.truncate(told);
    }
    match ended {
        Ok(()) if alone => Ok(Ok(())),
        Ok(()) => {
            connection.command("RELEASE SAVEPOINT piece").await?;
            Ok(Ok(()))
        }
        Err(error) if !error.is_about_the_work() => Err(error),
        Err(error) if alone => Ok(Err(error)),
        Err(error) => {
            connection.command("ROLLBACK TO SAVEPOINT piece").await?;
            connection.command("RELEASE SAVEPOINT piece").await?;
            Ok(Err(error))
        }
    }
}

/// Waits for calls and takes those that are there; None when the writer shall end.
///
/// A stop closes the queue first, so that what was queued is still written.
async fn next_group(
    queue: &mut mpsc::Receiver<Call>,
    stop: CancellationToken,
) -> Option<Vec<Call>> {
    let first = match stop.run_until_cancelled_owned(queue.recv()).await {
        Some(first) => first?,
        None => {
            queue.close();
            queue.recv().await?
        }
    };
    let mut calls = vec![first];
    while calls.len() < GROUP
        && let Ok(call) = queue.try_recv()
    {
        calls.push(call);
    }
    Some(calls)
}

#[cfg(test)]
mod tests;
