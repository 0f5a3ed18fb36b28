#![doc = include_str!("../README.md")]

mod access;
mod admit;
mod event;
mod frame;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod in_flight;
mod limits;
mod message;
mod policy;
mod quota;
mod rate_limits;
mod reconcile;
mod relay;
mod reply;
mod send_queue;
mod session;
mod stats;
mod subscriptions;
mod thread_pool;
mod writer;

pub use access::{Access, Members};
pub use admit::Admission;
pub use frame::{Frame, Peer};
pub use limits::{
    EVENT_FRAME_BYTES, EventLimits, HourlyBytes, Limits, Rate, Rates, SUBSCRIPTIONS_TOO_LARGE,
};
pub use policy::{Answer, Share, Verdict, WritePolicy, answer_to_put};
pub use relay::Relay;
pub use stats::{COMMIT_CLASSES, Counter, MESSAGE_TYPES, PREFIXES, Stats};
pub use writer::{Change, CommitLog, WriteError, Writer};
