#![doc = include_str!("../README.md")]

mod download_budget;
mod engine;
mod fetch;
mod found_providers;
mod git;
mod meter;
mod next_step;
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
mod weights;

#[cfg(test)]
mod testing;

pub use download_budget::{DownloadBudget, DownloadLimits, Spent};
pub use fetch::{Fetch, FetchError, Fetched, Job};
pub use git::{Credentials, GitFetch, GitOptions};
pub use meter::Meter;
pub use options::{Backoff, Options, Random, UrlPause};
pub use sync::{Parts, Status, Sync};
