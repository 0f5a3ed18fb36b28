//! Kinds 1618 and 1619: pull requests and their updates.

use grip_types::Oid;
use nostr::prelude::{Event, EventId};

use crate::{RepoAddr, kinds, relation, tags};

/// A pull request or an update of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequest {
    pub event: Event,
    /// The tip: first value of the first `c` tag.
    pub tip: Oid,
    /// Repositories the `a` tags name.
    pub targets: Vec<RepoAddr>,
    /// Where the tip can be fetched.
    pub clone: Vec<String>,
    /// For an update, the pull request it belongs to.
    pub root: Option<EventId>,
}

/// Why an event is no usable pull request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidPullRequest {
    #[error("kind {0} is no pull request")]
    Kind(u16),
    #[error("a pull request names its tip in a `c` tag")]
    NoTip,
    #[error("the `c` tag is not 40 or 64 lower-case hex digits")]
    Tip,
}

impl PullRequest {
    pub fn parse(event: Event) -> Result<Self, InvalidPullRequest> {
        if !Self::is_one(&event) {
            return Err(InvalidPullRequest::Kind(event.kind.as_u16()));
        }
        let tip = tags::first_value(&event, "c").ok_or(InvalidPullRequest::NoTip)?;
        let tip = tip.parse().map_err(|_| InvalidPullRequest::Tip)?;
        let mut targets: Vec<RepoAddr> = event
            .tags
            .iter()
            .filter(|tag| tag.kind() == "a")
            .filter_map(|tag| tag.content()?.parse::<relation::Address>().ok())
            .filter(|address| address.kind == kinds::ANNOUNCEMENT)
            .filter_map(|address| address.repository())
            .collect();
        targets.sort();
        targets.dedup();
        let root = tags::first_value(&event, "E")
            .or_else(|| tags::first_value(&event, "e"))
            .and_then(tags::hex32)
            .map(|id| EventId::from_slice(&id).expect("32 bytes"));
        Ok(Self {
            tip,
            targets,
            clone: tags::values(&event, "clone").map(str::to_owned).collect(),
            root: root.filter(|_| event.kind == kinds::PULL_REQUEST_UPDATE),
            event,
        })
    }

    pub fn is_one(event: &Event) -> bool {
        [kinds::PULL_REQUEST, kinds::PULL_REQUEST_UPDATE].contains(&event.kind)
    }
}
