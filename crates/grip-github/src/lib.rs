//! The GitHub API: one gateway, budgets per token, typed errors, pages.
//!
//! Serves github.com and GitHub Enterprise alike. The search API is never used: it ends after a
//! thousand results.
//!
//! Invariants:
//! - Every call is paid for twice before it is made: with a call of some token's budget, as far
//!   as the host has told what is left of it, and with a permit of the throttle. Calls under way
//!   count as spent, so that calls at once never go over a budget together.
//! - Nothing here waits for a budget, a limit or a next try. Who has to wait is told until when
//!   ([`GitHubError::next_step`]), and does so where waiting costs nothing.
//! - One token's spent budget stops that token alone. What the host asks of everybody (secondary
//!   limits) stops all of them, through the throttle.
//! - Everything from outside is checked: what is about another repository, repeats itself, has
//!   no end or is no JSON is an error. Redirects and links never lead to another origin.
//! - No token is ever printed.

mod budget;
mod content;
mod error;
mod events;
mod gateway;
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
pub use events::{EventSource, Events, EventsPage, InvalidEventSource};
pub use gateway::GitHub;
pub use name::{InvalidName, Login, Owner, RepoName};
pub use options::{Options, SetupError, Token};
pub use page::{Cursor, InvalidCursor, Listing, Page};
pub use repositories::Repository;
pub use response::{Etag, Fresh, Response};
pub use tags::Tag;
pub use users::{Record, RepoKey};
