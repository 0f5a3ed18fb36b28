//! Bare repositories, pkt-line, refs and packs; the only crate that starts processes.
//!
//! Each owner of an identifier has a repository of refs; the objects of the identifier are stored
//! once, for all of them. A push goes: [`push::read`] its head, [`Repositories::receive`] its pack
//! into a [`Quarantine`], judge it, [`Quarantine::promote`], [`Repositories::update_refs`], then
//! [`report::accepted`]. A fetch goes: [`RefSnapshot::advertisement`], in protocol version 2
//! [`fetch::read`] and [`RefSnapshot::ls_refs`], then [`Repositories::upload_pack`]. What is missing
//! here is asked of other servers with [`remote`]. What is in a commit is read in process:
//! [`Repositories::tagged`], [`Repositories::file`], [`Repositories::tree`].
//!
//! Invariants:
//! - An object in a store has everything it links to in there as well: a pack is only promoted
//!   after git has checked every link of every object in it. So a ref may name any object of the
//!   store, and no push walks history.
//! - All refs of a repository lie in one file, which is replaced whole.
//! - No pack is ever held in memory, and nothing here knows nostr or HTTP.

pub mod fetch;
pub mod gunzip;
pub mod pktline;
pub mod push;
pub mod remote;
pub mod report;

mod disk;
mod head;
mod layout;
mod lru;
mod maintain;
mod objects;
mod process;
mod receive;
mod refs;
mod repositories;
mod upload;

pub use fetch::{GitService, Protocol};
pub use layout::RepoPath;
pub use maintain::{Fsck, MaintainError, Maintenance};
pub use objects::{
    CommitFacts, FileAt, FileKind, ObjectKind, PeelError, TagFacts, TreeBounds, TreeEntry,
    TreeError,
};
pub use process::GitMissing;
pub use receive::{Caps, Kept, Promoted, Quarantine, ReceiveError};
pub use refs::{Expect, Ref, RefEdit, RefSnapshot, RefUpdateError};
pub use repositories::{AdoptError, OpenError, Options, RepoError, Repositories};
pub use upload::PackStream;
