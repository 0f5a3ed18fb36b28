#![doc = include_str!("../README.md")]

mod admin;
mod api;
mod app;
mod body;
mod client;
mod cors;
mod error;
mod etag;
mod git;
mod go;
mod index_feed;
mod limits;
mod live;
mod metrics;
mod negotiation;
mod nip11;
mod pages;
mod private;
mod probes;
mod query;
mod readiness;
mod replica;
mod request_context;
mod request_id;
mod resolve;
mod respond;
mod restricted;
mod routes;
mod server;
mod settings;
mod sumdb;
mod sync;
#[cfg(test)]
mod testing;
mod watch;
mod webhook;
mod websocket;

use std::sync::Arc;

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use grip_git::Repositories;
use grip_grasp::Grasp;
use grip_index::{Index, proxy::Proxy};
use grip_queue::Queue;
use grip_relay::Relay;
use grip_store::EventStore;

pub use self::{
    admin::AdminToken,
    api::types as api_types,
    metrics::Build,
    readiness::Readiness,
    replica::{Freshness, Replica, serve_replica},
    resolve::Resolve,
    server::{serve, serve_to_the_end},
    settings::{NodeInfo, Private, Timeouts, WebLimits, WebSettings},
    sync::{
        Backend, FollowTotals, HostBudget, RelayHealth, RelayStatus, ReplicaKind, ReplicaReport,
        ReplicaStatus, ReplicationTotals, SyncHandle, SyncReport, SyncTotals, UrlAttempt,
    },
    watch::Watch,
};

/// All that the edge needs to serve a node.
#[derive(Clone)]
pub struct Web {
    pub grasp: Grasp,
    pub relay: Relay,
    pub repositories: Repositories,
    /// Read for the list of recent repositories.
    pub store: EventStore,
    /// Swapped whole on reload; a request keeps the set it began with.
    pub settings: Arc<ArcSwap<WebSettings>>,
    pub readiness: Readiness,
    /// The report of what is fetched from elsewhere.
    pub sync: SyncHandle,
    /// All that is due later.
    pub queue: Queue,
    /// The index of modules; none where it is switched off.
    pub index: Option<Arc<Index>>,
    /// Modules for the go command; none where that is switched off.
    pub proxy: Option<Proxy>,
    /// The pushes on GitHub; none where GitHub is not watched.
    pub watch: Option<Watch>,
    /// Finds manifests and providers; none where the resolver is disabled.
    pub resolve: Option<Resolve>,
    /// Opens what changes something by hand.
    pub admin: AdminToken,
    /// The configuration in force with its sources, secrets masked; swapped on reload.
    pub config: Arc<ArcSwap<serde_json::Value>>,
    pub build: Build,
    /// Says whether this node leads its cluster at this moment; none where it is alone.
    pub leads: Option<Arc<dyn Leads>>,
}

/// Whether a node leads.
pub trait Leads: Send + Sync {
    /// Says whether no other node can lead at this moment.
    fn holds(&self) -> bool;

    /// Waits until another node may; at once if it may.
    fn runs_out(&self) -> BoxFuture<'_, ()>;
}
