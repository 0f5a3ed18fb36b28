//! Status of the network, as this node sees it.

use crate::PeerName;

/// The network at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Our own name.
    pub peer: PeerName,
    /// Where we listen, as multiaddrs.
    pub listening: Vec<String>,
    /// The addresses that others may dial, as multiaddrs.
    pub external: Vec<String>,
    pub connected_peers: usize,
    /// Peers in the routing table.
    pub known_peers: usize,
    /// Records that we hold, our own among them.
    pub records: usize,
    /// Keys of which we know other providers, and keys that we provide, added up.
    pub provided_keys: usize,
    pub counters: Counters,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Our own requests, and how many of them got a response.
    pub asked_total: u64,
    pub answered_total: u64,
    /// Of our own requests: dropped by their callers.
    pub abandoned_total: u64,
    /// Requests of others, and how many of them were refused as busy.
    pub questions_total: u64,
    pub busy_total: u64,
    /// Of others' requests: unreadable, or closed before the response was written.
    pub broken_total: u64,
    /// Records offered to us, by verdict.
    pub kept_total: u64,
    pub ignored_total: u64,
    pub refused_total: u64,
    /// Offered records dropped without validation because too many were waiting.
    pub unjudged_total: u64,
    /// Addresses of others refused because of where they point.
    pub addresses_refused_total: u64,
    /// Connections refused because of where they come from.
    pub connections_refused_total: u64,
    /// Publications that went through, and those that reached nobody.
    pub published_total: u64,
    pub unpublished_total: u64,
}
