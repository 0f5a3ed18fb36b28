//! Options of the egress and of single requests.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use grip_types::{Domain, Service};
use http::{HeaderMap, Method};
use url::Url;

use crate::{
    bearer::Bearer,
    lookup::{Lookup, SystemLookup},
};

/// How far requests may go and how long they may take.
#[derive(Clone)]
pub struct Options {
    /// Also allow hosts that are not public. Our own service stays forbidden, and so do
    /// addresses that no host can have. Default: no.
    pub allow_non_global: bool,
    /// Hosts that the operator named himself and that need not be public, such as an API inside
    /// his network. They are asked directly and never by a redirect from another host. Belongs
    /// to an egress that strangers name no URLs for. Default: none.
    pub private_hosts: Vec<Domain>,
    /// The names under which we are reached ourselves. Default: none.
    pub own: Vec<Service>,
    /// Where we listen. Also where hosts need not be public, no name leads there. Default: none.
    pub own_address: Option<SocketAddr>,
    /// Count requests by the network of their addresses as well as by their host: for an egress
    /// that strangers name URLs for. A connection serves one request then, since only a lookup
    /// tells where one leads. Default: no.
    pub counts_networks: bool,
    /// Of `https` and `http`, those that are spoken. Default: both.
    pub schemes: Vec<String>,
    /// Longest wait for a connection, name lookup and TLS included. Default: 10 s.
    pub connect: Duration,
    /// Longest silence while we wait for bytes: once connected until the headers, then between
    /// any two pieces of the body. Default: 30 s.
    pub idle: Duration,
    /// Longest time from the request to the last byte, redirects included. Default: 15 min.
    pub total: Duration,
    /// Redirects that are followed in a row. Default: 5.
    pub max_redirects: usize,
    /// What we call ourselves. Default: `gripfast/<version>`.
    pub user_agent: String,
    /// Where addresses come from. Default: the operating system.
    pub lookup: Arc<dyn Lookup>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            allow_non_global: false,
            private_hosts: Vec::new(),
            own: Vec::new(),
            own_address: None,
            counts_networks: false,
            schemes: vec!["https".to_owned(), "http".to_owned()],
            connect: Duration::from_secs(10),
            idle: Duration::from_secs(30),
            total: Duration::from_secs(15 * 60),
            max_redirects: 5,
            user_agent: concat!("gripfast/", env!("CARGO_PKG_VERSION")).to_owned(),
            lookup: Arc::new(SystemLookup::default()),
        }
    }
}

/// One request.
///
/// Headers that carry credentials, name another host or belong to the connection are left out
/// when it is sent.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Bytes,
    /// Longest body of the response that is read.
    pub max_bytes: u64,
}

/// What a request may do beyond the ordinary, and which responses are wanted.
#[derive(Clone, Debug)]
pub struct RequestPolicy {
    /// Sent to the origin (scheme, host and port) of the request's URL and to no other, and in
    /// plain `http` only to addresses that are not public. Default: none.
    pub bearer: Option<Bearer>,
    /// Follow redirects. Otherwise a redirect is a response without success. Default: yes.
    pub follow: bool,
    /// Hand back responses of every status as a [`Reply`](crate::Reply); of those without success,
    /// the first 8 KiB of the body. Default: successes only.
    pub any_status: bool,
    /// Leave the host alone when it says that nothing remains of a rate limit. A caller who
    /// keeps several accounts apart says no: one of them is not the host. What
    /// the host says by `Retry-After`, or without naming an account's budget, is heeded always.
    /// Default: yes.
    pub heed_quota: bool,
}

impl Default for RequestPolicy {
    fn default() -> Self {
        Self {
            bearer: None,
            follow: true,
            any_status: false,
            heed_quota: true,
        }
    }
}
