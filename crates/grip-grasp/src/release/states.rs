//! Releasing states, and with them the announcements that waited for a first push.

use std::{collections::BTreeSet, sync::Arc};

use grip_nostr::{Address, Event, EventId, PublicKey, RepoAddr, State, supersedes};
use grip_store::Put;
use grip_tasks::fault;
use grip_types::Identifier;

use super::{Released, again};
use crate::{
    admission::{
        Announcements, Arrival, Decision, Effect, EventStatus, Found, Grant, Outcome, View,
        ViewError, admit, effective_state,
    },
    error::GraspError,
    grasp::Core,
    hosted_repositories::RepositoryStatus,
    node_view::NodeView,
    policy::Policy,
    repositories::Moved,
};

/// What is to be done about a state whose data is here.
pub(crate) struct Plan {
    state: State,
    /// Repositories it is the effective state of, but those whose refs a push has moved to what is served
    /// right after it.
    align: Vec<RepoAddr>,
    /// Announcements it is the first data of: served together with it.
    announcements: Vec<(RepoAddr, Event)>,
    /// Repositories among `align` that went into hiding and are to be created again.
    hidden: Vec<RepoAddr>,
    /// Versions of the same author that it overtakes.
    overtaken: Vec<EventId>,
    /// The owners for whose repositories it speaks, or the announcements that are served with it.
    concerned: BTreeSet<PublicKey>,
}

impl Core {
    /// Releases one waiting state if its data is here, and drops it if it no longer counts.
    pub(super) async fn release_state(
        self: &Arc<Self>,
        identifier: &Identifier,
        id: EventId,
        coming: Arc<[State]>,
        released: &mut Released,
    ) -> Result<(), GraspError> {
        let judge = move |core: &Self| {
            let event = core.waiting_event(&id)?;
            Some(core.judge_held_state(&event, &coming))
        };
        let Some(judged) = self.blocking("grasp.judge", judge).await? else {
            return Ok(());
        };
        match judged? {
            (_, Some(plan)) => self.serve_state(identifier, plan, released).await,
            (decision, None) => {
                if matches!(decision.outcome, Outcome::Refuse(_) | Outcome::Duplicate(_)) {
                    tracing::info!(%identifier, %id, outcome = ?decision.outcome, "waiting state dropped");
                    self.drop_states(identifier, &[id]).await;
                    released.not_served += 1;
                }
                Ok(())
            }
        }
    }

    /// Those of several ready states that will be served. Blocks.
    ///
    /// A push has moved refs to what the last of them says, and its pack has what earlier ones waited for:
    /// readers would see the refs go back to those, one after the other.
    pub(super) fn coming_states(&self, ready: &[EventId]) -> Arc<[State]> {
        if ready.len() < 2 {
            return Arc::default();
        }
        let events = ready.iter().filter_map(|id| self.waiting_event(id));
        // A failure is met again, and told, when that state is released.
        let plans = events.filter_map(|event| self.judge_held_state(&event, &[]).ok()?.1);
        plans.map(|plan| plan.state).collect()
    }

    /// Decides about a state that just came, and plans its release if it can be served.
    pub(crate) fn judge_new_state(
        &self,
        event: &Event,
        arrival: Arrival,
    ) -> Result<(Decision, Option<Plan>), GraspError> {
        let events = self.events()?;
        self.judge_state(event, &NodeView::new(self, &events), arrival, &[])
    }

    /// The same for one that is held, where others will be served in the same turn.
    fn judge_held_state(
        &self,
        event: &Event,
        coming: &[State],
    ) -> Result<(Decision, Option<Plan>), GraspError> {
        let events = self.events()?;
        let view = NodeView::leaving_out(self, &events, event.id);
        self.judge_state(event, &view, again(), coming)
    }

    fn judge_state(
        &self,
        event: &Event,
        view: &dyn View,
        arrival: Arrival,
        coming: &[State],
    ) -> Result<(Decision, Option<Plan>), GraspError> {
        let policy = self.policy.load();
        let decision = admit(event, view, &policy, arrival)?;
        if decision.outcome != Outcome::Serve {
            return Ok((decision, None));
        }
        let state = State::parse(event.clone()).expect("only a state is admitted as one");
        let plan = self.plan((state, coming), &decision, view, &policy)?;
        Ok((decision, plan))
    }

