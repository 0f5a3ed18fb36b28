//! From a name or a digest to a manifest that proves itself, and to who has it.
//!
//! Nodes find each other's repositories without knowing each other: what a node serves it tells
//! the network, and what it is asked for it looks up here, then there.
//!
//! Invariants:
//! - No answer is given that does not prove itself: a digest for `b3:` keys, signatures for names.
//! - Nothing runs past the deadline; what cannot be begun is refused at once.
//! - No queue, map, list or number of questions is without a bound, whatever strangers send.

mod admin;
mod breaker;
mod budget;
mod cache;
mod card;
mod counters;
mod error;
mod flight;
mod key;
pub mod manifest;
mod options;
mod publisher;
mod rank;
mod resolver;
mod seams;
mod shelf;
#[cfg(test)]
mod testing;
mod walk;

pub use admin::{Admin, AdminError, Audited, Command, Done, InvalidOrder, Order, Pin};
pub use breaker::{Options as BreakerOptions, PeerState};
pub use budget::WINDOW as HEDGE_WINDOW;
pub use card::{Card, InvalidCard, NodeKey};
pub use counters::{Counters, Histogram, STEPS_MS};
pub use error::ResolveError;
pub use flight::QUEUE;
pub use key::{InvalidKey, Key, node_record};
pub use manifest::{InvalidManifest, Manifest, ManifestId};
pub use options::{Options, Publish as PublishOptions};
pub use publisher::Status as PublisherStatus;
pub use rank::{Candidate, NamedBy, Options as RankOptions, Provider, rank};
pub use resolver::{
    Ask, Identity, Parts, PipelineHealth, Ranked, Resolved, Resolver, Source, Status,
};
pub use seams::{Changed, Health, HostHealth, LocalError, NoHealth, Repositories};
pub use shelf::{MAX_PINS, Shelf};
