#![doc = include_str!("../README.md")]

mod connection;
mod dial;
mod document;
mod follow;
mod health;
mod intake;
mod kept;
mod memory;
mod message;
mod named_peers;
mod options;
mod pause;
mod plan;
mod plus;
mod private_peers;
mod refusal;
mod refused;
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
pub use plus::PlusOptions;
pub use private_peers::PrivatePeers;
pub use relay_url::{InvalidRelayUrl, RelayUrl};
pub use replication::{
    RefsError, RefsFuture, RemoteRefs, ReplicaKind, ReplicaReport, ReplicaStatus, ReplicationTotals,
};
pub use service_identity::{IdentityParts, ServiceIdentity};
pub use status::{FollowTotals, RelayHealth, RelayStatus};
