#![doc = include_str!("../README.md")]

pub mod gunzip;
pub mod pktline;
pub mod push_request;
pub mod remote;
pub mod report;
pub mod upload_request;
pub mod user;

mod bare;
mod change_log;
mod contributor_quotas;
mod disk;
mod inspect;
mod layout;
mod memory;
mod objects;
mod packs;
mod process;
mod receive;
mod refs;
mod repositories;
mod request_head;
mod staged_uploads;
mod staging_shares;
mod upload_pack;

pub use change_log::{
    ChangeLog, LoggedBy, LoggedChange, LoggedState, PackFile, SetRef, StagedPack, StoredPack,
};
pub use contributor_quotas::{ContributorQuotas, Quota, Unit};
pub use inspect::{
    ArchiveFormat, Blame, BlamedCommit, BlamedLine, GrepMatch, InspectBounds, InspectError,
};
pub use layout::remove_all;
pub use memory::{MemoryFull, MemoryUse, Payer};
pub use objects::{
    Change, Changes, CommitDetails, CommitFacts, DirectoryEntry, EntryKind, FileAt, FileKind,
    Listing, ObjectKind, PathEntry, PeelError, Person, TagFacts, TreeBounds, TreeEntry, TreeError,
    Version,
};
pub use packs::{
    CacheCounter, CacheUse, CachedFrom, Collected, DamagedPack, Evicted, ForeignPack, PackSource,
    Promoted, RepackError, Repacked,
};
pub use process::GitMissing;
pub use receive::{Caps, Pruned, Quarantine, ReceiveError, Snapshot};
pub use refs::{MoveRecord, Ref, RefChange, RefListing, RefMove, RefSnapshot, RefUpdateError};
pub use repositories::{
    AdoptError, Applied, Archived, Discarded, Disk, DiskFull, DiskUser, FetchPackFile,
    FreezeProgress, Frozen, Fsck, Garbage, GarbageRemoval, KeptObjects, NamedTips, OpenError,
    Options, Prepared, RepoError, Repositories, StageError, StagedTip, StorePackFiles,
    WithheldTips,
};
pub use staged_uploads::{StagedTotals, StagingBudget, StagingBudgets, StagingFull};
pub use staging_shares::Sender;
pub use upload_pack::{FetchOutcome, FetchRequest, PackStream};
pub use upload_request::{GitService, Protocol};
