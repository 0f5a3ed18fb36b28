//! Event store: served events on LMDB, their indexes, queries and deletions.
//!
//! An event is kept once, as the JSON that clients receive, behind a small binary head that answers
//! every filter. All indexes end in the same forty bytes, the event's position:
//! newest first, ties by lowest id. So every query is a forward scan, and several scans merge.
//!
//! Invariant: only what may be served is in here; events that wait for their data live elsewhere.
//! Invariant: nothing here reads a clock or verifies a signature; the caller has done both.
//! Invariant: a write is one synced commit or nothing, so a killed process loses no answered event.

mod error;
mod keys;
mod lookup;
mod query;
mod record;
mod store;
mod tables;
mod view;
mod write;

pub use error::{OpenError, StoreError};
pub use query::Limits;
pub use store::{EventStore, Options, Stats};
pub use view::{EventView, Item, ReadView, Stored};
pub use write::{Put, WriteView};
