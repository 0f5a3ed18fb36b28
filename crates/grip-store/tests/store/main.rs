//! The store through its public face.
#![expect(clippy::unwrap_used, reason = "a test fails where it stands")]

mod compaction;
mod deletion;
mod durability;
mod events;
mod expiry;
mod history;
mod model;
mod query;
mod replace;
mod replica;
mod requests;
mod support;
