//! The stories of GRASP-01 at the level of the service: real git, real stores, no sockets.

#![expect(
    clippy::unwrap_used,
    reason = "a story that cannot be set up has failed"
)]

mod agreement;
mod announcements;
mod archive;
mod changes;
mod collection;
mod damage;
mod expiry;
mod explain;
mod lifecycle;
mod model;
mod node;
mod operator;
mod pull_requests;
mod pushes;
mod restarts;
mod roles;
mod slow_uploads;
mod staged;
mod states;
mod strangers;
mod sync;
mod unused_stores;
mod vanish;
mod wanted;
