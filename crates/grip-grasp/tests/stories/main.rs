//! The stories of GRASP-01 at the level of the service: real git, real stores, no sockets.

#![expect(
    clippy::unwrap_used,
    reason = "a story that cannot be set up has failed"
)]

mod announcements;
mod changes;
mod deletions;
mod expiry;
mod explain;
mod node;
mod pull_requests;
mod pushes;
mod restarts;
mod staged;
mod states;
mod sync;
mod unused_stores;
mod wanted;
