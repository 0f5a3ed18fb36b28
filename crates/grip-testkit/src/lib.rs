//! Test support: node processes, a scripted relay client, projects, git work trees, event builders.
//!
//! Everything here talks to a server the way its users do: over sockets, with real git. Waiting
//! is always for a state, with a deadline ([`until`]); nothing trusts a fixed delay.

pub mod browser;
pub mod events;
pub mod git;
pub mod github;
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
pub use node::Node;
pub use postgres::PostgresServer;
pub use project::{LocalProject, Project};
pub use redis::RedisServer;
pub use relay::{Answer, RelayClient};
pub use remote::RemoteHost;
pub use wait::{DEADLINE, until, until_ok, until_true, within};
