#![doc = include_str!("../README.md")]

mod cluster;
mod follower;
mod lease;
mod log;
mod moment;
mod pack_cache;
mod pack_store;
mod position;
mod snapshot;
mod sweep;
mod tip;

pub use cluster::{Cluster, ClusterError, Member, NodeStatus, State};
pub use follower::{FollowError, Follower};
pub use lease::Lease;
pub use log::Log;
pub use pack_cache::keep_packs;
pub use pack_store::PackStore;
pub use position::{Joining, Noted, Position, PositionError};
pub use snapshot::{SingleNode, Snapshot, SnapshotError, SnapshotOptions, Snapshots};
pub use sweep::{StoredTotals, SweepError, SweepOptions};
pub use tip::Tip;
