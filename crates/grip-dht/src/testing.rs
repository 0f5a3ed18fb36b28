//! A network in memory whose members can be made slow, busy, silent or false.
//!
//! Distances, tables and answers are those of the real network; only the wire is left out. Time
//! is tokio's, so a paused clock works. Without a latency, answers come at once.

mod member;
mod network;

pub use member::Member;
pub use network::{Fault, Network};
