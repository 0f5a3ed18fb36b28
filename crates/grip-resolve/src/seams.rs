//! What the resolver asks of the node.

use futures_util::future::BoxFuture;
use grip_nostr::RepoAddr;
use grip_types::Domain;

use crate::Manifest;

/// The repositories that are served here.
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

    /// Waits until repositories have come, gone or changed, and takes them. Cancel safe. One
    /// follower.
    fn changed(&self) -> BoxFuture<'_, Changed>;
}

/// Which repositories have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    These(Vec<RepoAddr>),
    /// More than can be told apart: all have to be looked at.
    TooMany,
}

/// The node could not read what it has.
#[derive(Debug, thiserror::Error)]
#[error("what is served here could not be read")]
pub struct LocalError(#[source] pub Box<dyn std::error::Error + Send + Sync>);

/// How other hosts have fared of late.
pub trait Health: Send + Sync + 'static {
    fn of(&self, host: &Domain) -> HostHealth;
}

/// How one host has fared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostHealth {
    /// It failed too often and is left alone for a while.
    pub is_shut: bool,
    pub successes: u32,
    pub failures: u32,
}

/// Nothing is known of any host.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHealth;

impl Health for NoHealth {
    fn of(&self, _: &Domain) -> HostHealth {
        HostHealth::default()
    }
}
