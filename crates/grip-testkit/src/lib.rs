#![doc = include_str!("../README.md")]

mod assert_matches;
pub mod browser;
pub mod events;
pub mod git;
pub mod github;
mod log;
pub mod node;
pub mod postgres;
mod project;
pub mod redis;
pub mod relay;
pub mod remote;
mod wait;
pub mod wire;

pub use events::Author;
pub use git::{GitOutput, WorkTree};
pub use github::FakeGitHub;
pub use log::CapturedLog;
pub use node::Node;
pub use postgres::PostgresServer;
pub use project::{LocalProject, Project};
pub use redis::RedisServer;
pub use relay::{Answer, RelayClient};
pub use remote::RemoteHost;
pub use wait::{DEADLINE, until, until_ok, until_true, within};
