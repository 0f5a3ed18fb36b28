#![doc = include_str!("../README.md")]

mod claim_rules;
mod commit_files;
mod diff;
mod feed;
mod github;
pub mod hosted;
mod index;
mod jobs;
mod options;
pub mod proxy;
mod source;
mod store;
mod sumdb;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use feed::{Clock, FeedQuery, InvalidClock, InvalidTimestamp, Page};
pub use github::{GitHubOptions, GitHubSource, GoFilter, PrivateRepos};
pub use index::{Index, Parts};
pub use options::{LeftSources, Options};
pub use source::{
    Audience, GoMod, Listed, Listing, Source, SourceError, SourceFuture, TagAt, TagPage, Tags,
    TagsQuery, Trust,
};
pub use store::{
    Change, Changes, Entry, Op, Reader, RepoFacts, SourceStatus, Status, TOPIC, TagFacts, VersionAt,
};
pub use sumdb::{
    Finding, MovedVersion, OpenError as SumDbOpenError, OpenOptions as SumDbOptions, Record, SumDb,
    SumDbError, SumDbRequest, SumDbStatus, Sums, Verified,
};
