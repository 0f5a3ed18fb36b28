//! The kinds of jobs: listing a source, indexing a repository, taking leave of a source.
//!
//! Invariant: no job waits for a limit. It ends, keeps what it has learned, and is due again when
//! the limit is over.

mod index_repository;
mod leave_source;
mod list_source;
mod retry_spacing;
mod tag_list;
mod tag_reader;

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use grip_db::{DbError, Engine};
use grip_queue::{Failure, Job, NewJob, Outcome, Queue};

use self::retry_spacing::RetrySpacing;
pub(crate) use self::{
    index_repository::IndexRepository,
    leave_source::{LEAVE, LeaveSource},
    list_source::ListSource,
};
use crate::{
    LeftSources, Options, Source, SourceError,
    claim_rules::fingerprint,
    store::{Ending, SourceKinds, Store},
};

/// How soon work is tried again that the database was in the way of.
const DATABASE_AWAY_MS: i64 = 5_000;
/// How long no instance may have a source in its settings before it has left, in periods of
/// listing; a database that nobody else uses knows at once.
const LEFT_AFTER_PERIODS: u32 = 3;

/// Marks jobs for repositories that somebody has named, who need not be right: no listing has to
/// have shown them. It holds until the turn has ended well.
pub(crate) const PUSHED: &str = "pushed";

/// What all work shares.
pub(crate) struct Context {
    pub(crate) store: Store,
    pub(crate) queue: Queue,
    pub(crate) sources: Vec<Arc<dyn Source>>,
    pub(crate) options: Options,
    pub(crate) spacing: RetrySpacing,
}

/// Why a piece of work was not done.
#[derive(Debug)]
enum JobError {
    Database(DbError),
    Source(String, SourceError),
    /// Only an instance that has this source in its settings can do it.
    Elsewhere(String),
}

impl From<DbError> for JobError {
    fn from(error: DbError) -> Self {
        Self::Database(error)
    }
}

impl Context {
    pub(crate) fn new(
        store: Store,
        queue: Queue,
        sources: Vec<Arc<dyn Source>>,
        options: Options,
    ) -> Self {
        Self {
            spacing: RetrySpacing::new(options.spacing),
            store,
            queue,
            sources,
            options,
        }
    }

    pub(crate) fn source(&self, name: &str) -> Option<&Arc<dyn Source>> {
        self.sources.iter().find(|source| source.name() == name)
    }

    /// The kind of the jobs that list such sources.
    pub(crate) fn list_kind(&self, is_local: bool) -> String {
        self.kind("index-list", is_local)
    }

    /// The kind of the jobs that index repositories of such sources.
    pub(crate) fn repo_kind(&self, is_local: bool) -> String {
        if is_local {
            self.kind("index-hosted", true)
        } else {
            "index-repo".to_owned()
        }
    }

    /// What is on this node only this node can do.
    fn kind(&self, kind: &str, is_local: bool) -> String {
        match (is_local, self.store.db().node()) {
            (false, _) | (true, "") => kind.to_owned(),
            (true, node) => format!("{kind}@{node}"),
        }
    }

    pub(crate) fn list_job(&self, source: &dyn Source) -> NewJob {
        let period = self.options.re_indexing_period;
        let job = NewJob::new(self.list_kind(source.is_local()), source.name());
        job.every(period).needs(source.name())
    }

    pub(crate) fn repo_job(&self, source: &dyn Source, repo: &str) -> NewJob {
        self.repo_job_of(source.name(), source.is_local(), repo)
    }

    pub(crate) fn repo_job_of(&self, source: &str, is_local: bool, repo: &str) -> NewJob {
        let job = NewJob::new(self.repo_kind(is_local), repo);
        job.every(self.period(repo)).needs(source)
    }

    /// The kinds of the jobs of a source, which need not be in the settings any more.
    pub(crate) fn kinds_of(&self, source: &str) -> SourceKinds {
        let kinds = |list: &str, repo: &str| SourceKinds {
            list: list.to_owned(),
            repo: repo.to_owned(),
        };
        match source.split_once('@') {
            Some(("hosted", node)) => SourceKinds {
                list: format!("index-list@{node}"),
                repo: format!("index-hosted@{node}"),
            },
            _ if source == "hosted" => kinds("index-list", "index-hosted"),
            _ => kinds("index-list", "index-repo"),
        }
    }

