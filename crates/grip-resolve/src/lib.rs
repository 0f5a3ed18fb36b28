#![doc = include_str!("../README.md")]

mod admin;
mod cache;
mod counters;
mod error;
mod hedge_budget;
mod key;
mod local_manifests;
mod lookup;
pub mod manifest;
#[cfg(test)]
mod network_tests;
mod node_record;
mod off_runtime;
mod options;
mod provider_ranking;
mod providers_of_needs;
mod publisher;
mod record_validation;
mod resolver;
#[cfg(test)]
mod simulation;
mod single_flight;
#[cfg(test)]
mod testing;

pub use admin::{
    Action, Admin, AdminError, AuditEntry, Command, CommandContext, CommandResult, InvalidCommand,
    InvalidIdempotencyKey, Pin,
};
pub use counters::{Counters, Histogram, STEPS_MS};
pub use error::{BusyCause, ResolveError};
pub use grip_dht::{Reachability, Status as NetworkStatus};
pub use grip_limits::{BreakerOptions, BreakerState};
pub use hedge_budget::WINDOW as HEDGE_WINDOW;
pub use key::{InvalidKey, Key, node_record_key};
pub use local_manifests::{LocalError, LocalManifests, MAX_PINS};
pub use manifest::{InvalidManifest, Manifest, ManifestId};
pub use node_record::{InvalidNodeRecord, NodeKey, NodeRecord};
pub use options::{Options, Publish as PublishOptions};
pub use provider_ranking::{
    Candidate, HealthOf, HostHealth, NamedBy, Options as RankingOptions, Provider, rank,
};
pub use publisher::Status as PublisherStatus;
pub use resolver::{
    Identity, Parts, PipelineHealth, Ranked, ResolveParams, Resolved, Resolver, Source, Status,
};
