#![doc = include_str!("../README.md")]

mod changes;
mod compaction;
mod error;
mod keys;
mod lookup;
pub mod nostr_lmdb;
mod query;
mod record;
mod requests;
mod store;
mod tables;
mod view;
mod write;

pub use compaction::{CompactError, Compacted};
pub use error::{OpenError, StoreError};
pub use query::{Limits, Match, Progress, Query};
pub use requests::{RequestCounts, Retention, Vanished};
pub use store::{EventStore, Options, Stats};
pub use view::{EventView, Item, ReadView, Stored};
pub use write::{Aged, Kept, Put, WriteView};
