//! The `Source` trait: repositories the index reads.
//!
//! Invariant: a source decides nothing about the feed. It says what is there, and which module
//! paths its repositories may speak for; the rules are the same for all of them.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use grip_go::ModulePath;
use grip_types::Oid;

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

    /// The tags of a repository, or that nothing has changed since `etag` was given out. What was
    /// put by on another occasion is too old to go on with.
    fn tags<'a>(
        &'a self,
        repo: &'a str,
        etag: Option<String>,
        occasion: Occasion,
    ) -> SourceFuture<'a, Tags>;

    /// Whether a repository that the latest listing lacks is there all the same, by that name.
    fn is_there<'a>(&'a self, repo: &'a str) -> SourceFuture<'a, bool> {
        let _ = repo;
        Box::pin(std::future::ready(Ok(true)))
    }

    /// Whether a repository that somebody has named, or that has news, would be in a listing of
    /// now, where listings leave some out.
    fn admits<'a>(&'a self, repo: &'a str) -> SourceFuture<'a, bool> {
        let _ = repo;
        Box::pin(std::future::ready(Ok(true)))
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

    /// Called when a repository's turn has ended well: what was put by to go on after an
    /// interruption is not needed any more.
    fn finished(&self, repo: &str) {
        let _ = repo;
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

/// A page of repositories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    pub repos: Vec<String>,
    /// Where the next page begins; none after the last.
    pub next: Option<String>,
}

/// Why a repository has its turn: the same for all turns until somebody asks for it again or one of
/// them has ended well, on whichever instance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Occasion {
    /// The job, whose number no other ever has.
    pub(crate) job: i64,
    pub(crate) asked: i64,
    pub(crate) finished_ms: Option<i64>,
}

/// The tags of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tags {
    Unchanged,
    All {
        tags: Vec<TagAt>,
        etag: Option<String>,
    },
    /// There is no such repository, or it has another name now.
    Gone,
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
    #[error("{0}")]
    Permanent(String),
}
