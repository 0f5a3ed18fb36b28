#![doc = include_str!("../README.md")]

mod assert_matches;
pub mod browser;
pub mod events;
pub mod fake_relay;
pub mod git;
pub mod github;
pub mod http;
mod installed;
mod listener;
mod log;
pub mod node;
pub mod postgres;
mod process;
mod project;
mod proxy;
pub mod redis;
pub mod relay;
pub mod remote;
mod wait;
pub mod wire;

pub use events::Author;
pub use fake_relay::FakeRelay;
pub use git::{GitOutput, WorkTree};
pub use github::FakeGitHub;
pub use http::Response;
pub use installed::installed;
pub use log::CapturedLog;
pub use node::Node;
pub use postgres::PostgresServer;
pub use project::{LocalProject, Project, RemoteProject};
pub use proxy::ProxyServer;
pub use redis::RedisServer;
pub use relay::{Answer, RelayClient};
pub use remote::RemoteHost;
pub use wait::{DEADLINE, until, until_ok, until_true, within};
