//! The parts of the node that admission reads.

use std::error::Error;

use grip_nostr::{Address, Event, EventId, Kind, PublicKey, RepoAddr, Timestamp};
use grip_types::{Identifier, Oid};

use super::KnownAnnouncement;
use crate::{departures::Departure, policy::Policy};

/// What is held and served at one moment. Implemented by the holder of the identifier's turn, or
/// the writer's transaction for the kinds that need no git data.
pub(crate) trait View {
    /// The kind of a served event, without reading the rest of it.
    fn served_kind(&self, id: &EventId) -> Result<Option<Kind>, ViewError>;

    fn served_event(&self, id: &EventId) -> Result<Option<Event>, ViewError>;

    /// The served version of an address.
    fn latest(&self, address: &Address) -> Result<Option<Event>, ViewError>;

    /// Says whether a version of an address is served, without reading it.
    fn is_address_served(&self, address: &Address) -> Result<bool, ViewError>;

    /// Says whether a served event refers to this one by `e`, `E` or `q`. Deletion requests and
    /// grasp lists do not count: anyone may store them, so they would relate anything.
    fn is_referenced(&self, id: &EventId) -> Result<bool, ViewError>;

    /// As [`Self::is_referenced`], by `a`, `A` or `q`.
    fn is_address_referenced(&self, address: &Address) -> Result<bool, ViewError>;

    /// Says whether somebody has a repository here, or has said something about one.
    fn is_known(&self, author: &PublicKey) -> Result<bool, ViewError>;

    /// Says whether a request is known that is not served any more.
    fn is_request_retired(&self, id: &EventId) -> Result<bool, ViewError>;

    /// The request to delete or to vanish that covers this event.
    fn deletion_of(&self, event: &Event) -> Result<Option<EventId>, ViewError>;

    /// The newest announcement of each author that is served, and those that are held, hidden or not;
    /// without those that count nowhere by `policy`.
    fn announcements(
        &self,
        identifier: &Identifier,
        policy: &Policy,
    ) -> Result<Vec<KnownAnnouncement>, ViewError>;

    /// The same of one author: none, the one that is served or held, or both.
    fn announcements_of(
        &self,
        addr: &RepoAddr,
        policy: &Policy,
    ) -> Result<Vec<KnownAnnouncement>, ViewError>;

    /// The held announcement of a repository, hidden or not.
    fn held_announcement(&self, addr: &RepoAddr) -> Result<Option<Event>, ViewError>;

    /// The newest served state of each author.
    fn served_states(&self, identifier: &Identifier) -> Result<Vec<Event>, ViewError>;

    fn held_states(&self, identifier: &Identifier) -> Result<Vec<HeldState>, ViewError>;

    /// A held announcement, state or pull request, announcements that went into hiding included.
    fn held_event(&self, id: &EventId) -> Result<Option<Event>, ViewError>;

    /// Says whether an announcement, state or pull request of this id is held, without reading it;
    /// announcements that went into hiding included.
    fn is_kept(&self, id: &EventId) -> Result<bool, ViewError>;

    /// Says whether the announcement of a repository is held, hidden or not, without reading it.
    fn is_announcement_held(&self, addr: &RepoAddr) -> Result<bool, ViewError>;

    /// Says whether an event is held and waiting; an announcement in hiding (G01-20) is not.
    fn is_held(&self, id: &EventId) -> Result<bool, ViewError>;

    /// Says whether this event came by sync and expired without git data (G01-20).
    fn expired_before(&self, id: &EventId) -> Result<bool, ViewError>;

    /// Says whether this event expired and its data is still looked for (G02-2). It is not held,
    /// and nothing else here shows it.
    fn is_wanted(&self, id: &EventId) -> Result<bool, ViewError>;

    /// The repositories to which `refs/nostr/<id>` was pushed before the event was known.
    fn placeholders(&self, id: &EventId) -> Result<Vec<RepoAddr>, ViewError>;

    /// Says whether the objects of `refs/nostr/<id>` at `tip` are staged in a repository: there, and
    /// nowhere else until the event is served.
    fn is_staged(&self, repository: &RepoAddr, id: &EventId, tip: &Oid) -> Result<bool, ViewError>;

    /// How many `refs/nostr/*` a repository has, and how many of them are of pull requests by `author`;
    /// these are not counted where there are fewer than `least` in all.
    fn request_refs(
        &self,
        repository: &RepoAddr,
        author: &PublicKey,
        least: usize,
    ) -> Result<RequestRefs, ViewError>;

    /// Says whether anything is hosted or held for an identifier.
    fn is_name_known(&self, identifier: &Identifier) -> Result<bool, ViewError>;

    /// Says whether the owner of `addr` has anything under its name that a request could take back: a
    /// repository, an announcement or a state, or has left it.
    fn has_anything(&self, addr: &RepoAddr) -> Result<bool, ViewError>;

    /// A held announcement, state or pull request, or one whose data is still looked for.
    fn waiting_event(&self, id: &EventId) -> Result<Option<Event>, ViewError>;

    /// The announcement by which an owner left, which is served nowhere.
    fn departure(&self, addr: &RepoAddr) -> Result<Option<Departure>, ViewError>;

    /// What is stored for an identifier under each of `oids`, in their order.
    fn objects(&self, identifier: &Identifier, oids: &[Oid]) -> Result<Vec<Found>, ViewError>;
}

/// What admission reads of a held state: never its refs, which may be thousands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeldState {
    pub(crate) id: EventId,
    pub(crate) author: PublicKey,
    pub(crate) created_at: Timestamp,
}

/// Refs of pull requests in one repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RequestRefs {
    pub(crate) all: usize,
    pub(crate) of_author: usize,
}

/// What an object id stands for here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Missing,
    Commit,
    /// A tag, a tree or a blob.
    Other,
}

/// What is held and served could not be read.
#[derive(Debug, thiserror::Error)]
#[error("what is held and served here could not be read")]
pub(crate) struct ViewError(#[source] Box<dyn Error + Send + Sync>);

impl ViewError {
    pub(crate) fn new(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self(source.into())
    }
}