    /// Aligns refs, saves the state with what waited for it, and forgets that they were held.
    pub(crate) async fn serve_state(
        self: &Arc<Self>,
        identifier: &Identifier,
        plan: Plan,
        released: &mut Released,
    ) -> Result<(), GraspError> {
        fault::point("release.objects_durable");
        for addr in &plan.hidden {
            self.keep_alive(addr, None).await?;
        }
        let Plan {
            state,
            align,
            announcements,
            overtaken,
            concerned,
            ..
        } = plan;
        let state = Arc::new(state);
        self.align_all(align, Arc::clone(&state), released).await?;
        fault::point("release.refs_aligned");
        let mut events: Vec<Event> = announcements.iter().map(|(_, e)| e.clone()).collect();
        events.push(state.event.clone());
        let puts = self.commit.events(events).await?;
        fault::point("release.event_saved");
        for ((addr, event), put) in announcements.iter().zip(&puts) {
            self.note_announcement(addr, event, put, released).await?;
        }
        if self.is_served_now(&puts[announcements.len()], &state.event, released) {
            released.states_released += 1;
        }
        self.hosted.events_changed_of(identifier, concerned);
        self.forget(|purgatory| {
            let announcements = announcements.iter().map(|(addr, _)| addr);
            purgatory.remove_served_state(identifier, &state.event, &overtaken, announcements)
        })
        .await;
        Ok(())
    }

