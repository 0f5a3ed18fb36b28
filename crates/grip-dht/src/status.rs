//! Status of the network, as this node sees it.

use crate::PeerName;

/// Whether other nodes can dial this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reachability {
    /// It is too early to tell, or there are too few peers.
    #[default]
    Unknown,
    /// Some have.
    Dialled,
    /// Others are told no address of this node.
    NoAddress,
    /// Several know this node, and none has dialled it.
    NotDialled,
}

impl Reachability {
    /// One word for programs.
    pub fn label(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Dialled => "dialled",
            Self::NoAddress => "no_address",
            Self::NotDialled => "not_dialled",
        }
    }
}

/// The network at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Our own name.
    pub peer: PeerName,
    /// Where we listen, as multiaddrs.
    pub listening: Vec<String>,
    /// The addresses that others may dial, as multiaddrs.
    pub external: Vec<String>,
    pub reachability: Reachability,
    pub connected_peers: usize,
    /// Peers in the routing table.
    pub known_peers: usize,
    /// Stored records, our own among them.
    pub records: usize,
    /// Keys of which we know other providers, and keys that we provide, added up.
    pub provided_keys: usize,
    /// Keys that we provide, and how many may be provided at once.
    pub published_keys: usize,
    pub max_published: usize,
    pub counters: Counters,
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        /// Counts since the start.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)+
        }

        /// Counters while the node runs.
        #[cfg(feature = "libp2p")]
        #[derive(Default)]
        pub(crate) struct LiveCounters {
            $(pub $name: std::sync::atomic::AtomicU64,)+
        }

        #[cfg(feature = "libp2p")]
        impl LiveCounters {
            pub fn snapshot(&self) -> Counters {
                let order = std::sync::atomic::Ordering::Relaxed;
                Counters { $($name: self.$name.load(order),)+ }
            }
        }
    };
}

counters! {
    /// Our own requests, and how many of them got a response.
    asked_total,
    answered_total,
    /// Of our own requests: dropped by their callers.
    abandoned_total,
    /// Requests of others, and how many of them were refused as busy.
    questions_total,
    busy_total,
    /// Of others' requests: unreadable, or closed before the response was written.
    broken_total,
    /// Records offered to us, by verdict.
    kept_total,
    ignored_total,
    refused_total,
    /// Offered records dropped without validation because too many were waiting.
    unjudged_total,
    /// Addresses of others refused because of where they point.
    addresses_refused_total,
    /// Connections that others made, from addresses of this kind of network.
    inbound_total,
    /// Connections refused because of where they come from.
    connections_refused_total,
    /// Publications that went through, and those that reached no other node.
    published_total,
    unpublished_total,
    /// Keys of our own that made room for others because more are published than may be provided.
    displaced_total,
}
