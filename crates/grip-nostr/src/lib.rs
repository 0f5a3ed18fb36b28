#![doc = include_str!("../README.md")]

mod announcement;
mod deletion;
mod filter;
pub mod kinds;
mod maintainers;
mod proofs;
mod pull_request;
mod relation;
mod served;
mod state;
mod tags;

pub use announcement::{Announcement, InvalidAnnouncement};
pub use deletion::{Deletion, vanishes_from};
pub use filter::{Filter, InvalidFilter};
pub use grip_types::RepoAddr;
pub use maintainers::{Link, LinkKind, MaintainerRule, MaintainerSet, WhyEmpty, maintainer_set};
pub use nostr::prelude::{Event, EventId, Kind, PublicKey, Timestamp};
pub use proofs::{relay_proof, repository_proof, repository_root, unsigned_repository_proof};
pub use pull_request::{InvalidPullRequest, PullRequest};
pub use relation::{Address, References, address_of, references};
pub use served::{
    EventsFuture, EventsResult, FollowedRepositories, FollowedRepository, FollowedState,
    RepositoryEvents, ServedEvents, ServedRepositories,
};
pub use state::{InvalidState, State};
pub use tags::{expiration, first_value, values};

/// Says whether `a` comes before `b` among versions of one replaceable event (NIP-01): the later
/// one wins, and of two made in the same second the one with the lowest id.
pub fn supersedes(a: &Event, b: &Event) -> bool {
    (a.created_at, std::cmp::Reverse(a.id)) > (b.created_at, std::cmp::Reverse(b.id))
}
