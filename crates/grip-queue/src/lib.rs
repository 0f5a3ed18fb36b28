#![doc = include_str!("../README.md")]

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
    causes::Cause,
    listing::{Filter, JobFacts, State},
    stats::KindStats,
};
pub use retry::Backoff;
pub use worker::{Handler, Job, Outcome, Worker, WorkerOptions, WorkerStatus};
