//! The index as its users meet it: tags pushed to a node, the feed followed, modules fetched.

mod follower;
mod go;
mod long_log;
pub mod scene;
mod stories;
mod sumdb;
mod upstream;
