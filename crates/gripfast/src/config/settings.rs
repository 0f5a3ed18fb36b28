//! The settings the program runs with: typed, whole, valid.

use std::{fmt, net::SocketAddr, path::PathBuf, time::Duration};

use grip_github::EventSource;
use grip_ingest::Keep;
use grip_nostr::MaintainerRule;
use grip_types::{Domain, Service};
use ipnet::IpNet;
use nostr::prelude::PublicKey;
use url::Url;

use super::{github::Owner, parse::HostLimit};

/// What the node runs with.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) service: Service,
    /// Nobody named the service: it is called by the address it listens on.
    pub(crate) service_is_address: bool,
    /// Other names of ours.
    pub(crate) aliases: Vec<Service>,
    pub(crate) bind_address: SocketAddr,
    pub(crate) trusted_proxies: Vec<IpNet>,
    /// Nothing is kept: what must be on disk lies in a directory that goes with the run.
    pub(crate) amnesia: bool,
    pub(crate) data_dir: PathBuf,
    pub(crate) git_data_path: PathBuf,
    pub(crate) relay_data_path: PathBuf,
    pub(crate) event_map_bytes: u64,
    pub(crate) git_program: PathBuf,
    pub(crate) relay_name: String,
    pub(crate) relay_description: String,
    pub(crate) relay_contact: Option<String>,
    pub(crate) relay_icon: Option<String>,
    /// The operator's public key, shown in NIP-11.
    pub(crate) owner: Option<PublicKey>,
    pub(crate) maintainer_rule: MaintainerRule,
    /// Comma-separated, as the policy reads it; empty = none.
    pub(crate) repository_whitelist: String,
    pub(crate) repository_blacklist: String,
    pub(crate) event_blacklist: String,
    pub(crate) limits: Limits,
    pub(crate) purgatory: PurgatoryLimits,
    pub(crate) timeouts: Timeouts,
    pub(crate) sync: Sync,
    pub(crate) database: Database,
    /// Every GitHub that is asked, once.
    pub(crate) github: Vec<GithubHost>,
    pub(crate) index: Index,
    /// None: nothing on GitHub is watched.
    pub(crate) watch: Option<Watch>,
    pub(crate) resolve: Resolve,
    pub(crate) log_level: String,
    pub(crate) log_format: LogFormat,
    pub(crate) metrics_enabled: bool,
}

/// How much is taken on.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) pack_bytes: u64,
    pub(crate) connections: usize,
    pub(crate) connections_per_ip: usize,
    pub(crate) pushes: usize,
    pub(crate) fetches: usize,
    /// 0 = no limit, as for the other two rates.
    pub(crate) http_requests_per_second: u32,
    pub(crate) events_per_second: u32,
    pub(crate) queries_per_second: u32,
    pub(crate) message_bytes: usize,
    pub(crate) subscriptions: usize,
    pub(crate) filter_limit: usize,
}

/// How much may wait for git data, and how long.
#[derive(Clone, Debug)]
pub(crate) struct PurgatoryLimits {
    pub(crate) lifetime: Duration,
    pub(crate) orphan_ref_lifetime: Duration,
    pub(crate) sweep_interval: Duration,
    pub(crate) entries: usize,
    pub(crate) bytes: usize,
    pub(crate) per_author: usize,
    pub(crate) per_identifier: usize,
}

/// How long is waited.
#[derive(Clone, Debug)]
pub(crate) struct Timeouts {
    pub(crate) drain: Duration,
    pub(crate) stall: Duration,
    pub(crate) idle: Duration,
    pub(crate) header: Duration,
}

