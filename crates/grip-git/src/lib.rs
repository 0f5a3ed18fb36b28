//! Bare repositories, pkt-line, refs and packs; the only crate that starts processes.
//!
//! Invariant: no pack is ever held in memory, and nothing here knows nostr or HTTP.

pub mod fetch;
pub mod gunzip;
pub mod pktline;
pub mod push;
pub mod report;
