//! Kinds of jobs, and the outcome of an error in one of them.
//!
//! Invariant: no job waits for a limit. It ends, and is due again when the limit is over.

mod enrich;
mod process_push;
mod refresh_budget;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use futures_util::future::BoxFuture;
use grip_db::DbError;
use grip_github::{GitHub, GitHubError, NextStep};
use grip_queue::{Failure, Handler, Job, Lease, NewJob, Outcome, Queue};
use grip_tasks::TaskGroup;
use grip_types::ErrorChain;

use crate::{
    extract::TagEvent,
    ingest::PushListener,
    options::Options,
    store::{JsonFill, RecordKind, Reextraction, Store},
};

/// Reads a list of events.
pub(crate) const POLL: &str = "ingest-poll";
/// Tells that the tags of a repository have changed.
pub(crate) const TAGGED: &str = "tag-event";
/// What such a job is asked with where not everybody may see the repository.
const PRIVATE: &str = "private";
/// Asks for a person or a repository that is not known.
const USER: &str = "github-user";
const REPOSITORY: &str = "github-repo";
/// Asks again, or for those behind old events; lets all others go first.
pub(crate) const REFRESH: &str = "github-refresh";
pub(crate) const REEXTRACT: &str = "ingest-reextract";
/// Fills `jsonb` in for rows that are older than its tables. A kind of its own: instances that do not
/// know these tables leave it alone.
pub(crate) const FILL_JSON: &str = "ingest-json";
pub(crate) const RETENTION: &str = "ingest-retention";

/// How soon work is tried again that the database was in the way of.
const DATABASE_AWAY_MS: i64 = 5_000;

/// The kind of work that a push is: old ones are not in the way of those of today.
pub(crate) fn push_kind(is_live: bool) -> &'static str {
    if is_live {
        "push-event"
    } else {
        "push-event-old"
    }
}

/// The work that follows from a tag; for many of one repository it is one job.
pub(crate) fn tagged_job(tag: &TagEvent) -> NewJob {
    let job = NewJob::new(TAGGED, &*tag.repository_name).revive();
    if tag.is_private {
        job.payload(PRIVATE)
    } else {
        job
    }
}

/// The kind of work that asks for something new.
pub(crate) fn new_kind(record_kind: RecordKind) -> &'static str {
    match record_kind {
        RecordKind::User => USER,
        RecordKind::Repository => REPOSITORY,
    }
}

pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

/// What all work shares.
pub(crate) struct Context {
    pub(crate) store: Store,
    pub(crate) queue: Queue,
    pub(crate) github: GitHub,
    pub(crate) pushes: Arc<dyn PushListener>,
    pub(crate) options: Options,
    pub(crate) group: TaskGroup,
}

/// One kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Poll,
    Push,
    Tagged,
    New(RecordKind),
    Refresh,
    Reextract,
    FillJson,
    Retention,
}

/// The handler of one kind of job.
pub(crate) struct JobHandler(pub(crate) Arc<Context>, pub(crate) Role);

impl Handler for JobHandler {
    fn run(&self, job: Job) -> BoxFuture<'_, Outcome> {
        Box::pin(async move { self.0.run(self.1, job.lease()).await })
    }
}

/// Why a piece of work was not done.
#[derive(Debug)]
pub(crate) enum JobError {
    Database(DbError),
    GitHub(GitHubError),
    /// Nothing of what was asked for came, and asking again does not help.
    Useless(String),
}

impl From<DbError> for JobError {
    fn from(error: DbError) -> Self {
        Self::Database(error)
    }
}

impl From<GitHubError> for JobError {
    fn from(error: GitHubError) -> Self {
        Self::GitHub(error)
    }
}

impl Context {
    pub(crate) async fn run(&self, role: Role, lease: &Lease) -> Outcome {
        let done = match role {
            Role::Poll => return self.poll(lease).await,
            Role::Push => self.process_push(lease).await,
            Role::Tagged => {
                self.pushes
                    .tagged(&lease.key, lease.payload == PRIVATE)
                    .await;
                Ok(Outcome::Done)
            }
            Role::New(record_kind) => self.enrich_new(record_kind, lease).await,
            Role::Refresh => self.refresh(lease).await,
            Role::Reextract => self.reextract(lease).await,
            Role::FillJson => self.fill_json(lease).await,
            Role::Retention => self.retain().await,
        };
        done.unwrap_or_else(|error| self.after(&error))
    }

    /// Re-extracts rows part by part, from where it was interrupted.
    async fn reextract(&self, lease: &Lease) -> Result<Outcome, JobError> {
        let Some(work) = Reextraction::named(&lease.key) else {
            return Err(unknown_rows());
        };
        let (store, live_for) = (&self.store, self.options.live_for);
        while !store.reextract_step(work, &self.queue, live_for).await? {}
        Ok(Outcome::Done)
    }

    /// Fills `jsonb` in part by part, from where it was interrupted.
    async fn fill_json(&self, lease: &Lease) -> Result<Outcome, JobError> {
        let Some(fill) = JsonFill::named(&lease.key) else {
            return Err(unknown_rows());
        };
        while !self.store.fill_json_step(fill).await? {}
        Ok(Outcome::Done)
    }

    /// The outcome of a job that failed: tried again soon, when a limit is over, or never.
    pub(crate) fn after(&self, error: &JobError) -> Outcome {
        let now = self.store.now_ms();
        match error {
            JobError::Database(error) if error.is_transient() => Outcome::Postponed {
                until_ms: now + DATABASE_AWAY_MS,
                reason: error.to_string(),
            },
            // Somebody else has the job.
            JobError::Database(DbError::Aborted) => Outcome::Finished,
            JobError::Database(error) => {
                tracing::warn!(?error, "events cannot be worked on");
                Outcome::Failed(Failure::transient(error.to_string()))
            }
            JobError::Useless(why) => Outcome::Failed(Failure::permanent(why)),
            JobError::GitHub(error) => {
                let reason = ErrorChain(error).to_string();
                match error.next_step() {
                    NextStep::Wait { until, counts } => {
                        let until_ms = self.moment(until);
                        if counts {
                            Outcome::Failed(Failure::rate_limited(until_ms, reason))
                        } else {
                            Outcome::Postponed { until_ms, reason }
                        }
                    }
                    NextStep::Retry => Outcome::Failed(Failure::transient(reason)),
                    NextStep::GiveUp => Outcome::Failed(Failure::permanent(reason)),
                }
            }
        }
    }

    /// The same moment by the clock of the database.
    pub(crate) fn moment(&self, until: SystemTime) -> i64 {
        let wait = until.duration_since(SystemTime::now()).unwrap_or_default();
        self.store.now_ms().saturating_add(millis(wait))
    }

    pub(crate) fn is_fresh(&self, fetched_at: i64) -> bool {
        let now = self.store.now_ms();
        // One that lies ahead was written before the clock was set back.
        (now.saturating_sub(millis(self.options.fresh_for))..=now).contains(&fetched_at)
    }
}

fn unknown_rows() -> JobError {
    JobError::Useless("nothing of that name is kept".to_owned())
}

#[cfg(test)]
mod tests;
