//! Disagreements between relay and git, in words for people.

use std::fmt;

use grip_nostr::{EventId, RepoAddr};
use grip_types::{Identifier, Oid, RefName};

use crate::RepositoryStatus;

/// One point in which relay and git, or what is held and its reason, do not agree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    pub identifier: Identifier,
    /// None if it is not about one repository.
    pub repository: Option<RepoAddr>,
    pub fault: Fault,
}

/// What is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// Announced here, and not on disk.
    Absent,
    /// Its announcement is served and counts as held, or the other way round.
    Status { says: RepositoryStatus },
    /// On disk or served over git, and announced by nobody.
    Unannounced,
    /// Its announcement is served, and no state speaks for it.
    Unproven,
    /// A ref is elsewhere than what is served says.
    Ref {
        name: RefName,
        is: Option<Oid>,
        says: Option<Oid>,
    },
    /// HEAD names another branch than what is served says.
    Head { is: Option<RefName>, says: RefName },
    /// A pushed ref of a pull request that is neither known nor noted.
    OrphanRef { event: EventId },
    /// A served event names an object that is not here.
    MissingObject { event: EventId, oid: Oid },
    /// A pull request is served, and its tip is nowhere here any more.
    LostTip { event: EventId, oid: Oid },
    /// Objects are on disk that belong to no repository.
    StrayStore { directory: String },
    /// An event waits although nobody could ever show it.
    HeldForNothing { event: EventId },
    /// Events wait, and their data is not looked for.
    NotLookedFor,
    /// What is on disk cannot be read or used.
    Damaged { reason: String },
    /// Its objects could not be gone through, for lack of memory for example: nothing is known to be
    /// wrong with them.
    Unread { reason: String },
}

impl Fault {
    /// A word for programs.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::Status { .. } => "status",
            Self::Unannounced => "unannounced",
            Self::Unproven => "unproven",
            Self::Ref { .. } => "ref",
            Self::Head { .. } => "head",
            Self::OrphanRef { .. } => "orphan_ref",
            Self::MissingObject { .. } => "missing_object",
            Self::LostTip { .. } => "lost_tip",
            Self::StrayStore { .. } => "stray_store",
            Self::HeldForNothing { .. } => "held_for_nothing",
            Self::NotLookedFor => "not_looked_for",
            Self::Damaged { .. } => "damaged",
            Self::Unread { .. } => "unread",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |oid: &Option<Oid>| oid.map_or_else(|| "absent".into(), |oid| oid.to_string());
        match self {
            Self::Absent => f.write_str("announced here, and not on disk"),
            Self::Status { says } => write!(f, "has to count as {says:?}"),
            Self::Unannounced => f.write_str("on disk, and announced by nobody"),
            Self::Unproven => f.write_str("announced, and no served state speaks for it"),
            Self::Ref { name, is, says } => {
                write!(f, "{name} is {} and has to be {}", at(is), at(says))
            }
            Self::Head { is, says } => {
                let is = is.as_ref().map_or("nothing", RefName::as_str);
                write!(f, "HEAD names {is} and has to name {says}")
            }
            Self::OrphanRef { event } => {
                write!(
                    f,
                    "refs/nostr/{event} is there, and neither its event nor a note of it"
                )
            }
            Self::MissingObject { event, oid } => {
                write!(
                    f,
                    "event {event} is served, and {oid} that it names is not here"
                )
            }
            Self::LostTip { event, oid } => write!(
                f,
                "pull request {event} is served, and its tip {oid} is not here any more"
            ),
            Self::StrayStore { directory } => {
                write!(f, "{directory} is on disk, and no repository uses it")
            }
            Self::HeldForNothing { event } => {
                write!(f, "event {event} waits, and nobody here could show it")
            }
            Self::NotLookedFor => f.write_str("events wait, and their data is not looked for"),
            Self::Damaged { reason } => write!(f, "damaged: {reason}"),
            Self::Unread { reason } => write!(f, "not checked, try again: {reason}"),
        }
    }
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.repository {
            Some(repository) => write!(f, "{repository}: {}", self.fault),
            None => write!(f, "{}: {}", self.identifier, self.fault),
        }
    }
}
