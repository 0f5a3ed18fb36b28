#![doc = include_str!("../README.md")]

mod diff;
mod feed;
mod github;
pub mod hosted;
mod index;
mod jobs;
mod options;
pub mod proxy;
mod rules;
mod source;
mod store;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use feed::{Clock, FeedQuery, InvalidClock, InvalidMoment, Page};
pub use github::{GitHubOptions, GitHubSource};
pub use index::{Index, Parts};
pub use options::Options;
pub use source::{GoMod, Listing, Occasion, Source, SourceError, TagAt, Tags, Trust};
pub use store::{
    Change, Changes, Entry, Op, RepoFacts, SourceStatus, Status, TOPIC, TagFacts, VersionAt,
};
