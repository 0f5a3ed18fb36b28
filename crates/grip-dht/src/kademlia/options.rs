//! Settings of the network.

use std::{fmt, time::Duration};

use super::address::Policy;

/// Settings of this node in the network.
#[derive(Clone)]
pub struct Options {
    /// The secret key of the node; its name is derived from it.
    pub seed: [u8; 32],
    /// Where to listen, as `/ip4/0.0.0.0/tcp/4001`; nowhere if empty.
    pub listen: Vec<String>,
    /// Peers to begin with, as `/dns4/a.example/tcp/4001/p2p/12D3KooW…`.
    pub bootstrap: Vec<String>,
    /// External addresses beside those that we listen on.
    pub external: Vec<String>,
    /// Stays within private, link-local and loopback addresses: dials, accepts, stores and names
    /// no others.
    pub lan_only: bool,
    /// Accepts private addresses from strangers. Not for the open network: it would let them point
    /// us at hosts that only we can reach.
    pub allow_non_global: bool,
    /// The name of the network; nodes of different networks do not meet. `/gripfast/kad/1`
    pub network: String,
    /// Most records held for others (16,384), and their bytes in all (64 MiB). Beyond, the host with
    /// most of them loses some if it has more than a sixteenth; else those farthest from us go.
    pub max_records: usize,
    pub max_record_bytes: usize,
    /// Most provider records of others (65,536). Beyond, as above.
    pub max_providers: usize,
    /// Most keys of our own that are provided at once (20,000). Beyond, the one published longest
    /// ago makes room.
    pub max_published: usize,
    /// Connections in all (256), with one peer (2), with one public address (8; of IPv6 a network
    /// of 64 bits), and being made (64). Peers to begin with may have more of an address.
    pub max_connections: u32,
    pub max_connections_per_peer: u32,
    pub max_connections_per_address: u32,
    pub max_pending_connections: u32,
    /// How long others hold what we publish, and we what they do (24 h). What is to stay longer is
    /// published again.
    pub record_ttl: Duration,
    /// How often the routing table is refreshed while it has few peers (5 min); twelve times as long
    /// once it has twenty.
    pub bootstrap_interval: Duration,
    /// Requests of others served at the same time, in all (64) and for one peer (8). Beyond, they
    /// are refused at once as busy.
    pub max_inbound_requests: usize,
    pub max_inbound_requests_per_peer: usize,
    /// How long a request of another may take until its response is written (10 s).
    pub inbound_request_timeout: Duration,
    /// Our own requests at the same time, in all (256) and to one peer (16), which must leave
    /// room on a connection for other things, and how long one may take (10 s).
    pub max_outbound_requests: usize,
    pub max_outbound_requests_per_peer: usize,
    pub outbound_request_timeout: Duration,
    /// Publications at the same time, waiting ones included (64).
    pub max_publications: usize,
    /// How long making a connection may take (5 s), and how long an unused one is kept (60 s).
    pub connect_timeout: Duration,
    pub idle_timeout: Duration,
}

impl Options {
    pub fn new(seed: [u8; 32]) -> Self {
        Self {
            seed,
            listen: Vec::new(),
            bootstrap: Vec::new(),
            external: Vec::new(),
            lan_only: false,
            allow_non_global: false,
            network: "/gripfast/kad/1".to_owned(),
            max_records: 16 * 1024,
            max_record_bytes: 64 * 1024 * 1024,
            max_providers: 64 * 1024,
            max_published: 20_000,
            max_connections: 256,
            max_connections_per_peer: 2,
            max_connections_per_address: 8,
            max_pending_connections: 64,
            record_ttl: Duration::from_secs(24 * 60 * 60),
            bootstrap_interval: Duration::from_secs(5 * 60),
            max_inbound_requests: 64,
            max_inbound_requests_per_peer: 8,
            inbound_request_timeout: Duration::from_secs(10),
            max_outbound_requests: 256,
            max_outbound_requests_per_peer: 16,
            outbound_request_timeout: Duration::from_secs(10),
            max_publications: 64,
            connect_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(60),
        }
    }

    pub(super) fn policy(&self) -> Policy {
        match (self.lan_only, self.allow_non_global) {
            (true, _) => Policy::Lan,
            (false, true) => Policy::Any,
            (false, false) => Policy::Global,
        }
    }
}

impl fmt::Debug for Options {
    /// Without the seed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("network", &self.network)
            .field("listen", &self.listen)
            .field("bootstrap", &self.bootstrap)
            .field("external", &self.external)
            .field("policy", &self.policy())
            .finish_non_exhaustive()
    }
}
