#![doc = include_str!("../README.md")]

mod connection;
mod dial;
mod document;
mod follow;
mod health;
mod intake;
mod memory;
mod message;
mod named_peers;
mod options;
mod participant_relays;
mod pause;
mod plan;
mod private_peers;
mod refusal;
mod refused_events;
mod refused_ids;
mod relay_permits;
mod relay_url;
mod replication;
mod service_identity;
mod session;
mod status;
mod targets;
#[cfg(test)]
mod testing;
mod threads;
mod worker;

pub use follow::{Follow, Parts};
pub use health::Backoff;
pub use options::Options;
pub use participant_relays::PlusOptions;
pub use private_peers::PrivatePeers;
pub use relay_url::{InvalidRelayUrl, RelayUrl};
pub use replication::{
    RefsError, RefsFuture, RemoteRefs, ReplicaKind, ReplicaReport, ReplicaStatus, ReplicationTotals,
};
pub use service_identity::{IdentityParts, ServiceIdentity};
pub use status::{FollowTotals, RelayHealth, RelayStatus};
