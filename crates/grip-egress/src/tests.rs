//! Whole requests over real sockets of this machine.
//!
//! `127.0.0.2` stands for a public host, and every other address of this machine for what it is.

mod credentials;
mod environment;
mod headers;
mod host;
mod limits;
mod networks;
mod preflight;
mod private_hosts;
mod redirects;
mod request_policy;
mod statuses;
mod support;
mod throttling;
mod tls;
