//! Settings of the edge that a reload may change.

use std::time::Duration;

use grip_types::Service;
use ipnet::IpNet;
use nostr::prelude::PublicKey;

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

/// The description of the node in NIP-11 and on its pages.
#[derive(Clone, Debug)]
pub struct NodeInfo {
    pub name: String,
    pub description: String,
    pub contact: Option<String>,
    /// A URL of an image; without one our own icon is named.
    pub icon: Option<String>,
    /// The operator's key.
    pub owner: Option<PublicKey>,
    /// The node's own key, if it signs events.
    pub own_key: Option<PublicKey>,
    /// The numbers of the GRASP documents that are active.
    pub grasps: Vec<u8>,
    pub repo_acceptance_criteria: String,
    /// Set only where events are curated beyond spam.
    pub curation: Option<String>,
}

impl Default for NodeInfo {
    fn default() -> Self {
        Self {
            name: "gripfast".into(),
            description: "A git server with a nostr relay in it".into(),
            contact: None,
            icon: None,
            owner: None,
            own_key: None,
            grasps: vec![1],
            repo_acceptance_criteria: "None: any announcement that lists this service in clone \
                                       and relays is accepted"
                .into(),
            curation: None,
        }
    }
}

/// How much is taken on at once. Beyond a bound the answer is 429, at once. Of what is under way,
/// a quarter at most is of one client address; of WebSockets, as many as it may have connections.
#[derive(Clone, Debug)]
pub struct WebLimits {
    /// Open connections in all. Default 4096.
    pub connections: usize,
    /// Open connections (and WebSockets behind a proxy) per client address; IPv6 by /64.
    /// Default 256.
    pub connections_per_ip: usize,
    /// Requests a second that one client address may make for long. Default 100.
    pub requests_per_second: u32,
    /// Requests that one client address may make in one go. Default 1000.
    pub request_burst: u32,
    /// Ref listings under way. Default 256.
    pub advertise: usize,
    /// Fetches under way, a git process each. Default 64.
    pub fetch: usize,
    /// Pushes under way, a git process each. Default 64.
    pub push: usize,
    /// Open WebSockets. Default 4096.
    pub websocket: usize,
    /// API requests under way. Default 64.
    pub api: usize,
    /// Pages under way. Default 128.
    pub page: usize,
    /// Pages of the module feed under way. Default 64.
    pub feed: usize,
    /// Questions of the go command under way. Default 128.
    pub module: usize,
    /// Module zips under way, most of which wait for their turn. Default 64.
    pub zip: usize,
    /// Deliveries of webhooks under way. Default 32.
    pub webhook: usize,
    /// Names and digests being resolved. Default 256.
    pub resolve: usize,
    /// How much of a push that finds no permit is read, so that its client sees the reason.
    /// Default 64 MiB.
    pub drain_bytes: u64,
}

impl Default for WebLimits {
    fn default() -> Self {
        Self {
            connections: 4096,
            connections_per_ip: 256,
            requests_per_second: 100,
            request_burst: 1000,
            advertise: 256,
            fetch: 64,
            push: 64,
            websocket: 4096,
            api: 64,
            page: 128,
            feed: 64,
            module: 128,
            zip: 64,
            webhook: 32,
            resolve: 256,
            drain_bytes: 64 << 20,
        }
    }
}

/// How long a client may keep us waiting.
#[derive(Clone, Debug)]
pub struct Timeouts {
    /// From the first byte of a request to the end of its headers. Default 10 s.
    pub header: Duration,
    /// Between two requests of a connection. Default 60 s.
    pub idle: Duration,
    /// For each KiB of a request body, and for reading a push that found no permit. Default 60 s.
    pub body_stall: Duration,
    /// Without the client taking a byte of an answer; over HTTP/2, where each answer has a window
    /// of its own, for each 16 KiB of it. Default 60 s.
    pub write_stall: Duration,
    /// For a page or an API answer in all. Default 5 s.
    pub answer: Duration,
    /// For an answer to the go command, up to the first byte of a zip. Default 60 s.
    pub module: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            header: Duration::from_secs(10),
            idle: Duration::from_secs(60),
            body_stall: Duration::from_secs(60),
            write_stall: Duration::from_secs(60),
            answer: Duration::from_secs(5),
            module: Duration::from_secs(60),
        }
    }
}
