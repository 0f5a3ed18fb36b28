//! Leased work: enqueue, claim, renew, finish, fail; the worker loop.
//!
//! One table holds what is to be done, named by `(kind, key)`: asking twice is one job. Whoever
//! claims a job holds a [`Lease`]; when that runs out, for whatever reason, somebody else may
//! claim it. Any number of processes share the work without a leader.
//!
//! Invariants:
//! - A lease is ended only by who knows its token: with an old one nothing changes, and the caller
//!   is told.
//! - All times are those of the database's clock; no instance compares them with its own.
//! - A job asked for while it is worked on runs once more: no request is lost.
//! - A [`Worker`] stops work on a job before its lease can end, so that no two work on it.
//! - A job never vanishes with a failure: it is tried again, or kept with its reason.
//!
//! Bounds: kinds of 128 bytes, keys of 1,024 bytes, payloads of 64 KiB, reasons of 1,000
//! characters, due times of a day ahead or a period. A kind takes no new jobs while it has more
//! than [`MOST_JOBS`]; jobs that failed for good are forgotten after [`KEEP_DEAD`].
//!
//! Nothing here knows what the work is.

mod clock;
mod job;
mod lease;
mod queue;
mod reason;
mod retry;
mod sql;
mod worker;

pub use clock::LONGEST_LEASE;
pub use job::{BadJob, NewJob};
pub use lease::{Class, Failed, Failure, Finished, Lease};
pub use queue::{
    KEEP_DEAD, MOST_JOBS, Queue,
    listing::{Filter, JobFacts, State},
    stats::KindStats,
};
pub use retry::Backoff;
pub use worker::{Handler, Job, Outcome, Worker, WorkerOptions, WorkerStatus};
