//! The report of sync: attempts, hosts and totals.

use std::{fmt, sync::Arc};

pub use grip_follow::{
    FollowTotals, RelayHealth, RelayStatus, ReplicaKind, ReplicaReport, ReplicaStatus,
    ReplicationTotals,
};
pub use grip_grasp::UrlAttempt;
use grip_limits::{BackendStatus, BreakerState, ClosedReason, HostStatus};
use grip_nostr::RepoAddr;
use grip_types::{Domain, Identifier};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Tells what is fetched, from whom and how it went. `gripfast` implements it over the real sync,
/// tests over made-up figures.
pub trait SyncReport: Send + Sync + 'static {
    fn totals(&self) -> SyncTotals;

    /// What was tried for `identifier`, newest first; bounded.
    fn tried(&self, identifier: &Identifier) -> Vec<UrlAttempt>;

    /// What was tried for anybody, newest first.
    fn recent(&self, limit: usize) -> Vec<UrlAttempt>;

    /// Every host that is remembered; bounded by the throttle.
    fn hosts(&self) -> Vec<HostBudget>;

    /// Who counts what hosts are asked.
    fn backend(&self) -> Backend;

    /// Every relay that is followed, by address; bounded by the follower.
    fn relays(&self) -> Vec<RelayStatus>;

    /// What came from them since the start.
    fn followed(&self) -> FollowTotals;

    /// Which listed servers have the effective state of a repository; bounded by the follower.
    fn replicas(&self, addr: &RepoAddr) -> Vec<ReplicaReport>;

    /// The same of all repositories, in numbers.
    fn replication(&self) -> ReplicationTotals;
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct SyncTotals {
    /// Identifiers whose data is being fetched at the moment.
    pub running: usize,
    /// Attempts for identifiers.
    pub attempts_total: u64,
    /// URLs asked.
    pub requests_total: u64,
    pub oids_fetched_total: u64,
    /// Of those that run, how many wait for a slow host.
    pub slow: usize,
    /// Bytes received from other hosts.
    pub received_bytes_total: u64,
    /// Of what may be downloaded in an hour, the bytes in use, and all of them.
    pub download_used_bytes: u64,
    pub download_limit_bytes: u64,
    /// Hosts that left the list for others, and are still to be left alone.
    pub departed_hosts: usize,
}

/// What a host may be asked, and how much of that is used.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub struct HostBudget {
    pub domain: Domain,
    pub in_flight: u32,
    pub in_flight_limit: u32,
    /// Requests begun within the window that ends now.
    pub started: u32,
    pub window_limit: u32,
    pub breaker: BreakerState,
    /// How long the host is left alone, and why.
    pub closed_ms: Option<u64>,
    pub closed_why: Option<String>,
    pub requests_total: u64,
    pub failures_total: u64,
}

impl From<HostStatus> for HostBudget {
    fn from(host: HostStatus) -> Self {
        Self {
            in_flight: host.in_flight,
            in_flight_limit: host.in_flight_limit,
            started: host.started,
            window_limit: host.window_limit,
            breaker: host.breaker,
            closed_ms: host.closed.map(|closed| closed.for_ms),
            closed_why: host.closed.map(|closed| in_words(closed.why).to_owned()),
            requests_total: host.requests_total,
            failures_total: host.failures_total,
            domain: host.domain,
        }
    }
}

fn in_words(why: ClosedReason) -> &'static str {
    match why {
        ClosedReason::Window => "asked enough for now",
        ClosedReason::Breaker => "failing",
        ClosedReason::RetryAfter => "asks us to wait",
        ClosedReason::RateLimit => "its rate limit is used up",
        ClosedReason::Unspecified => "refuses by rate limit",
        _ => "left alone",
    }
}

/// Where limits are counted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(tag = "backend", rename_all = "lowercase")]
pub enum Backend {
    /// In this process alone.
    Memory,
    /// Together with other instances.
    Redis,
    /// Redis cannot be reached: a share of the limits, counted here.
    Fallback {
        /// Since when it cannot be reached, in unix milliseconds.
        since: i64,
        percent: u32,
        reason: String,
    },
}

impl From<BackendStatus> for Backend {
    fn from(status: BackendStatus) -> Self {
        match status {
            BackendStatus::Redis { .. } => Self::Redis,
            BackendStatus::Fallback {
                since,
                percent,
                reason,
            } => Self::Fallback {
                since: since.as_millisecond(),
                percent,
                reason,
            },
            _ => Self::Memory,
        }
    }
}

impl Backend {
    pub(crate) const LABELS: [&'static str; 3] = ["memory", "redis", "fallback"];

    pub(crate) fn label(&self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Redis => "redis",
            Self::Fallback { .. } => "fallback",
        }
    }

    /// A warning for the operator where it is not as configured.
    pub(crate) fn warning(&self) -> Option<String> {
        match self {
            Self::Memory | Self::Redis => None,
            Self::Fallback {
                percent, reason, ..
            } => Some(format!(
                "Redis cannot be reached ({reason}): until it can, this instance uses {percent} % of \
                 each host's limits. Start Redis, or correct redis_url"
            )),
        }
    }
}

/// The report, shared; none where sync is switched off.
#[derive(Clone, Default)]
pub struct SyncHandle(Option<Arc<dyn SyncReport>>);

impl SyncHandle {
    pub fn new(report: impl SyncReport) -> Self {
        Self(Some(Arc::new(report)))
    }

    /// A node that fetches nothing.
    pub fn off() -> Self {
        Self(None)
    }

    pub(crate) fn get(&self) -> Option<&dyn SyncReport> {
        self.0.as_deref()
    }

    pub(crate) fn tried(&self, identifier: &Identifier) -> Vec<UrlAttempt> {
        self.get().map(|r| r.tried(identifier)).unwrap_or_default()
    }

    /// The hosts that matter most at the moment first: those with requests under way, then those
    /// that were asked most.
    pub(crate) fn hosts(&self) -> Vec<HostBudget> {
        let mut hosts = self.get().map(|r| r.hosts()).unwrap_or_default();
        hosts.sort_by(|a, b| {
            let weight = |h: &HostBudget| (h.in_flight, h.started, h.requests_total);
            weight(b)
                .cmp(&weight(a))
                .then_with(|| a.domain.cmp(&b.domain))
        });
        hosts
    }

    pub(crate) fn replicas(&self, addr: &RepoAddr) -> Vec<ReplicaReport> {
        self.get().map(|r| r.replicas(addr)).unwrap_or_default()
    }

    /// The relays that need attention first: those that are not healthy.
    pub(crate) fn relays(&self) -> Vec<RelayStatus> {
        let mut relays = self.get().map(|r| r.relays()).unwrap_or_default();
        relays.sort_by_key(|relay| {
            let is_healthy = relay.health == RelayHealth::Healthy;
            (
                is_healthy,
                std::cmp::Reverse(relay.repositories),
                relay.relay.clone(),
            )
        });
        relays
    }

    pub(crate) fn backend(&self) -> Option<Backend> {
        self.get().map(|r| r.backend())
    }
}

impl fmt::Debug for SyncHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SyncHandle")
            .field(&self.0.is_some())
            .finish()
    }
}
