#![doc = include_str!("../README.md")]

mod accept;
pub mod avatars;
pub mod backfill;
pub mod extract;
pub mod fields;
mod ingest;
mod jobs;
mod options;
mod poll;
mod retention;
mod status;
mod store;
#[cfg(test)]
mod testing;
pub mod wake;
pub mod webhook;

pub use accept::{Accepted, Arrival};
pub use extract::{Actor, Push};
pub use ingest::{Ingest, Parts, PushListener};
pub use options::{Keep, Options};
pub use retention::Retained;
pub use status::{Forecast, Progress, RejectedEvent, SourceStatus, Stats, Status};
pub use store::{EventCursor, EventQuery, Gap, Key, Stored, StoredEvent};
