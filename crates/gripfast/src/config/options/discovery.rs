//! Peer discovery (DHT) and the resolver.

use std::time::Duration;

use grip_types::Domain;

use crate::config::{
    kinds::{Bytes, Count, Multiaddrs},
    option::options,
};

options! {
    /// Peer discovery and the resolver.
    Discovery: "Finding and being found" {
        /// Take part in the network by which nodes find each other's repositories: what is served
        /// here is found by others, and what they serve is found here.
        dht_enabled: bool = "false", common;
        /// Where other nodes reach this one.
        dht_listen: Multiaddrs = "/ip4/0.0.0.0/tcp/7335";
        /// Addresses to tell other nodes beside those that are listened on; needed behind a NAT.
        dht_external: Multiaddrs, example("/dns4/grasp.example.com/tcp/7335");
        /// Nodes to begin with, each with its name at the end (`…/p2p/12D3KooW…`). Without any,
        /// this node waits to be found.
        dht_bootstrap: Multiaddrs,
            example("/dns4/node.example/tcp/7335/p2p/12D3KooWDpJ7As7BWAwRMfu1VU2WCqNjvq387JEYKDBj4kx6nXTN");
        /// Stay within private, link-local and loopback addresses.
        dht_lan_only: bool = "false";
        /// Nodes asked at once when something is looked for.
        resolve_alpha: Count<usize, 1, 16> = "3", live;
        /// Nodes asked in addition once `resolve_hedge` has passed without an answer.
        resolve_beta: Count<usize, 0, 16> = "2", live;
        /// How long the first nodes have before further ones are asked.
        resolve_hedge: Duration = "150ms", live;
        /// How long an answer may take in all.
        resolve_deadline: Duration = "1200ms", live;
        /// Answers looked for at once; up to 512 more wait, and what comes then is told to come
        /// again.
        resolve_workers: Count<usize, 1, 1024> = "64";
        /// Memory for answers.
        resolve_cache_bytes: Bytes = "64 MiB";
        /// A word for where this node is, such as `eu`: providers with the same word are named
        /// first.
        resolve_region: Option<String>, live, example("eu");
        /// Hosts that are never named as providers, with all below them.
        resolve_deny: Vec<Domain>, live, example("mirror.example.net");
    }
}
