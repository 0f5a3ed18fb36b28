//! Bare repositories, pkt-line, refs and packs; the only crate that starts processes.
//!
//! Each owner of an identifier has a repository of refs; the objects of the identifier are stored
//! once, for all of them. A push goes: [`push_request::read`] its head, [`Repositories::receive`] its pack
//! into a [`Quarantine`], judge it, [`Quarantine::promote`], [`Repositories::update_refs`], then
//! [`report::accepted`]. A fetch goes: [`RefSnapshot::advertisement`], in protocol version 2
//! [`upload_request::read`] and [`RefSnapshot::ls_refs`], then [`Repositories::upload_pack`]. What is missing
//! here is asked of other servers with [`remote`]. What is in a commit is read in process:
//! [`Repositories::tagged`], [`Repositories::file`], [`Repositories::tree`].
//!
//! Invariants:
//! - An object in a store has everything it links to in there as well: a pack is only promoted
//!   after git has checked every link of every object in it. So a ref may name any object of the
//!   store, and no push walks history.
//! - All refs of a repository lie in one file, which is replaced whole.
//! - No pack is ever held in memory, and nothing here knows nostr or HTTP.

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
mod upload_pack;

pub use objects::{
    CommitFacts, FileAt, FileKind, ObjectKind, PeelError, TagFacts, TreeBounds, TreeEntry,
    TreeError,
};
pub use packs::{Promoted, RepackError, Repacked};
pub use process::GitMissing;
pub use receive::{Caps, Pruned, Quarantine, ReceiveError};
pub use refs::{Ref, RefSnapshot, RefUpdateError};
pub use repositories::{AdoptError, Fsck, OpenError, Options, RepoError, Repositories};
pub use upload_pack::PackStream;
pub use upload_request::{GitService, Protocol};
