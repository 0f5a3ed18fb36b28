//! A decision on an event: its outcome, the steps that led to it, and its effects.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use grip_nostr::{Event, EventId, RepoAddr};
use grip_purgatory::{Family, Provenance};
use grip_types::{EventSource, Identifier, Oid};

use super::{Denial, EventStatus};

/// The `OK` text of a held event, exactly as GRASP-01 words it.
pub(crate) const HELD: &str = "purgatory: won't be served until git data arrives";

/// The same for a state that another one of its author and second is ahead of.
const HELD_TIE: &str = "purgatory: you signed another state in the same second, and the one with \
                        the lowest id counts (NIP-01); this one waits in case that one goes, but \
                        cannot be pushed: sign it again with a later created_at";

/// A decision about one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) outcome: Outcome,
    /// The rules that were asked, in order, for `explain`.
    pub(crate) steps: Vec<Step>,
    /// What has to be done besides, in this order, whatever the outcome is: refusals have
    /// effects too.
    pub(crate) effects: Vec<Effect>,
    /// Whose room the event may take if it is held, the best first.
    pub(crate) families: Vec<Family>,
    /// The `OK` text if it is held.
    pub(crate) held_text: &'static str,
    /// Only the legacy maintainer rule granted this; the reciprocal one would not.
    pub(crate) legacy_only: bool,
    /// Why the legacy maintainer rule would have granted what the rule in force does not (G01-78).
    pub(crate) denials: Vec<Denial>,
}

/// Pull requests whose refs are to be deleted, by the name of the repositories they are in.
pub(crate) type ClearedRefs = BTreeMap<Identifier, BTreeSet<EventId>>;

impl Decision {
    /// The names that have to be looked at again.
    pub(crate) fn reexamined(&self) -> impl Iterator<Item = &Identifier> {
        self.effects.iter().filter_map(|effect| match effect {
            Effect::Reexamine(identifier) => Some(identifier),
            _ => None,
        })
    }

    /// Takes out the refs that are to be deleted in repositories of other names than `names`: strangers may
    /// have pushed them to any, so they are deleted in the turn of one name after the other.
    pub(crate) fn take_cleared_beyond(&mut self, names: &[Identifier]) -> ClearedRefs {
        let mut beyond = ClearedRefs::new();
        for effect in &mut self.effects {
            let Effect::ClearPullRequestRef {
                event,
                repositories,
                unless: None,
            } = effect
            else {
                continue;
            };
            repositories.retain(|repository| {
                let is_here = names.contains(&repository.identifier);
                if !is_here {
                    let name = repository.identifier.clone();
                    beyond.entry(name).or_default().insert(*event);
                }
                is_here
            });
        }
        beyond
    }
}

/// What becomes of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Store it and tell subscribers.
    Serve,
    /// Keep it unseen until its git data is here.
    Hold,
    /// Tell subscribers, store nothing.
    Broadcast,
    /// It is here already.
    Duplicate(EventStatus),
    /// A request that is not served any more, and still refuses what it is about (G01-116).
    Retired,
    Refuse(Reason),
}

/// One rule that was asked, and what it said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    /// The requirement, such as `G01-3`.
    pub(crate) rule: &'static str,
    pub(crate) text: Cow<'static, str>,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.rule, self.text)
    }
}

/// Work that follows from a decision. All of it is idempotent, as the same event may come again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Have the repository: the one that is there and no longer withdrawn, the archived one of
    /// this owner, or an empty one.
    CreateRepository(RepoAddr),
    /// Restart the timer of a held announcement, or bring it back from hiding (G01-19, G01-20).
    KeepAlive(RepoAddr),
    /// Forget a held announcement and remove its empty repository (G01-18, G01-56).
    EvictAnnouncement(RepoAddr),
    /// Forget held states.
    DropStates {
        identifier: Identifier,
        ids: Vec<EventId>,
    },
    /// Forget a held pull request or update.
    DropPullRequest(EventId),
    /// Have `refs/nostr/<event>` at `tip` in these repositories (G01-48).
    SetPullRequestRef {
        event: EventId,
        tip: Oid,
        repositories: Vec<RepoAddr>,
        /// The contributor repository that has it, for those that do not (G06-9).
        source: Option<RepoAddr>,
    },
    /// Delete `refs/nostr/<event>` in these repositories unless it is at `unless`.
    ClearPullRequestRef {
        event: EventId,
        repositories: Vec<RepoAddr>,
        unless: Option<Oid>,
    },
    /// The owner's newest announcement no longer lists us. Remember it, so that no older one brings them
    /// back; keep the repository of a served one read-only for a grace time from the first notice, then
    /// archive it (G01-15a 6), and forget one that waits (G01-18).
    Leave {
        by: Box<Event>,
        /// How the one stands that it takes the place of; none if nothing is here.
        of: Option<EventStatus>,
    },
    /// The owner deleted the served announcement: no grace time is left (G01-106, G01-107).
    EndGrace(RepoAddr),
    /// A request to delete or to vanish was of use: its time begins again (G01-103).
    UseRequest(EventId),
    /// The author of this profile is not known here: it stays for a day (G03-5).
    NoteNewcomer,
    /// Look again at what is authorised and effective, and release what can be (G01-15a 7).
    Reexamine(Identifier),
}

