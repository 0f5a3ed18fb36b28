//! The index of modules and tags: sources, jobs, feed.
//!
//! A [`Source`] says which repositories and tags there are. Two kinds of queued work follow it:
//! one lists a source, one indexes a repository. What tags claim by Go's rules is the feed
//! ([`Index::feed`]); what happens to it is told in [`Index::changes`].
//!
//! Invariants:
//! - The feed shows no claim that cannot be proven: a module path leads to its repository, or the
//!   operator has chosen to believe it.
//! - A follower that goes on with the latest moment it has seen misses nothing, whatever clocks do.
//! - The feed, the log of its changes and the end of the work are one transaction.
//! - What was asked and answered is not asked again: not after a restart, and not for each tag.

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