/// How missing git data is fetched, and how politely.
#[derive(Clone, Debug)]
pub(crate) struct Sync {
    pub(crate) enabled: bool,
    pub(crate) concurrent: u32,
    pub(crate) per_minute: u32,
    /// Hosts with limits of their own.
    pub(crate) host_limits: Vec<HostLimit>,
    pub(crate) submitted_delay: Duration,
    pub(crate) synced_delay: Duration,
    pub(crate) loop_interval: Duration,
    pub(crate) tasks: usize,
    pub(crate) pack_bytes: u64,
    pub(crate) min_free_bytes: u64,
    pub(crate) connect: Duration,
    pub(crate) idle: Duration,
    pub(crate) total: Duration,
    pub(crate) schemes: Vec<String>,
    pub(crate) allow_non_global: bool,
    pub(crate) wanted: Wanted,
    /// Where several instances count together.
    pub(crate) redis_url: Option<String>,
    pub(crate) redis_fallback_percent: u32,
}

/// What is looked for after it expired.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) max: usize,
    pub(crate) lifetime: Duration,
    pub(crate) interval: Duration,
}

/// Where SQL state is kept.
#[derive(Clone, Debug)]
pub(crate) struct Database {
    pub(crate) place: DatabasePlace,
    /// Of a server, at most.
    pub(crate) connections: u32,
    /// None: the one that the data directory keeps.
    pub(crate) node_name: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DatabasePlace {
    File(PathBuf),
    /// The URL of a Postgres.
    Server(Secret),
}

/// What is indexed, and how it is served.
#[derive(Clone, Debug)]
pub(crate) struct Index {
    pub(crate) enabled: bool,
    pub(crate) modules: Vec<ModuleOwner>,
    pub(crate) re_indexing_period: Duration,
    pub(crate) indexing_ttl: Duration,
    pub(crate) items_to_take: usize,
    pub(crate) workers: usize,
    /// None: modules are not served to the go command.
    pub(crate) go_proxy: Option<GoProxy>,
}

/// What is watched on GitHub, and what is kept of it.
#[derive(Clone, Debug)]
pub(crate) struct Watch {
    /// One of the GitHubs that are asked.
    pub(crate) host: Service,
    /// The lists that are read again and again.
    pub(crate) sources: Vec<EventSource>,
    /// Those that webhooks may be signed with; none: no webhook is taken.
    pub(crate) secrets: Vec<Secret>,
    pub(crate) poll_every: Duration,
    pub(crate) enrich: bool,
    pub(crate) fresh_for: Duration,
    pub(crate) refresh_reserve_percent: u32,
    pub(crate) keep: Keep,
    /// Where pictures of people are kept; none: they are not.
    pub(crate) avatars: Option<String>,
}

/// How names are resolved, and how others find what is here.
#[derive(Clone, Debug)]
pub(crate) struct Resolve {
    /// None: only what is here is found.
    pub(crate) network: Option<Network>,
    pub(crate) alpha: usize,
    pub(crate) beta: usize,
    pub(crate) hedge: Duration,
    pub(crate) deadline: Duration,
    pub(crate) workers: usize,
    pub(crate) cache_bytes: u64,
    /// Empty: it does not matter.
    pub(crate) region: String,
    pub(crate) deny: Vec<Domain>,
}

/// How this node takes part in the network of nodes.
#[derive(Clone, Debug)]
pub(crate) struct Network {
    pub(crate) listen: Vec<String>,
    pub(crate) external: Vec<String>,
    pub(crate) bootstrap: Vec<String>,
    pub(crate) lan_only: bool,
}

/// A GitHub that is asked.
#[derive(Clone, Debug)]
pub(crate) struct GithubHost {
    pub(crate) service: Service,
    /// With a slash at the end.
    pub(crate) api: Url,
    /// Whose repositories are indexed.
    pub(crate) owners: Vec<Owner>,
    pub(crate) tokens: Vec<Secret>,
}

/// Whose repositories may claim a module path that is not their place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ModuleOwner {
    /// The path itself and all below it; without a slash at the end.
    pub(crate) prefix: String,
    pub(crate) owner: PublicKey,
}

/// How modules are served to the go command.
#[derive(Clone, Debug)]
pub(crate) struct GoProxy {
    pub(crate) zip_bytes: u64,
    /// Zips at once.
    pub(crate) zips: usize,
}

/// A text that no log line and no debug output shows.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFormat {
    Text,
    Json,
}
