//! Decisions of this crate compared with those of the real `go` command.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod direct;
mod proxy;
mod repository;
mod tool;
