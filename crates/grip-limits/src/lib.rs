#![doc = include_str!("../README.md")]

mod breaker;
mod hosts;
pub mod ledger;
mod networks;
mod notifier;
mod options;
mod permit;
mod queues;
mod redis;
pub mod response;
mod status;
mod throttle;

pub use self::redis::{RedisError, RedisOptions, SharedRedis};
pub use breaker::{BreakerOptions, BreakerState, Breakers, KeyedBreakers};
pub use hosts::Hosts;
pub use ledger::{Accounts, Ledger, LocalLedger, Mode, ScriptCall, SharedAccounts};
pub use networks::{NetworkOutcome, Networks};
pub use options::{Limits, Options};
pub use permit::Permit;
pub use queues::{Full, QueueBounds, Queues, Turn};
pub use response::{Advice, Why};
pub use status::{BackendStatus, ClosedReason, HostClosed, HostHistory, HostStatus};
pub use throttle::{Lane, Reason, Refused, Throttle, Verdict};
