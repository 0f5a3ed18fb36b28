//! Settings of the edge that a reload may change.

use std::time::Duration;

use grip_relay::Access;
use grip_types::{NetworkPrefixes, Service};
use ipnet::IpNet;
use nostr::prelude::PublicKey;

use crate::admin::AdminToken;

/// One consistent set of settings; a reload swaps the whole of it.
#[derive(Clone, Debug)]
pub struct WebSettings {
    /// Our own origin.
    pub service: Service,
    pub node: NodeInfo,
    pub limits: WebLimits,
    pub timeouts: Timeouts,
    /// Who may tell us another client address by `X-Forwarded-For`. Peers in these ranges are
    /// not counted per address themselves, since many clients stand behind them, unless that
    /// header is there and names nobody. Default: loopback.
    pub trusted_proxies: Vec<IpNet>,
    /// Whether `/metrics` answers. Default: yes.
    pub metrics: bool,
    /// Set where only members are served (GRASP-08). Default: none, everybody is.
    pub private: Option<Private>,
    /// Tokens that open the restricted repositories of the index. Default: none, only the operator
    /// sees them, and on a private service its members.
    pub index_readers: Vec<AdminToken>,
}

/// The access of a private service.
#[derive(Clone, Debug)]
pub struct Private {
    /// Scheme, host and port that proofs are made for; what a request says of its host does not
    /// count (G08-8).
    pub origin: String,
    pub access: Access,
}

impl WebSettings {
    pub fn new(service: Service) -> Self {
        Self {
            service,
            node: NodeInfo::default(),
            limits: WebLimits::default(),
            timeouts: Timeouts::default(),
            trusted_proxies: loopback(),
            metrics: true,
            private: None,
            index_readers: Vec::new(),
        }
    }
}

/// 127.0.0.0/8 and ::1: a proxy on the same machine.
fn loopback() -> Vec<IpNet> {
    ["127.0.0.0/8", "::1/128"]
        .iter()
        .map(|net| net.parse().expect("the literal is a network"))
        .collect()
}

/// Defines a struct together with its defaults.
macro_rules! with_defaults {
    ($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty = $default:expr,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($field: $default,)* }
            }
        }
    };
}

with_defaults! {
    /// The description of the node in NIP-11 and on its pages.
    NodeInfo {
        name: String = "gripfast".into(),
        description: String = "A git server with a nostr relay in it".into(),
        contact: Option<String> = None,
        /// A URL of an image; without one our own icon is named.
        icon: Option<String> = None,
        /// The operator's key.
        owner: Option<PublicKey> = None,
        /// The node's own key, if it signs events.
        own_key: Option<PublicKey> = None,
        /// The numbers of the GRASP documents that are active.
        grasps: Vec<u8> = vec![1],
        repo_acceptance_criteria: String = "None: any announcement that lists this service in \
                                            clone and relays is accepted".into(),
        /// Set only where events are curated beyond spam.
        curation: Option<String> = None,
        /// Requests to delete and to vanish do nothing here (G01-121).
        ignores_deletions: bool = false,
    }
}

with_defaults! {
    /// How much is taken on at once. Beyond a bound the answer is 429, at once. Of what is under
    /// way, one network of clients has a quarter at most, and no more than half of what is free; of
    /// WebSockets, as many as it may have connections. Of fetches and pushes, one repository has
    /// half at most.
    WebLimits {
        /// Open connections in all.
        connections: usize = 4096,
        /// Which client addresses count as one: an IPv4 address, an IPv6 /56.
        networks: NetworkPrefixes = NetworkPrefixes::default(),
        /// Open connections (and WebSockets behind a proxy) per network of clients.
        connections_per_ip: usize = 256,
        /// Requests a second that one client address may make for long.
        requests_per_second: u32 = 100,
        /// Requests that one client address may make in one go.
        request_burst: u32 = 1000,
        /// Ref listings under way.
        advertise: usize = 256,
        /// Fetches under way, a git process each.
        fetch: usize = 64,
        /// Pushes under way, a git process each.
        push: usize = 64,
        /// Open WebSockets.
        websocket: usize = 4096,
        /// API requests under way.
        api: usize = 64,
        /// Pages under way.
        page: usize = 128,
        /// Pages of the module feed under way.
        feed: usize = 64,
        /// Questions of the go command under way.
        module: usize = 128,
        /// Module zips under way, most of which wait for their turn.
        zip: usize = 64,
        /// Deliveries of webhooks under way.
        webhook: usize = 32,
        /// Names and digests being resolved.
        resolve: usize = 256,
        /// Files of repositories on their way out, each in memory: 16 MiB at most.
        raw: usize = 16,
        /// Pages with differences under way.
        diff: usize = 16,
        /// Histories of single paths under way, a git process each.
        history: usize = 8,
        /// Blame pages under way, a git process each.
        blame: usize = 4,
        /// Searches in files under way, a git process each.
        grep: usize = 4,
        /// Archives under way, a git process each.
        archive: usize = 4,
        /// Streams of live parts of pages that are open.
        live: usize = 512,
        /// How much of a push that finds no permit is read, so that its client sees the reason.
        drain_bytes: u64 = 64 << 20,
    }
}

/// How long we may wait for a client in all before its average counts: links take a moment.
pub(crate) const TRANSFER_GRACE: Duration = Duration::from_secs(30);

with_defaults! {
    /// How long a client may keep us waiting.
    Timeouts {
        /// From the first byte of a request to the end of its headers.
        header: Duration = Duration::from_secs(10),
        /// Between two requests of a connection.
        idle: Duration = Duration::from_secs(60),
        /// For each KiB of a request body, and for reading a push that found no permit.
        body_stall: Duration = Duration::from_secs(60),
        /// Without the client taking a byte of an answer; over HTTP/2, where each answer has a
        /// window of its own, for each 16 KiB of it.
        write_stall: Duration = Duration::from_secs(60),
        /// For a push in all, and for an answer from its head on.
        transfer: Duration = Duration::from_secs(2 * 60 * 60),
        /// The least that a client sends of a push or takes of an answer in a second on average, not
        /// counting the time it waits for us; 0 for no such limit.
        transfer_bytes_per_second: u64 = 1 << 10,
        /// For a page or an API answer in all.
        answer: Duration = Duration::from_secs(5),
        /// For an answer to the go command, up to the first byte of a zip.
        module: Duration = Duration::from_secs(60),
    }
}

impl Timeouts {
    /// Says whether a client for which we have `waited` takes an answer too slowly on average.
    pub(crate) fn is_too_slow(&self, waited: Duration, taken_bytes: u64) -> bool {
        let due = self
            .transfer_bytes_per_second
            .saturating_mul(waited.as_secs());
        waited > TRANSFER_GRACE && taken_bytes < due
    }
}
