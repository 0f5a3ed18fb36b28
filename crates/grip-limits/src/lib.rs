//! Limits: keyed permits, circuit breakers, ledgers in memory and in Redis, fair queues.
//!
//! All that leaves for a remote host asks the [`Throttle`] first. A [`Permit`] is the right to one
//! request; dropping it frees its slot on every path.
//!
//! Invariants:
//! - Asking and taking is one step, and asking never waits for capacity: waiting is done in
//!   [`Queues`], where it costs nothing.
//! - No host is asked more often than its [`Limits`] say in any window, nor while its breaker is
//!   open, nor before the moment it named itself.
//! - Every map and every log has a bound.
//! - Nothing here sends a request, and the rules (`hosts`, `breaker`, `response`) read no clock.

mod breaker;
mod hosts;
pub mod ledger;
mod notifier;
mod options;
mod queues;
mod redis;
pub mod response;
mod status;
mod throttle;

pub use self::redis::{RedisError, RedisOptions, SharedRedis};
pub use breaker::{BreakerOptions, BreakerState, Breakers, KeyedBreakers};
pub use hosts::Hosts;
pub use ledger::{Accounts, Ledger, LocalLedger, Mode, Permit, ScriptCall, SharedAccounts};
pub use options::{Limits, Options};
pub use queues::{Full, QueueBounds, Queues, Turn};
pub use response::{Advice, Why};
pub use status::{BackendStatus, ClosedReason, HostClosed, HostStatus};
pub use throttle::{Lane, Reason, Refused, Throttle, Verdict};
