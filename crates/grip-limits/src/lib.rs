//! Per-host politeness: permits, sliding windows, breakers, advice, fair queues.
//!
//! Everything that leaves for a remote host asks here first. A [`Permit`] is the right to one
//! request; dropping it frees its slot on every path.
//!
//! Invariants:
//! - Asking and taking is one step, and asking never waits for capacity: who has to wait does so
//!   in [`Queues`], where waiting costs nothing.
//! - No host is asked more often than its [`Limits`] say in any window, nor while its breaker is
//!   shut, nor before the moment it named itself.
//! - Every map and every log has a bound.
//! - Nothing here sends a request, and the rules (`host`, `breaker`, `answer`) read no clock.

pub mod answer;
mod breaker;
mod host;
mod ledger;
mod memory;
mod options;
mod permit;
mod queues;
mod redis;
mod status;
mod throttle;

pub use self::redis::{Connected, RedisAway, RedisError, RedisOptions, Script, SharedRedis};
pub use answer::{Advice, Why};
pub use options::{BreakerOptions, Limits, Options};
pub use permit::{Permit, Reason, Refused, Verdict};
pub use queues::{Full, QueueBounds, Queues, Turn};
pub use status::{BackendStatus, BreakerState, Closed, ClosedWhy, HostStatus};
pub use throttle::{Lane, Throttle};
