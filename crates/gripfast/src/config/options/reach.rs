//! The addresses and names under which clients reach the node.

use std::net::SocketAddr;

use grip_types::Service;
use ipnet::IpNet;

use crate::config::option::options;

options! {
    /// Addresses and names of the node.
    Reach: "Where it is reached" {
        /// Host name under which clients reach this node, as announcements list it. A scheme may be
        /// given (`http://…`); without one, names are https and IP addresses and localhost are
        /// http.
        domain: Option<Service>, derived("the bind address, for use on one machine"), ngit, common,
            example("grasp.example.com");
        /// Address to listen on.
        bind_address: SocketAddr = "127.0.0.1:7334", ngit, common;
        /// Path below which everything is served, when the host is shared with something else.
        base_path: Option<String>, ngit, example("/git");
        /// Other names under which clients reach this node. Data is never fetched from them: it
        /// would be asking ourselves.
        domain_aliases: Vec<Service>, example("www.grasp.example.com");
        /// Networks of reverse proxies, whose `X-Forwarded-For` is believed.
        trusted_proxy_cidrs: Vec<IpNet> = "127.0.0.0/8,::1/128", ngit, live;
    }
}
