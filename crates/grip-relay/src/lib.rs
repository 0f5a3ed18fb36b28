//! Relay engine over any message stream: sessions, subscriptions, fan-out, group commit.
//!
//! A [`Relay`] serves connections ([`Relay::serve`]) and knows neither sockets nor HTTP; its user
//! gives it a stream of [`Frame`]s and a [`WritePolicy`]. The way of an event:
//!
//! ```text
//! frame ─▶ read, checked (off the runtime) ─▶ deferred? ─yes─▶ policy.settle ─▶ OK
//!                                               └─no─▶ writer thread: policy.judge, one commit
//!                                                      for all who wait ─▶ subscribers ─▶ OK
//! ```
//!
//! Invariant: `OK true` is sent after the commit, live events too.
//! Invariant: every queue is bounded ([`Limits`]); nothing is dropped without a word.
//! Invariant: stored events reach clients as the bytes that lie in the store.

mod event;
mod frame;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod limits;
mod message;
mod policy;
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

pub use frame::{Frame, Peer};
pub use limits::{EventLimits, Limits, Rate, Rates};
pub use policy::{Answer, Verdict, WritePolicy, answer_to_put};
pub use relay::Relay;
pub use stats::{COMMIT_CLASSES, Counter, MESSAGE_TYPES, PREFIXES, Stats};
pub use writer::{WriteError, Writer};
