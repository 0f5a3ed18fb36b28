//! The one connection that writes.
//!
//! Calls wait in a bounded queue; the writer takes all that wait, makes their changes in one
//! transaction and answers each of them after the commit. So one disk flush serves many callers,
//! and a lone caller never waits for company.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use grip_tasks::{CancellationToken, TaskGroup};
use sqlx::{ConnectOptions, Connection, SqliteConnection, sqlite::SqliteConnectOptions};
use tokio::sync::{mpsc, oneshot};

use crate::{Change, JournalError, WriterStats};

/// Calls that may wait; the next caller waits for a place before it is queued.
const QUEUE: usize = 1024;
/// Calls in one commit, so that the first of them is not kept waiting for the last of thousands.
const GROUP: usize = 256;

pub(crate) struct Writer {
    options: SqliteConnectOptions,
    /// None after a failure: the next group begins on a fresh connection, whatever state the
    /// failed transaction was left in.
    connection: Option<SqliteConnection>,
    counters: Arc<Counters>,
}

struct Call {
    changes: Vec<Change>,
    answer: oneshot::Sender<Result<(), JournalError>>,
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

/// The way to the writer.
#[derive(Clone)]
pub(crate) struct Handle {
    calls: mpsc::Sender<Call>,
}

impl Handle {
    /// Makes the changes, all or none; they are on the disk when it returns.
    ///
    /// A caller that stops waiting does not take its changes back: they may still be made.
    pub(crate) async fn apply(&self, changes: Vec<Change>) -> Result<(), JournalError> {
        let (answer, answered) = oneshot::channel();
        let call = Call { changes, answer };
        let closed = |_| JournalError::Closed;
        self.calls.send(call).await.map_err(closed)?;
        answered.await.map_err(|_| JournalError::Closed)?
    }
}

impl Writer {
    pub(crate) async fn connect(options: SqliteConnectOptions) -> Result<Self, sqlx::Error> {
        Ok(Self {
            connection: Some(options.connect().await?),
            options,
            counters: Arc::default(),
        })
    }

    pub(crate) fn counters(&self) -> Arc<Counters> {
        Arc::clone(&self.counters)
    }

    pub(crate) fn start(self, group: &TaskGroup) -> Handle {
        let (calls, queue) = mpsc::channel(QUEUE);
        group.spawn("writer", self.run(queue, group.token()));
        Handle { calls }
    }

    async fn run(mut self, mut queue: mpsc::Receiver<Call>, stop: CancellationToken) {
        while let Some(calls) = next_group(&mut queue, stop.clone()).await {
            self.serve(calls).await;
        }
        if let Some(connection) = self.connection.take()
            && let Err(error) = connection.close().await
        {
            tracing::warn!(%error, "the database did not close cleanly; nothing is lost");
        }
    }

    async fn serve(&mut self, calls: Vec<Call>) {
        let groups: Vec<&[Change]> = calls.iter().map(|call| &*call.changes).collect();
        let outcome = self.commit(&groups).await;
        let one_spoils_the_rest = matches!(&outcome, Err(error) if error.is_about_the_changes());
        if one_spoils_the_rest && calls.len() > 1 {
            for call in calls {
                let outcome = self.commit(&[&call.changes]).await;
                self.answer(call, outcome);
            }
        } else {
            for call in calls {
                self.answer(call, outcome.clone());
            }
        }
    }

    fn answer(&self, call: Call, outcome: Result<(), JournalError>) {
        let counter = match &outcome {
            Ok(()) => &self.counters.applied,
            Err(_) => &self.counters.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        // Nobody listens any more: the caller was told that its changes may be made all the same.
        let _ = call.answer.send(outcome);
    }

    /// Makes all changes in one transaction, or none.
    async fn commit(&mut self, groups: &[&[Change]]) -> Result<(), JournalError> {
        match self.try_commit(groups).await {
            Ok(()) => {
                self.counters.commits.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => {
                // Closing rolls back what was begun.
                if let Some(connection) = self.connection.take() {
                    let _ = connection.close().await;
                }
                Err(JournalError::new(error))
            }
        }
    }

    async fn try_commit(&mut self, groups: &[&[Change]]) -> Result<(), sqlx::Error> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => none.insert(self.options.connect().await?),
        };
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        for changes in groups {
            for change in *changes {
                change.write(&mut transaction).await?;
            }
        }
        transaction.commit().await
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
