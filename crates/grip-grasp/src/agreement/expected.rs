//! The statement: which repositories of an identifier are here, and which refs they show.

use std::collections::{BTreeMap, BTreeSet};

use grip_nostr::{Event, EventId, PublicKey, RepoAddr, State};
use grip_types::{Identifier, Oid};

use crate::{
    RepositoryStatus,
    admission::{Announcements, EventStatus, View, ViewError, effective_state},
    policy::Policy,
    push_rules::{Alignment, Candidates, Refs, settlement},
    release::{served_states, served_states_of},
};

/// The repositories of an identifier that are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    All,
    /// Those whose maintainers depend on what this key announces: what others have stored under the
    /// same name costs nothing.
    DependingOn(PublicKey),
}

impl Scope {
    /// The owners that are looked at, if not all are.
    pub(crate) fn owners(self, announcements: &Announcements) -> Option<BTreeSet<PublicKey>> {
        match self {
            Self::All => None,
            Self::DependingOn(author) => Some(announcements.depending_on(&author)),
        }
    }
}

/// What the repositories of one identifier have to look like.
pub(crate) struct Expected {
    pub(crate) announcements: Announcements,
    /// The owners that are looked at, if not all are.
    owners: Option<BTreeSet<PublicKey>>,
    pub(crate) repositories: BTreeMap<RepoAddr, ExpectedRepository>,
}

/// What one of them has to look like.
pub(crate) struct ExpectedRepository {
    pub(crate) status: RepositoryStatus,
    /// Its announcement.
    pub(crate) event: Event,
    pub(crate) proof: Proof,
    /// `refs/nostr/*` of served pull requests whose tips are here.
    pub(crate) tips: BTreeMap<EventId, Oid>,
    /// Tips of served pull requests that are nowhere here any more.
    pub(crate) lost_tips: BTreeMap<EventId, Oid>,
}

/// What speaks for the branches and tags of a repository.
pub(crate) enum Proof {
    /// Nobody's states count, so that the refs stay as they were applied last (G01-73).
    Nobody,
    /// A push may have moved refs to what a held state says; all others are as the effective one,
    /// if there is one, says.
    States {
        effective: Option<Box<State>>,
        held: Vec<State>,
    },
}

impl Expected {
    /// Reads what is served and held. The tips of pull requests are added by the caller.
    pub(crate) fn load(
        identifier: &Identifier,
        scope: Scope,
        view: &dyn View,
        policy: &Policy,
    ) -> Result<Self, ViewError> {
        let announcements = Announcements::load(identifier, view, policy)?;
        let owners = scope.owners(&announcements);
        // Of the many states that strangers may hold under the same name none is read.
        let (members, served) = match &owners {
            None => (
                announcements.maintainers(|_| true),
                served_states(identifier, view)?,
            ),
            Some(owners) => {
                let members = announcements.members_of(owners);
                let served = served_states_of(identifier, &members, view)?;
                (members, served)
            }
        };
        let mut held = Vec::new();
        for entry in view.held_states(identifier)? {
            if members.contains(&entry.author) {
                let event = view.held_event(&entry.id)?;
                held.extend(event.and_then(|event| State::parse(event).ok()));
            }
        }
        let mut repositories = BTreeMap::new();
        for addr in announcements.hosted() {
            if owners.as_ref().is_some_and(|it| !it.contains(&addr.owner)) {
                continue;
            }
            let set = announcements.set_of(&addr.owner);
            let Some((announcement, status)) = announcements.of(&addr.owner) else {
                continue;
            };
            let proof = if set.is_empty() {
                Proof::Nobody
            } else {
                let effective = effective_state(&set, &served);
                let first = effective.map(|state| state.event.id);
                let of_set = |states: &[State]| {
                    let counting = states.iter().filter(|it| set.contains(&it.event.pubkey));
                    counting.cloned().collect()
                };
                let candidates = Candidates::new(&set, of_set(&served), of_set(&held));
                let held = candidates.iter().filter(|it| Some(it.event.id) != first);
                Proof::States {
                    held: held.cloned().collect(),
                    effective: effective.cloned().map(Box::new),
                }
            };
            let expected = ExpectedRepository {
                status: match status {
                    EventStatus::Served => RepositoryStatus::Served,
                    EventStatus::Held | EventStatus::Hidden => RepositoryStatus::Held,
                },
                event: announcement.event.clone(),
                proof,
                tips: BTreeMap::new(),
                lost_tips: BTreeMap::new(),
            };
            repositories.insert(addr, expected);
        }
        Ok(Self {
            announcements,
            owners,
            repositories,
        })
    }

    /// Says whether the repository of `owner` is looked at.
    pub(super) fn is_about(&self, owner: &PublicKey) -> bool {
        self.owners
            .as_ref()
            .is_none_or(|owners| owners.contains(owner))
    }

    /// The repositories that a pull request may be meant for and be shown in one of these.
    pub(super) fn targets(&self) -> BTreeSet<RepoAddr> {
        if self.owners.is_none() {
            return self.announcements.authors().collect();
        }
        let families = self.repositories.keys().flat_map(|addr| {
            let set = self.announcements.set_of(&addr.owner);
            let of_member = |member: &PublicKey| RepoAddr::new(*member, addr.identifier.clone());
            set.iter().map(of_member).collect::<Vec<_>>()
        });
        families.collect()
    }

    /// The keys whose states somebody here can show, or will once they accept.
    pub(crate) fn awaited(&self) -> BTreeSet<PublicKey> {
        self.announcements.awaited()
    }
}

impl ExpectedRepository {
    /// Says whether its announcement is served without anything that proves it.
    pub(crate) fn is_unproven(&self) -> bool {
        let no_state = matches!(
            self.proof,
            Proof::States {
                effective: None,
                ..
            }
        );
        no_state && self.status == RepositoryStatus::Served
    }

    /// The state that speaks for it.
    pub(crate) fn effective(&self) -> Option<&State> {
        match &self.proof {
            Proof::States { effective, .. } => effective.as_deref(),
            Proof::Nobody => None,
        }
    }

    /// What has to change on its branches, tags and HEAD.
    pub(crate) fn settlement(&self, current: &Refs) -> Alignment {
        match &self.proof {
            Proof::Nobody => Alignment::default(),
            Proof::States { effective, held } => settlement(effective.as_deref(), held, current),
        }
    }
}
