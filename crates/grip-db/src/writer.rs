//! The one connection that writes in order.
//!
//! Requests wait in a bounded channel; the writer takes all that wait, does their work in one
//! transaction and answers each of them after the commit. So one disk flush serves many requests,
//! and a lone request never waits for others. Work that fails is rolled back by itself.

use std::{panic::AssertUnwindSafe, sync::Arc};

use futures_util::FutureExt as _;
use grip_tasks::{CancellationToken, TaskGroup};
use parking_lot::Mutex;
use sqlx::sqlite::SqliteConnectOptions;
use tokio::{sync::mpsc, time::timeout};

use crate::{
    Connection, DbError, WriterStats, connection::WorkState, database::Host, topics::Topics,
    work::Work,
};

mod connection;
mod request;

pub(crate) use self::request::{Handle, Reserved};
use self::{
    connection::{Target, WriterConnection},
    request::{Request, Requested},
};

/// Requests in the channel at most; further senders wait.
const QUEUE: usize = 1024;
/// Requests in one commit, so that the first of them is not kept waiting for the last of thousands.
const GROUP: usize = 256;

pub(crate) struct Writer {
    connection: WriterConnection,
    stats: Arc<Mutex<WriterStats>>,
}

impl Writer {
    pub(crate) async fn connect(options: SqliteConnectOptions) -> Result<Self, sqlx::Error> {
        Ok(Self {
            connection: WriterConnection::to_file(options).await?,
            stats: Arc::default(),
        })
    }

    /// Connects when there is something to write.
    pub(crate) fn lazy(host: Host) -> Self {
        Self {
            connection: WriterConnection::to_server(host),
            stats: Arc::default(),
        }
    }

    pub(crate) fn stats(&self) -> Arc<Mutex<WriterStats>> {
        Arc::clone(&self.stats)
    }

    pub(crate) fn start(self, topics: Arc<Topics>, group: &TaskGroup) -> Handle {
        let (requests, queue) = mpsc::channel(QUEUE);
        group.spawn("writer", self.run(queue, topics, group.token()));
        Handle { requests }
    }

    async fn run(
        mut self,
        mut queue: mpsc::Receiver<Request>,
        topics: Arc<Topics>,
        stop: CancellationToken,
    ) {
        while let Some(requests) = next_group(&mut queue, stop.clone()).await {
            for topic in self.serve(requests).await {
                topics.notify(&topic);
            }
        }
        self.connection.close().await;
    }

    /// Does the work of a group, answers its callers, and returns the topics to notify.
    async fn serve(&mut self, requests: Vec<Request>) -> Vec<String> {
        let (mut requests, late): (Vec<Request>, Vec<Request>) = requests
            .into_iter()
            .partition(|request| self.has_time(&**request));
        for request in late {
            self.answer(request, Err(DbError::TimedOut));
        }
        if requests.is_empty() {
            return Vec::new();
        }
        let mut state = WorkState::default();
        let outcomes = match self.commit_within(&mut requests, &mut state).await {
            Ok(outcomes) => {
                self.stats.lock().commits_total += 1;
                outcomes
            }
            Err(error) => {
                state.notified.clear();
                // Closing undoes what was begun, whatever state the transaction was left in.
                self.connection.discard().await;
                vec![Err(error); requests.len()]
            }
        };
        for (request, outcome) in requests.into_iter().zip(outcomes) {
            self.answer(request, outcome);
        }
        state.notified
    }

    /// A server may hang, so that work for it is answered in time: two thirds of the time limit are
    /// for the turn, one is for the work. The disk of a file is waited for.
    fn has_time(&self, request: &dyn Requested) -> bool {
        match &self.connection.source {
            Target::Sqlite(_) => true,
            Target::Postgres(host) => request.since().elapsed() < host.time_limit() - host.answer(),
        }
    }

    async fn commit_within(
        &mut self,
        requests: &mut [Request],
        state: &mut WorkState,
    ) -> Result<Vec<Result<(), DbError>>, DbError> {
        let longest = match &self.connection.source {
            Target::Sqlite(_) => return self.commit(requests, state).await,
            Target::Postgres(host) => host.answer(),
        };
        let committed = timeout(longest, self.commit(requests, state)).await;
        committed.unwrap_or(Err(DbError::TimedOut))
    }

    fn answer(&self, request: Request, outcome: Result<(), DbError>) {
        let mut stats = self.stats.lock();
        match outcome {
            Ok(()) => stats.applied_total += 1,
            Err(_) => stats.failed_total += 1,
        }
        drop(stats);
        request.answer(outcome);
    }

    /// Does all work in one transaction, each piece all or nothing.
    async fn commit(
        &mut self,
        requests: &mut [Request],
        state: &mut WorkState,
    ) -> Result<Vec<Result<(), DbError>>, DbError> {
        let fence = match &self.connection.source {
            Target::Sqlite(_) => None,
            Target::Postgres(host) => host.fence().cloned(),
        };
        let mut connection = self.connection.connection(state).await?;
        connection.begin().await?;
        if let Some(fence) = &fence {
            fence.hold(&mut connection).await?;
        }
        let alone = requests.len() == 1;
        let mut outcomes = Vec::with_capacity(requests.len());
        for request in requests {
            outcomes.push(attempt(&mut connection, &mut **request, alone).await?);
        }
        if alone && outcomes[0].is_err() {
            connection.command("ROLLBACK").await?;
        } else {
            connection.command("COMMIT").await?;
        }
        Ok(outcomes)
    }
}

/// Does one piece of work. The outer error is one that nobody else in the transaction survives.
async fn attempt(
    connection: &mut Connection<'_>,
    job: &mut dyn Work,
    alone: bool,
) -> Result<Result<(), DbError>, DbError> {
    if !alone {
        connection.command("SAVEPOINT piece").await?;
    }
    let told = connection.state().notified.len();
    let running = AssertUnwindSafe(job.run(connection.reborrow())).catch_unwind();
    let ended = running.await.unwrap_or(Err(DbError::Panicked));
    let ended = connection.state().judge(ended);
    if ended.is_err() {
        connection.state().notified.truncate(told);
    }
    match ended {
        Ok(()) if alone => Ok(Ok(())),
        Ok(()) => {
            connection.command("RELEASE SAVEPOINT piece").await?;
            Ok(Ok(()))
        }
        Err(error) if !error.is_of_the_work() => Err(error),
        Err(error) if alone => Ok(Err(error)),
        Err(error) => {
            connection.command("ROLLBACK TO SAVEPOINT piece").await?;
            connection.command("RELEASE SAVEPOINT piece").await?;
            Ok(Err(error))
        }
    }
}

/// Waits for requests and takes those that are there; None when the writer shall end.
///
/// A stop closes the queue first, so that what was queued is still written.
async fn next_group(
    queue: &mut mpsc::Receiver<Request>,
    stop: CancellationToken,
) -> Option<Vec<Request>> {
    let first = match stop.run_until_cancelled_owned(queue.recv()).await {
        Some(first) => first?,
        None => {
            queue.close();
            queue.recv().await?
        }
    };
    let mut requests = vec![first];
    while requests.len() < GROUP
        && let Ok(request) = queue.try_recv()
    {
        requests.push(request);
    }
    Some(requests)
}

#[cfg(test)]
mod tests;
