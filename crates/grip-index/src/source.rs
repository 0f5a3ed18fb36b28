//! The `Source` trait: repositories the index reads.
//!
//! Invariant: a source decides nothing about the feed. It says what is there, and which module
//! paths its repositories may speak for; the rules are the same for all of them.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use grip_go::ModulePath;
use grip_types::Oid;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer of a source.
pub type SourceFuture<'a, T> = BoxFuture<'a, Result<T, SourceError>>;

/// One configured place: an organisation on a GitHub host, or the repositories on this node.
///
/// All calls are cancel safe and may be repeated. They never wait for a limit: they say until
/// when to wait, and the job comes again then.
pub trait Source: Send + Sync + 'static {
    /// The name, unique among all sources of the database: `github.com/orgs/acme`, `hosted`.
    fn name(&self) -> &str;

    /// Whether only this node can ask it, because the data is here.
    fn is_local(&self) -> bool {
        false
    }

    /// Whatever its judgement of paths depends on, such as settings. When this text changes,
    /// every repository is judged again at its next turn.
    fn policy(&self) -> String {
        String::new()
    }

    /// One page of all repositories. Names are unique among all sources of the database, so that
    /// two sources that list the same repository name the same work.
    fn list(&self, cursor: Option<String>) -> SourceFuture<'_, Listing>;

    /// A page of the tags of a repository, or that nothing has changed since the list that
    /// `query.etag` marks.
    fn tags<'a>(&'a self, repo: &'a str, query: TagsQuery) -> SourceFuture<'a, Tags>;

    /// Whether a page that was read before an interruption, by its mark, is still as it was.
    fn is_same_page<'a>(
        &'a self,
        repo: &'a str,
        page: Option<String>,
        etag: String,
    ) -> SourceFuture<'a, bool> {
        let _ = (repo, page, etag);
        Box::pin(std::future::ready(Ok(true)))
    }

    /// Which of these tags are certainly no more. Asked where a list of several pages lacks them,
    /// because pages shift when tags come and go while it is read; those that cannot be told yet
    /// are left out.
    fn confirm_gone<'a>(
        &'a self,
        repo: &'a str,
        names: Vec<String>,
    ) -> SourceFuture<'a, Vec<String>> {
        let _ = repo;
        Box::pin(std::future::ready(Ok(names)))
    }

    /// Whether a repository that the latest listing lacks is there all the same, by that name, and
    /// who may see it.
    fn is_there<'a>(&'a self, repo: &'a str) -> SourceFuture<'a, Option<Audience>> {
        let _ = repo;
        Box::pin(std::future::ready(Ok(Some(Audience::Anybody))))
    }

    /// Whether a repository that somebody has named, or that has news, would be in a listing of
    /// now, where listings leave some out.
    fn admits<'a>(&'a self, repo: &'a str) -> SourceFuture<'a, Option<Audience>> {
        let _ = repo;
        Box::pin(std::future::ready(Ok(Some(Audience::Anybody))))
    }

    /// When a tag was made, in milliseconds since 1970; asked only for new and moved tags.
    fn created<'a>(&'a self, repo: &'a str, tag: &'a TagAt) -> SourceFuture<'a, i64>;

    /// The `go.mod` in a directory ("" is the root) of a commit.
    fn go_mod<'a>(
        &'a self,
        repo: &'a str,
        commit: &'a Oid,
        dir: &'a str,
    ) -> SourceFuture<'a, GoMod>;

    /// The `go.mod` at each of these places, commits and directories, as far as it can be had for
    /// many in one call: those that are left out are asked for one by one.
    fn go_mods<'a>(
        &'a self,
        repo: &'a str,
        places: Vec<(Oid, String)>,
    ) -> SourceFuture<'a, Vec<(Oid, String, GoMod)>> {
        let _ = (repo, places);
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// The path of the repository's root by its place; none where Go could not name it.
    fn location(&self, repo: &str) -> Option<ModulePath>;

    /// Whether this repository may speak for this path.
    fn trusts(&self, repo: &str, path: &ModulePath) -> Trust;

    /// Whether repositories that not everybody may see are among its own.
    fn takes_private(&self) -> bool {
        false
    }

    /// The name it would list this repository by, if it is one of its own.
    fn covers(&self, host: &str, owner: &str, repo: &str) -> Option<String> {
        let _ = (host, owner, repo);
        None
    }
}

/// Who may see a repository and its versions.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Deserialize,
    JsonSchema,
    Serialize,
)]
#[serde(rename_all = "lowercase")]
pub enum Audience {
    #[default]
    Anybody,
    /// Only who proves to be a reader of restricted repositories.
    Readers,
    /// Its source has left.
    Nobody,
}

impl Audience {
    pub(crate) fn number(self) -> i64 {
        match self {
            Self::Anybody => 0,
            Self::Readers => 1,
            Self::Nobody => 2,
        }
    }
}

impl From<i64> for Audience {
    fn from(number: i64) -> Self {
        match number {
            0 => Self::Anybody,
            1 => Self::Readers,
            _ => Self::Nobody,
        }
    }
}

/// A page of repositories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    pub repos: Vec<Listed>,
    /// Where the next page begins; none after the last.
    pub next: Option<String>,
}

/// A repository in a listing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Listed {
    pub name: String,
    pub audience: Audience,
}

impl From<String> for Listed {
    /// One that anybody may see.
    fn from(name: String) -> Self {
        let audience = Audience::Anybody;
        Self { name, audience }
    }
}

/// Which page of a tag list is meant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagsQuery {
    /// The mark of the list as it is kept; only for its first page.
    pub etag: Option<String>,
    /// Where the list goes on; none: at its beginning.
    pub from: Option<String>,
    /// Whether nothing is known of the repository yet.
    pub is_first_turn: bool,
}

/// The tags of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tags {
    Unchanged,
    Page(TagPage),
    /// There is no such repository, or it has another name now.
    Gone,
}

/// A page of tags.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagPage {
    pub tags: Vec<TagAt>,
    /// Where the list goes on; none after the last page.
    pub next: Option<String>,
    /// The mark of this page, where it would change with whatever changes the page, and for the
    /// last page also with whatever comes behind it.
    pub etag: Option<String>,
    /// The list begins again with this page: what was read before does not belong to it.
    pub is_restart: bool,
    /// Who may see the repository, where the response says.
    pub audience: Option<Audience>,
    /// What the response tells of tag objects and commits beside.
    pub times: Vec<(Oid, i64)>,
    pub go_mods: Vec<(Oid, String, GoMod)>,
}

/// A tag and what it points at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagAt {
    /// Without `refs/tags/`; nothing is promised about it.
    pub name: String,
    /// The tag object, or the commit where there is none.
    pub object: Oid,
    pub commit: Oid,
}

/// What is at the place of a `go.mod`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoMod {
    Text(Bytes),
    /// Above [`grip_go::go_mod::MAX_BYTES`].
    TooLarge,
    Absent,
}

/// Whether a repository may speak for a module path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trust {
    /// Anybody could claim it.
    Refused,
    /// The operator has chosen to believe this repository.
    Chosen,
    /// The path leads to this repository.
    Proven,
}

/// Why a source gave no answer. The texts are sentences for the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SourceError {
    #[error("{reason}")]
    Wait {
        /// By the clock of this host.
        until_ms: i64,
        reason: String,
        /// Whether the host was asked and said no, so that it counts as an attempt.
        counts: bool,
    },
    #[error("{0}")]
    Transient(String),
    /// Access is denied, which may pass by itself.
    #[error("{0}")]
    Denied(String),
    #[error("{0}")]
    Permanent(String),
}
