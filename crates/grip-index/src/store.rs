//! The tables of the index.
//!
//! Invariants:
//! - Who changes the feed holds the clock's row until the commit, and takes its timestamps from
//!   it: the order of commits is the order of timestamps, and no two are equal, whatever clocks do.
//! - A version is in the feed if and only if a tag claims it;
//!   [`crate::claim_rules::winner`] says which.
//! - What a repository's turn changes is changed together with the end of its job; of more tags
//!   than one transaction should hold, the last batch is.

mod audience;
mod cache;
mod changes;
mod feed;
mod feed_update;
mod listing;
mod publish;
mod removal;
mod repo;
mod rows;
mod sources;
mod sql;
mod status;
mod tag_batch;
mod tag_list;

use grip_db::Db;

pub use self::{
    audience::Reader,
    changes::{Change, Changes, Op},
    feed::{Entry, VersionAt},
    status::{RepoFacts, SourceStatus, Status, TagFacts},
};
pub(crate) use self::{
    cache::Learned,
    listing::ListingProgress,
    publish::{Changed, Ending, Gone, Judged, Publication},
    repo::Begun,
    rows::TagRow,
    sources::SourceKinds,
    tag_list::PartialTagList,
};

/// The topic that is notified when the feed has changed.
pub const TOPIC: &str = "index";

#[derive(Clone)]
pub(crate) struct Store {
    db: Db,
}

impl Store {
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    pub(crate) fn db(&self) -> &Db {
        &self.db
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.db.now_ms()
    }
}

#[cfg(test)]
mod tests;
