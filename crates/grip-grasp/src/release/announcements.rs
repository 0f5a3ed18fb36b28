//! Releasing announcements for which a served state speaks already.

use std::sync::Arc;

use grip_nostr::{Address, Event, RepoAddr, State, supersedes};
use grip_purgatory::{CompactEvent, Phase};
use grip_tasks::fault;
use grip_types::Identifier;

use super::{
    Released,
    states::{has_all, served_states},
};
use crate::{
    admission::{Announcements, View, effective_state},
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
            let mut steps = Vec::new();
            for (addr, event, phase) in held {
                let event = event.unpack();
                let due = core.due(&identifier, &addr, &event, phase)?;
                steps.extend(due.map(|due| Step { addr, event, due }));
            }
            Ok::<_, GraspError>(steps)
        };
        for step in self.blocking("grasp.judge", look).await?? {
            let outcome = self.release_announcement(step, released).await;
            released.note(outcome);
        }
        Ok(())
    }

    fn due(
        &self,
        identifier: &Identifier,
        addr: &RepoAddr,
        event: &Event,
        phase: Phase,
    ) -> Result<Option<Due>, GraspError> {
        let policy = self.policy.load();
        let due = self.look(|view: &dyn View| {
            if view.deletion_of(event)?.is_some() {
                return Ok(Some(Due::Deleted));
            }
            if let Some(served) = view.latest(&Address::of_announcement(addr))?
                && !supersedes(event, &served)
            {
                return Ok(Some(Due::Served));
            }
            let announcements = Announcements::load(identifier, view, &policy)?;
            let states = served_states(identifier, view)?;
            let effective = effective_state(&announcements.set_of(&addr.owner), &states);
            let speaks = effective.filter(|state| !state.refs.is_empty() && phase == Phase::Shown);
            match speaks {
                Some(state) if has_all(state, view)? => {
                    Ok(Some(Due::Ready(Box::new(state.clone()))))
                }
                _ => Ok(None),
            }
        })?;
        Ok(due)
    }

    async fn release_announcement(
        self: &Arc<Self>,
        step: Step,
        released: &mut Released,
    ) -> Result<(), GraspError> {
        let Step { addr, event, due } = step;
        match due {
            Due::Served => {
                self.have_repository(addr.clone(), RepositoryStatus::Served)
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
                if self.is_served_now(&puts[0], event.id, released) {
                    released.announcements_released += 1;
                    self.hosted.set(&addr, RepositoryStatus::Served);
                    self.hosted.events_changed(&addr.identifier);
                }
                self.forget_announcement(&addr).await;
            }
        }
        Ok(())
    }
}
