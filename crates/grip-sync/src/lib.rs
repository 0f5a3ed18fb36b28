//! The search for missing git data on remote hosts.
//!
//! The sync asks a [`SyncContext`](grip_purgatory::SyncContext) which identifier is due and what
//! its events lack, asks the clone URLs of those events for it through a [`Fetch`], and tells the context after every
//! fetch that brought something, so that each event is released as soon as its own data is here.
//! [`GitFetch`] is the real way to fetch.
//!
//! Invariants:
//! - No request goes out without a permit of the throttle. A URL gets one request per attempt, and
//!   at most three more while its responses say how to ask it better.
//! - A URL is asked for the objects of those events alone that list it, and only wanted objects
//!   with what they link to are kept.
//! - At most one attempt per identifier is under way, and tasks are bounded in number. A host that
//!   hangs holds its own permits and nobody else's.
//! - An idle sync does nothing, however many identifiers wait.

mod engine;
mod fetch;
mod found_providers;
mod git;
mod options;
mod paused_attempts;
mod plan;
mod recent_attempts;
mod scheduler;
mod search;
mod search_memory;
mod sync;
mod task_permits;
mod url_pauses;

#[cfg(test)]
mod testing;

pub use fetch::{Fetch, FetchError, Fetched, Job};
pub use git::{GitFetch, GitOptions};
pub use options::{Backoff, Options, Random, UrlPause};
pub use sync::{Parts, Status, Sync};
