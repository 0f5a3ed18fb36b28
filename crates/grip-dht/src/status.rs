//! How the network looks from here.

use crate::PeerName;

/// A view of the network at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Our own name.
    pub peer: PeerName,
    /// Where we listen, as multiaddrs.
    pub listening: Vec<String>,
    /// What we tell others to dial, as multiaddrs.
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

/// What happened since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Questions that we asked, and how many of them brought an answer.
    pub asked_total: u64,
    pub answered_total: u64,
    /// Of those asked: nobody waited for the answer any more.
    pub abandoned_total: u64,
    /// Questions of others, and how many of them we were too busy for.
    pub questions_total: u64,
    pub busy_total: u64,
    /// Of others' questions: unreadable, or gone before the answer was written.
    pub broken_total: u64,
    /// Records offered to us, by what became of them.
    pub kept_total: u64,
    pub ignored_total: u64,
    pub refused_total: u64,
    /// Offered records dropped unjudged because too many were waiting.
    pub unjudged_total: u64,
    /// Addresses of others that we would not take because of where they point.
    pub addresses_refused_total: u64,
    /// Connections refused because of where they come from.
    pub connections_refused_total: u64,
    /// Publications that went through, and those that reached nobody.
    pub published_total: u64,
    pub unpublished_total: u64,
}
