#![doc = include_str!("../README.md")]

mod budget;
mod content;
mod error;
mod events;
mod gateway;
mod graphql;
mod json;
mod link;
mod name;
mod options;
mod page;
mod quota;
mod recent_repositories;
mod repositories;
mod response;
mod tags;
mod users;

#[cfg(test)]
mod tests;

pub use budget::Budget;
pub use error::{GitHubError, NextStep};
pub use events::{EventSource, EventsPage, InvalidEventSource};
pub use gateway::GitHub;
pub use graphql::{DatedTag, FileAt, MAX_PLACES, RepositoryFacts, TagList};
pub use name::{InvalidName, Login, Owner, RepoName};
pub use options::{Options, SetupError, Token};
pub use page::{Cursor, InvalidCursor, Page};
pub use repositories::Repository;
pub use response::{Etag, Response};
pub use tags::{Tag, TagRef};
pub use users::{Record, RepoKey};
