//! The operator's day: how the node is, whether it works, and how it comes back.

mod backup;
mod commands;
mod compose;
pub mod documents;
mod faults;
mod metrics;
mod notify;
mod package;
mod repair;
mod selftest;
