#![doc = include_str!("../README.md")]

mod change_set;
pub mod fault;
mod group;
mod handle;
mod lanes;
mod live;
mod low_priority;
#[cfg(all(test, feature = "loom"))]
mod models;
mod panic;
mod periodic;
mod permits;
mod primitives;
mod single_flight;
mod spent_bytes;
mod upload_progress;

pub use change_set::{ChangeSet, Changed};
pub use group::{Ended, TaskGroup, TaskStatus};
pub use handle::{JoinHandle, spawn_blocking};
pub use lanes::{Busy, Lanes, Turn};
pub use live::Live;
pub use low_priority::LowPriorityThreads;
pub use periodic::{Outcome, Periodic, PeriodicStatus};
pub use permits::{Permit, Permits};
pub use single_flight::{Flight, Job, Jobs, Refused, SingleFlight};
pub use spent_bytes::{ByteBudget, SpentBytes};
pub use tokio::task::JoinError;
pub use tokio_util::sync::CancellationToken;
pub use upload_progress::{MakesRoom, SLOW_BYTES_PER_SECOND, UploadProgress, WatchedUpload};
