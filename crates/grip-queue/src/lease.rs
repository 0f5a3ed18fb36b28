//! The right to work on a job for a while.

use tokio::time::Instant;

use crate::reason::cleaned;

/// The right to work on one job until it ends; the facts of the job come with it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    pub id: i64,
    /// Fits this lease and no other of the job.
    pub token: i64,
    pub kind: String,
    pub key: String,
    pub payload: String,
    /// Failures in a row before this claim.
    pub attempts: i64,
    /// Those of them for a rate limit are counted apart.
    pub limited: i64,
    /// Leases in a row that ran out before the job was ended.
    pub lost: i64,
    /// How often the job was asked for again before this claim: grows, and never goes back.
    pub asked: i64,
    pub period_ms: Option<i64>,
    /// By the clock of the database.
    pub ends_ms: i64,
    /// By our own clock, counted from before the claim was sent: never after the true end.
    pub ends: Instant,
}

/// What a finish has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Finished {
    /// The job is gone, or waits for its next period.
    Done,
    /// It was asked for while it was worked on, and is due again.
    Again,
    /// The lease was not ours any more: nothing was changed.
    Lost,
}

/// What a failure has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failed {
    Later {
        at_ms: i64,
    },
    /// It is kept with its reason until somebody asks for it again.
    Dead,
    /// The lease was not ours any more: nothing was changed.
    Lost,
}

/// Why a job was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub class: Class,
    pub reason: String,
}

/// What follows from a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Tried again after a while that grows, five times in all.
    Transient,
    /// Tried again when the limit is over, however often that is.
    RateLimited { until_ms: i64 },
    /// Tried again with the next period, because what is in the way may pass by then. Without a
    /// period, not tried again.
    NextPeriod,
    /// Not tried again.
    Permanent,
}

impl Failure {
    pub fn transient(reason: impl AsRef<str>) -> Self {
        Self::new(Class::Transient, reason.as_ref())
    }

    pub fn rate_limited(until_ms: i64, reason: impl AsRef<str>) -> Self {
        Self::new(Class::RateLimited { until_ms }, reason.as_ref())
    }

    pub fn next_period(reason: impl AsRef<str>) -> Self {
        Self::new(Class::NextPeriod, reason.as_ref())
    }

    pub fn permanent(reason: impl AsRef<str>) -> Self {
        Self::new(Class::Permanent, reason.as_ref())
    }

    fn new(class: Class, reason: &str) -> Self {
        let reason = cleaned(reason);
        Self { class, reason }
    }
}
