//! The index of modules and tags: sources, jobs, feed.

mod source;

pub use source::{GoMod, Listing, Source, SourceError, TagAt, Tags, Trust};
