//! The engine over frames in memory, with a real store in a temporary directory.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail their test by panicking"
)]

mod access;
mod closing;
mod events;
mod live;
mod messages;
mod rate_limits;
mod reconcile;
mod requests;
mod shares;
mod support;
mod writer;