    /// Says to all instances that this one has its sources in its settings, and asks for the
    /// leave of those that none has had for long, unless they are to be kept.
    pub(crate) async fn note_sources(&self) -> Result<(), DbError> {
        let names: Vec<String> = self.sources.iter().map(|it| it.name().to_owned()).collect();
        self.store.configured(names.clone()).await?;
        let action = match self.options.left_sources {
            LeftSources::Keep => return Ok(()),
            action => action,
        };
        let now = self.store.now_ms();
        let grace = match self.store.db().engine() {
            Engine::Sqlite => Duration::ZERO,
            Engine::Postgres => self.options.re_indexing_period * LEFT_AFTER_PERIODS,
        };
        let grace = i64::try_from(grace.as_millis()).unwrap_or(i64::MAX);
        let left = self.store.left_sources(now.saturating_sub(grace)).await?;
        let left = left.into_iter().filter(|source| !names.contains(source));
        let job = |source: String| NewJob::new(LEAVE, source).payload(action.name());
        let jobs: Vec<_> = left.map(job).collect();
        if !jobs.is_empty() {
            self.queue.enqueue(jobs).await?;
        }
        Ok(())
    }

    /// A little longer for some, so that those found together do not always come together.
    fn period(&self, repo: &str) -> Duration {
        let share = u32::try_from(fingerprint(repo) % 1_000).unwrap_or_default();
        self.options.re_indexing_period * (10_000 + share) / 10_000
    }

    fn ending(&self, job: &Job, wanted: NewJob) -> Ending {
        let period = wanted.period.map(|period| period.as_millis());
        let is_other = period != job.period_ms.map(|ms| u128::from(ms.unsigned_abs()));
        let due = self.store.now_ms() + i64::try_from(period.unwrap_or(0)).unwrap_or(0);
        Ending {
            queue: self.queue.clone(),
            lease: job.lease().clone(),
            again: is_other.then(|| wanted.due_ms(due)),
        }
    }

    /// The outcome of a job that failed.
    fn outcome(&self, job: &Job, error: JobError) -> Outcome {
        let now = self.store.now_ms();
        match error {
            JobError::Database(error) if error.is_transient() => Outcome::Postponed {
                until_ms: now + DATABASE_AWAY_MS,
                reason: error.to_string(),
            },
            // Somebody else has it, who does not care, or has asked for it: it is looked at again.
            JobError::Database(DbError::Aborted) => Outcome::Postponed {
                until_ms: now,
                reason: "it was asked for again before it was at its end".to_owned(),
            },
            JobError::Database(error) => {
                tracing::warn!(kind = %job.kind, key = %job.key, ?error, "the index cannot write");
                Outcome::Failed(Failure::transient(error.to_string()))
            }
            JobError::Elsewhere(source) => Outcome::HandedOver { capability: source },
            JobError::Source(source, error) => self.after(&source, error),
        }
    }

    fn after(&self, source: &str, error: SourceError) -> Outcome {
        match error {
            SourceError::Wait {
                until_ms,
                reason,
                counts: true,
            } => Outcome::Failed(Failure::rate_limited(
                self.spacing.retry_at(source, self.shared(until_ms)),
                reason,
            )),
            SourceError::Wait {
                until_ms, reason, ..
            } => Outcome::Postponed {
                until_ms: self.spacing.retry_at(source, self.shared(until_ms)),
                reason,
            },
            SourceError::Transient(reason) => Outcome::Failed(Failure::transient(reason)),
            SourceError::Denied(reason) => Outcome::Failed(Failure::next_period(reason)),
            SourceError::Permanent(reason) => Outcome::Failed(Failure::permanent(reason)),
        }
    }

    /// A moment by this host's clock, by the one that all instances share.
    fn shared(&self, until_ms: i64) -> i64 {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = i64::try_from(now.unwrap_or_default().as_millis()).unwrap_or(i64::MAX);
        let wait = until_ms.saturating_sub(now).max(0);
        self.store.now_ms().saturating_add(wait)
    }
}
