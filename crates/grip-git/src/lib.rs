#![doc = include_str!("../README.md")]

pub mod gunzip;
pub mod pktline;
pub mod push_request;
pub mod remote;
pub mod report;
pub mod upload_request;

mod bare;
mod disk;
mod layout;
mod objects;
mod packs;
mod process;
mod receive;
mod refs;
mod repositories;
mod request_head;
mod staged_uploads;
mod upload_pack;

pub use objects::{
    CommitFacts, FileAt, FileKind, ObjectKind, PeelError, TagFacts, TreeBounds, TreeEntry,
    TreeError,
};
pub use packs::{Promoted, RepackError, Repacked};
pub use process::GitMissing;
pub use receive::{Caps, Pruned, Quarantine, ReceiveError};
pub use refs::{Ref, RefSnapshot, RefUpdateError};
pub use repositories::{
    AdoptError, DiskFull, Fsck, OpenError, Options, RepoError, Repositories, StageError,
};
pub use staged_uploads::{StagedTotals, StagingBudget, StagingBudgets, StagingFull};
pub use upload_pack::PackStream;
pub use upload_request::{GitService, Protocol};
