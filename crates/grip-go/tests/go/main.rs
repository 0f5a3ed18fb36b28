//! What this crate decides, beside what the real `go` decides.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod direct;
mod proxy;
mod repository;
mod sum;
mod tool;
