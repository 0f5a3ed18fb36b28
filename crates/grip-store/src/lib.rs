#![doc = include_str!("../README.md")]

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
