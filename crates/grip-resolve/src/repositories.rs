//! Served repositories, as the resolver reads them.

use futures_util::future::BoxFuture;
use grip_nostr::RepoAddr;

use crate::Manifest;

/// The repositories that this node serves.
pub trait Repositories: Send + Sync + 'static {
    /// The manifest of a served repository; none if it is not served, or is private.
    fn manifest<'a>(
        &'a self,
        name: &'a RepoAddr,
    ) -> BoxFuture<'a, Result<Option<Manifest>, LocalError>>;

    /// Up to `limit` served repositories in the order of their names, those after `after`.
    fn page<'a>(
        &'a self,
        after: Option<&'a RepoAddr>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<RepoAddr>, LocalError>>;

    /// Waits until repositories are added, removed or changed, and takes them. Cancel safe. One
    /// caller.
    fn changed(&self) -> BoxFuture<'_, Changed>;
}

/// Which repositories have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    These(Vec<RepoAddr>),
    /// More than are kept: any may have changed.
    TooMany,
}

/// A served repository could not be read.
#[derive(Debug, thiserror::Error)]
#[error("failed to read the served repositories")]
pub struct LocalError(#[source] pub Box<dyn std::error::Error + Send + Sync>);
