//! Releasing announcements for which a served state speaks already.

use std::{borrow::Cow, collections::BTreeSet, sync::Arc};

use grip_nostr::{Address, Event, PublicKey, RepoAddr, State, supersedes};
use grip_purgatory::{CompactEvent, Phase};
use grip_tasks::fault;
use grip_types::Identifier;

use super::{
    Released,
    states::{has_all, served_states_of},
};
use crate::{
    admission::{Announcements, View, ViewError, effective_state},
    agreement::Scope,
    error::GraspError,
    grasp::Core,
    hosted_repositories::RepositoryStatus,
};

/// What a held announcement has come to.
enum Due {
    /// It or a newer version is served: only the row is left.
    Served,
    /// Its owner deleted it.
    Deleted,
    /// A served state is its first data.
    Ready(Box<State>),
}

struct Step {
    addr: RepoAddr,
    event: Event,
    due: Due,
}

impl Core {
    pub(super) async fn release_announcements(
        self: &Arc<Self>,
        identifier: &Identifier,
        scope: Scope,
        released: &mut Released,
    ) -> Result<(), GraspError> {
        let held: Vec<(RepoAddr, CompactEvent, Phase)> = {
            let purgatory = self.purgatory.lock();
            let entries = purgatory.announcements(identifier);
            let held = entries.map(|e| (e.addr.clone(), e.held.event.clone(), e.phase));
            held.collect()
        };
        if held.is_empty() {
            return Ok(());
        }
        let identifier = identifier.clone();
        let look = move |core: &Self| {
            let policy = core.policy.load();
            core.look(|view| {
                // Once for all: strangers may hold many under the same name.
                let announcements = Announcements::load(&identifier, view, &policy)?;
                let mut owners: BTreeSet<PublicKey> =
                    held.iter().map(|(addr, ..)| addr.owner).collect();
                if let Some(of_scope) = scope.owners(&announcements) {
                    owners = &owners & &of_scope;
                }
                // Whoever is served under the same name has nothing to say of these.
                let members = announcements.members_of(&owners);
                let states = served_states_of(&identifier, &members, view)?;
                let known = Known {
                    announcements,
                    states,
                };
                let mut steps = Vec::new();
                for (addr, event, phase) in held {
                    if !owners.contains(&addr.owner) {
                        continue;
                    }
                    let event = known.event(&addr, &event);
                    if let Some(due) = known.due(&addr, &event, phase, view)? {
                        let event = event.into_owned();
                        steps.push(Step { addr, event, due });
                    }
                }
                Ok(steps)
            })
        };
        for step in self.blocking("grasp.judge", look).await?? {
            let outcome = self.release_announcement(step, released).await;
            released.note(outcome);
        }
        Ok(())
    }

    async fn release_announcement(
        self: &Arc<Self>,
        step: Step,
        released: &mut Released,
    ) -> Result<(), GraspError> {
        let Step { addr, event, due } = step;
        match due {
            Due::Served => {
                self.have_repository(addr.clone(), RepositoryStatus::Served, None)
                    .await?;
                self.forget_announcement(&addr).await;
            }
            Due::Deleted => {
                self.forget_announcement(&addr).await;
                self.blocking("git.remove", move |core| core.remove_or_archive(&addr))
                    .await??;
            }
            Due::Ready(state) => {
                let align = {
                    let addr = addr.clone();
                    move |core: &Self| core.align(&addr, &state)
                };
                released.count(self.blocking("git.align", align).await??);
                fault::point("release.refs_aligned");
                let puts = self.commit.events(vec![event.clone()]).await?;
                fault::point("release.event_saved");
                self.note_announcement(&addr, &event, &puts[0], released)
                    .await?;
                self.hosted.events_changed(&addr.identifier);
                self.forget_announcement(&addr).await;
            }
        }
        Ok(())
    }
}

/// What is served and held of an identifier.
struct Known {
    announcements: Announcements,
    states: Vec<State>,
}

impl Known {
    /// A held announcement, which has been read already unless another version counts.
    fn event<'a>(&'a self, addr: &RepoAddr, held: &CompactEvent) -> Cow<'a, Event> {
        match self.announcements.of(&addr.owner) {
            Some((known, _)) if known.event.id == held.id() => Cow::Borrowed(&known.event),
            _ => Cow::Owned(held.unpack()),
        }
    }

    fn due(
        &self,
        addr: &RepoAddr,
        event: &Event,
        phase: Phase,
        view: &dyn View,
    ) -> Result<Option<Due>, ViewError> {
        if view.deletion_of(event)?.is_some() {
            return Ok(Some(Due::Deleted));
        }
        if let Some(served) = view.latest(&Address::of_announcement(addr))?
            && !supersedes(event, &served)
        {
            return Ok(Some(Due::Served));
        }
        let set = self.announcements.set_of(&addr.owner);
        let effective = effective_state(&set, &self.states);
        let speaks = effective.filter(|state| !state.refs.is_empty() && phase == Phase::Shown);
        Ok(match speaks {
            Some(state) if has_all(state, view)? => Some(Due::Ready(Box::new(state.clone()))),
            _ => None,
        })
    }
}
