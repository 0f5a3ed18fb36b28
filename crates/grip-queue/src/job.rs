//! Jobs as they are enqueued, and their bounds.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use grip_db::DbError;

use crate::clock::{latest_due, millis};

/// Longest kind in bytes: it is also the name of a topic.
const KIND_BYTES: usize = 128;
/// Longest key in bytes: it has to fit into an index.
const KEY_BYTES: usize = 1_024;
const PAYLOAD_BYTES: usize = 64 << 10;

/// A job to be done.
///
/// A job of the same kind and key that waits already is brought forward, never put off, and gets
/// this payload. One that is being worked on runs once more afterwards. One that waits out a
/// failure keeps its time, and one that failed for good stays as it is, unless `revive` is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    pub kind: String,
    pub key: String,
    pub payload: String,
    /// When it is due by the clock of the database, a day or a period ahead at most; None: now.
    pub due_ms: Option<i64>,
    /// Done again and again, so long after each success. None leaves that of a job that is there.
    pub period: Option<Duration>,
    /// Starts over where the job failed before, even for good.
    pub revive: bool,
    /// What one has to be able to do it, such as a source that is configured; empty: nothing. Only
    /// workers that name what they can do look at it.
    pub capability: String,
}

/// Why a job cannot be taken in.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BadJob {
    #[error("the {what} of a job may have at most {most} bytes, and this one has {bytes}")]
    TooLong {
        what: &'static str,
        bytes: usize,
        most: usize,
    },
    #[error("the {what} of a job may not be empty")]
    Empty { what: &'static str },
    #[error("the {what} of a job may not hold a NUL character")]
    Nul { what: &'static str },
    #[error(
        "the queue {kind} has more than {most} jobs and takes no new ones: see why they are not done"
    )]
    Full { kind: String, most: i64 },
}

impl From<BadJob> for DbError {
    /// So that it can be told from inside a transaction.
    fn from(bad: BadJob) -> Self {
        Self::Other(Arc::new(sqlx::Error::InvalidArgument(bad.to_string())))
    }
}

impl NewJob {
    pub fn new(kind: impl Into<String>, key: impl Into<String>) -> Self {
        Self {
            kind: kind.into(),
            key: key.into(),
            payload: String::new(),
            due_ms: None,
            period: None,
            revive: false,
            capability: String::new(),
        }
    }

    pub fn payload(self, payload: impl Into<String>) -> Self {
        let payload = payload.into();
        Self { payload, ..self }
    }

    pub fn due_ms(self, due_ms: i64) -> Self {
        let due_ms = Some(due_ms);
        Self { due_ms, ..self }
    }

    pub fn every(self, period: Duration) -> Self {
        let period = Some(period);
        Self { period, ..self }
    }

    pub fn needs(self, capability: impl Into<String>) -> Self {
        let capability = capability.into();
        Self { capability, ..self }
    }

    pub fn revive(self) -> Self {
        let revive = true;
        Self { revive, ..self }
    }

    /// Whether it keeps the bounds.
    pub fn check(&self) -> Result<(), BadJob> {
        within("kind", &self.kind, 1, KIND_BYTES)?;
        within("key", &self.key, 1, KEY_BYTES)?;
        within("capability", &self.capability, 0, KEY_BYTES)?;
        within("payload", &self.payload, 0, PAYLOAD_BYTES)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.kind.len() + self.key.len() + self.payload.len() + self.capability.len()
    }

    pub(crate) fn period_ms(&self) -> Option<i64> {
        self.period.map(|period| millis(period).max(1))
    }

    /// When it is due, no further ahead than a job may lie, and not before 1970.
    pub(crate) fn due(&self, now_ms: i64) -> i64 {
        let due = self.due_ms.unwrap_or(now_ms);
        due.min(latest_due(now_ms, self.period_ms())).max(0)
    }

    /// The same job asked for twice.
    fn merge(&mut self, later: Self) {
        self.due_ms = match (self.due_ms, later.due_ms) {
            (Some(a), Some(b)) => Some(a.min(b)),
            _ => None,
        };
        self.payload = later.payload;
        self.capability = later.capability;
        self.period = later.period.or(self.period);
        self.revive |= later.revive;
    }
}

fn within(what: &'static str, text: &str, least: usize, most: usize) -> Result<(), BadJob> {
    let bytes = text.len();
    if bytes < least {
        return Err(BadJob::Empty { what });
    }
    if bytes > most {
        return Err(BadJob::TooLong { what, bytes, most });
    }
    if text.contains('\0') {
        return Err(BadJob::Nul { what });
    }
    Ok(())
}

/// Checks the jobs and brings them into one order, each of them once: all who enqueue take their
/// rows in the same order, so that they never wait for each other in a circle.
pub(crate) fn sorted(jobs: Vec<NewJob>) -> Result<Vec<NewJob>, BadJob> {
    let mut found = BTreeMap::<(String, String), NewJob>::new();
    for job in jobs {
        job.check()?;
        let name = (job.kind.clone(), job.key.clone());
        match found.get_mut(&name) {
            Some(known) => known.merge(job),
            None => drop(found.insert(name, job)),
        }
    }
    Ok(found.into_values().collect())
}
