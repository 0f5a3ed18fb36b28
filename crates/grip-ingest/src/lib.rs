//! GitHub push events: polled, kept, enriched, without holes.
//!
//! Whatever brings events, a list that is read again and again, a webhook or a file, hands them to
//! one place ([`Ingest::accept`]). Each push becomes a row and a job in one transaction. The job
//! tells who waits for that repository ([`Pushes`]) and asks for the person and the repository
//! behind it, where they are not known or were asked for long ago.
//!
//! Invariants:
//! - The same push is one row, however often and by whichever way it comes: what a webhook and a
//!   list tell of one push is brought together if they tell it of moments within ten minutes.
//! - Nothing is dropped silently: what cannot be read is kept aside with the reason, and where
//!   something may have been missed there is a row that says so.
//! - No job waits for a limit: it ends, and is due again when the limit is over.
//! - What is new is asked for before what is only old.

mod accept;
pub mod avatars;
pub mod backfill;
pub mod extract;
pub mod fields;
mod gaps;
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
pub use gaps::Gap;
pub use ingest::{Ingest, Parts, Pushes};
pub use options::{Keep, Options};
pub use retention::Retained;
pub use status::{Forecast, Progress, RejectedEvent, SourceStatus, Stats, Status};
pub use store::{EventQuery, Key, Place, Stored, StoredEvent};