    /// Aligns all of `repositories`. One that fails is reported and stops the rest only if none
    /// could be aligned: the state is true for the others.
    async fn align_all(
        self: &Arc<Self>,
        repositories: Vec<RepoAddr>,
        state: Arc<State>,
        released: &mut Released,
    ) -> Result<(), GraspError> {
        let identifier = state.identifier.clone();
        let align = move |core: &Self| {
            let aligned = repositories.iter().map(|addr| core.align(addr, &state));
            aligned.collect::<Vec<_>>()
        };
        let aligned = self.blocking("git.align", align).await?;
        let any = aligned.is_empty() || aligned.iter().any(Result::is_ok);
        let mut failure = None;
        for moved in aligned {
            match moved {
                Ok(moved) => released.count(moved),
                Err(error) if any => {
                    self.unsettled.add(&identifier);
                    released.note(Err(error));
                }
                Err(error) => failure = Some(error),
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Notes a held announcement that the store took. By one whose time was over before that its owner
    /// has left: no older one comes back (G01-122).
    pub(super) async fn note_announcement(
        &self,
        addr: &RepoAddr,
        event: &Event,
        put: &Put,
        released: &mut Released,
    ) -> Result<(), GraspError> {
        if self.is_served_now(put, event, released) {
            released.announcements_released += 1;
            released.announced.insert(addr.owner);
            self.hosted.set(addr, RepositoryStatus::Served);
        } else if matches!(put, Put::Expired) {
            self.remember_departure(addr, event).await?;
        }
        Ok(())
    }

    /// Notes an event that the store took; what it did not take is superseded or deleted.
    pub(super) fn is_served_now(&self, put: &Put, event: &Event, released: &mut Released) -> bool {
        let id = event.id;
        match put {
            Put::Stored { .. } => {
                released.events.push(id);
                released.authors.insert(event.pubkey);
                true
            }
            Put::Duplicate => true,
            other => {
                tracing::info!(%id, ?other, "held event not stored");
                released.not_served += 1;
                false
            }
        }
    }

    /// Brings the repositories whose effective served state differs between `before` and `after`
    /// to the new one (G01-31), where another announcement of `author` counts in `after`. Blocks.
    pub(crate) fn realign(
        &self,
        (identifier, author): (&Identifier, &PublicKey),
        (before, after): (&Announcements, &Announcements),
        view: &dyn View,
    ) -> Result<Vec<Moved>, GraspError> {
        let owners: BTreeSet<PublicKey> = before.depending_on(author);
        let owners = &owners | &after.depending_on(author);
        let members = &before.members_of(&owners) | &after.members_of(&owners);
        let states = served_states_of(identifier, &members, view)?;
        let mut moved = Vec::new();
        for addr in after.hosted().filter(|addr| owners.contains(&addr.owner)) {
            let old = effective_state(&before.set_of(&addr.owner), &states);
            let new = effective_state(&after.set_of(&addr.owner), &states);
            let changed = old.map(|s| s.event.id) != new.map(|s| s.event.id);
            let Some(new) = new.filter(|_| changed && self.hosted.status(&addr).is_some()) else {
                continue;
            };
            if has_all(new, view)? {
                moved.push(self.align(&addr, new)?);
            }
        }
        Ok(moved)
    }

    /// Says for whom a state that can be served is the effective one. None if nobody could show
    /// it: its owners' announcements wait, and an older state is not what they wait for.
    fn plan(
        &self,
        (state, coming): (State, &[State]),
        decision: &Decision,
        view: &dyn View,
        policy: &Policy,
    ) -> Result<Option<Plan>, GraspError> {
        let announcements = Announcements::load(&state.identifier, view, policy)?;
        let grants = announcements.grants(&state.event.pubkey);
        let owners = grants.iter().map(|grant| grant.repository.owner).collect();
        let members = announcements.members_of(&owners);
        let mut states = served_states_of(&state.identifier, &members, view)?;
        states.retain(|served| served.event.pubkey != state.event.pubkey);
        states.push(state.clone());
        let mut plan = Plan {
            state,
            align: Vec::new(),
            announcements: Vec::new(),
            hidden: Vec::new(),
            overtaken: overtaken(decision),
            concerned: owners,
        };
        let mut is_shown = false;
        for Grant {
            repository: addr,
            status,
            ..
        } in grants
        {
            if status != EventStatus::Hidden && self.hosted.status(&addr).is_none() {
                continue;
            }
            is_shown |= status == EventStatus::Served;
            let set = announcements.set_of(&addr.owner);
            let effective = effective_state(&set, &states);
            let leads = effective.is_some_and(|e| e.event.id == plan.state.event.id);
            if !leads || (plan.state.refs.is_empty() && status != EventStatus::Served) {
                continue;
            }
            if status != EventStatus::Served
                && let Some((announcement, _)) = announcements.of(&addr.owner)
            {
                is_shown = true;
                let event = announcement.event.clone();
                plan.announcements.push((addr.clone(), event));
            }
            if status == EventStatus::Hidden {
                plan.hidden.push(addr.clone());
            } else if let Some(last) = effective_state(&set, coming)
                && supersedes(&last.event, &plan.state.event)
                && self.is_aligned(&addr, last)?
            {
                continue;
            }
            plan.align.push(addr);
        }
        for (addr, _) in &plan.announcements {
            plan.concerned
                .extend(announcements.depending_on(&addr.owner));
        }
        Ok(is_shown.then_some(plan))
    }
}

fn overtaken(decision: &Decision) -> Vec<EventId> {
    let dropped = decision.effects.iter().filter_map(|effect| match effect {
        Effect::DropStates { ids, .. } => Some(ids),
        _ => None,
    });
    dropped.flatten().copied().collect()
}

/// The served states of an identifier.
pub(crate) fn served_states(
    identifier: &Identifier,
    view: &dyn View,
) -> Result<Vec<State>, ViewError> {
    let events = view.served_states(identifier)?;
    Ok(events
        .into_iter()
        .filter_map(parse)
        .filter(State::is_satisfiable)
        .collect())
}

/// The served states of some authors, and nothing of anybody else read.
pub(crate) fn served_states_of(
    identifier: &Identifier,
    authors: &BTreeSet<PublicKey>,
    view: &dyn View,
) -> Result<Vec<State>, ViewError> {
    let mut states = Vec::new();
    for author in authors {
        let addr = RepoAddr::new(*author, identifier.clone());
        let event = view.latest(&Address::of_state(&addr))?;
        let state = event.and_then(parse);
        states.extend(state.filter(State::is_satisfiable));
    }
    Ok(states)
}

fn parse(event: Event) -> Option<State> {
    fault::point("state.parsed");
    State::parse(event).ok()
}

/// Says whether every object a state names is here.
pub(super) fn has_all(state: &State, view: &dyn View) -> Result<bool, ViewError> {
    let found = view.objects(&state.identifier, &state.oids())?;
    Ok(state.is_satisfiable() && found.iter().all(|found| *found != Found::Missing))
}