/// Why an event is refused; written as `prefix: text`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reason {
    pub(crate) prefix: Prefix,
    pub(crate) cause: Cause,
    pub(crate) text: Cow<'static, str>,
}

impl Reason {
    pub(super) fn new(prefix: Prefix, cause: Cause, text: impl Into<Cow<'static, str>>) -> Self {
        let text = text.into();
        Self {
            prefix,
            cause,
            text,
        }
    }

    pub(super) fn invalid(problem: impl fmt::Display) -> Self {
        Self::new(Prefix::Invalid, Cause::Malformed, problem.to_string())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.prefix.as_str(), self.text)
    }
}

/// The machine-readable word before a refusal (NIP-01).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefix {
    Invalid,
    Blocked,
}

impl Prefix {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Blocked => "blocked",
        }
    }
}

/// What stood in the way, for counting and for callers that may wait a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    Banned,
    Expired,
    Deleted,
    Malformed,
    /// A newer version is here.
    Superseded,
    /// Another version of the same second wins; signing again later helps.
    Tie,
    NotListed,
    NotSelected,
    Private,
    /// A private service takes announcements of its members alone.
    NotAMember,
    /// No announcement lists this server for the identifier. Clients send both at once, so it
    /// may come within the second.
    Unannounced,
    Unauthorised,
    /// All it refers to is held itself.
    NoGitData,
    Unrelated,
    /// A kind that has no place here.
    Kind,
    /// The repository has as many of these as it may have.
    Full,
}

impl Cause {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Banned => "banned",
            Self::Expired => "expired",
            Self::Deleted => "deleted",
            Self::Malformed => "malformed",
            Self::Superseded => "superseded",
            Self::Tie => "tie",
            Self::NotListed => "not_listed",
            Self::NotSelected => "not_selected",
            Self::Private => "private",
            Self::NotAMember => "not_a_member",
            Self::Unannounced => "unannounced",
            Self::Unauthorised => "unauthorised",
            Self::NoGitData => "no_git_data",
            Self::Unrelated => "unrelated",
            Self::Kind => "kind",
            Self::Full => "full",
        }
    }
}

impl Decision {
    /// Where the event came from, and whose room it may take.
    pub(crate) fn provenance(&self, source: EventSource) -> Provenance {
        Provenance {
            source,
            families: self.families.clone(),
        }
    }

    /// The two last members of the `OK` that answers the event.
    pub(crate) fn answer(&self) -> (bool, Cow<'static, str>) {
        match &self.outcome {
            Outcome::Serve | Outcome::Broadcast => (true, "".into()),
            Outcome::Hold => (true, self.held_text.into()),
            Outcome::Duplicate(EventStatus::Served) => (true, "duplicate: already served".into()),
            Outcome::Duplicate(_) => (true, "duplicate: in purgatory".into()),
            Outcome::Retired => {
                let text = "duplicate: deletion request is no longer served; it still refuses \
                            what it names";
                (true, text.into())
            }
            Outcome::Refuse(reason) => (false, reason.to_string().into()),
        }
    }
}

/// The steps taken so far.
#[derive(Debug, Default)]
pub(super) struct Trail {
    steps: Vec<Step>,
    effects: Vec<Effect>,
    families: Vec<Family>,
    /// Another version of the same second counts, as long as it is there.
    loses_tie: bool,
    legacy_only: bool,
    denials: Vec<Denial>,
}

impl Trail {
    pub(super) fn note(&mut self, rule: &'static str, text: impl Into<Cow<'static, str>>) {
        let text = text.into();
        self.steps.push(Step { rule, text });
    }

    pub(super) fn then(&mut self, effect: Effect) {
        self.effects.push(effect);
    }

    /// Notes whose room the event may take: that of what is served first.
    pub(super) fn find_room(&mut self, mut families: Vec<Family>) {
        families.sort_by_key(|family| !family.granted);
        self.families = families;
    }

    pub(super) fn drop_states(&mut self, identifier: &Identifier, mut ids: Vec<EventId>) {
        ids.sort_unstable();
        ids.dedup();
        if !ids.is_empty() {
            let identifier = identifier.clone();
            self.then(Effect::DropStates { identifier, ids });
        }
    }

    /// Notes that `winner`, of the same second, counts instead.
    pub(super) fn lose_tie(&mut self, winner: &EventId) {
        let text = format!("{winner} is of the same second and counts, for its id is lower");
        self.note("G01-30", text);
        self.loses_tie = true;
    }

    pub(super) fn flag_legacy_only(&mut self) {
        self.legacy_only = true;
        self.note("G01-78", "only the legacy maintainer rule grants this");
    }

    /// Notes whom the rule in force keeps from what the legacy one would grant.
    pub(super) fn deny(&mut self, denials: Vec<Denial>) {
        self.denials = denials;
    }

    pub(super) fn refuse(mut self, rule: &'static str, reason: Reason) -> Decision {
        self.note(rule, reason.text.clone());
        self.end(Outcome::Refuse(reason))
    }

    pub(super) fn end(self, outcome: Outcome) -> Decision {
        Decision {
            outcome,
            steps: self.steps,
            effects: self.effects,
            families: self.families,
            held_text: if self.loses_tie { HELD_TIE } else { HELD },
            legacy_only: self.legacy_only,
            denials: self.denials,
        }
    }
}
