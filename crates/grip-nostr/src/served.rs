//! Repositories that a node serves, as other features read them from the one that serves them.

use std::{error::Error, pin::Pin};

use crate::{Event, EventId, Filter, PublicKey, RepoAddr, State, Timestamp};

/// The repositories that a node serves.
pub trait ServedRepositories: Send + Sync + 'static {
    fn is_served(&self, repo: &RepoAddr) -> bool;

    /// Up to `limit` served repositories after `after`, in an order that stays the same.
    fn page(&self, after: Option<&RepoAddr>, limit: usize) -> Vec<RepoAddr>;
}

/// The signed events of the repositories that a node serves.
pub trait ServedEvents: ServedRepositories {
    /// The events of one repository; none if it is not served.
    fn events<'a>(&'a self, repo: &'a RepoAddr) -> EventsFuture<'a>;
}

pub type EventsFuture<'a> = Pin<Box<dyn Future<Output = EventsResult> + Send + 'a>>;
pub type EventsResult = Result<Option<RepositoryEvents>, Box<dyn Error + Send + Sync>>;

/// What is signed about a served repository. All of it is served: nothing that still waits for its
/// proof is among it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepositoryEvents {
    /// Its owner's.
    pub announcement: Event,
    /// The announcements of its other maintainers, by which they may be shown to be such.
    pub others: Vec<Event>,
    /// The state that speaks for it.
    pub state: Option<Event>,
}

/// The repositories of a node that are looked for on other relays, served and held.
pub trait FollowedRepositories: Send + Sync + 'static {
    /// All of them. Blocks.
    fn followed(&self) -> Result<Vec<FollowedRepository>, Box<dyn Error + Send + Sync>>;

    /// The state that speaks for a served repository. Blocks.
    fn state(&self, repo: &RepoAddr) -> Result<Option<State>, Box<dyn Error + Send + Sync>>;

    /// Time and id of the held events that match. Blocks for a moment.
    fn held(&self, filter: &Filter) -> Vec<(u64, [u8; 32])>;

    /// Says whether an event is held, or was and is still looked for.
    fn is_held(&self, id: &EventId) -> bool;

    /// Resolves when [`FollowedRepositories::followed`] may have other answers than at the last
    /// call. Cancel safe.
    fn changed(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;
}

/// A hosted repository, and the relays on which its events are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedRepository {
    pub addr: RepoAddr,
    /// Its announcement is served; of a held one, only announcements and states are of use.
    pub is_served: bool,
    /// Its confirmed maintainers, the owner first.
    pub members: Vec<PublicKey>,
    /// As the newest announcements of its maintainers write them, one of each after the other.
    pub relays: Vec<String>,
    /// The same of keys that are invited: their acceptance may be there, and only announcements and states
    /// are of use (G02-10).
    pub relays_of_invited: Vec<String>,
    /// The clone URLs of these announcements, in the same order.
    pub clones: Vec<String>,
    /// The state that speaks for it, where one is served.
    pub state: Option<FollowedState>,
}

/// The state that speaks for a repository, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FollowedState {
    pub id: EventId,
    pub created_at: Timestamp,
}
