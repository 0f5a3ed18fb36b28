//! The index of modules and tags: sources, jobs, feed.

pub mod hosted;
pub mod proxy;
mod source;

pub use source::{GoMod, Listing, Source, SourceError, TagAt, Tags, Trust};
