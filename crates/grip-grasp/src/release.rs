//! The one way out of purgatory: for pushes, fetches, announcements and the start.
//!
//! ```text
//! objects durable ─▶ refs and HEAD aligned ─▶ event saved, subscribers told ─▶ journal row removed
//! ```
//!
//! Forward only and idempotent: a crash between two steps of a held event is finished by the same
//! function at the next start. An event whose data was here when it came has no journal row: a crash
//! before it is saved leaves refs as it says, and its sender, who got no `OK`, sends it again. Every
//! event goes its way alone, so that one failure stops no other. Whether an event is authorised is
//! judged here again, by the same function as at its arrival.

mod announcements;
mod pull_requests;
mod states;

use std::{cmp::Reverse, collections::BTreeSet, sync::Arc};

use futures_util::future::BoxFuture;
use grip_nostr::{Event, EventId, PublicKey, RepoAddr, State, kinds};
use grip_purgatory::{CompactEvent, Waiting};
use grip_types::{ErrorChain, Identifier, Origin};
use serde::Serialize;
use tracing::Instrument as _;

use crate::{
    Grasp,
    admission::{Announcements, Arrival, EventStatus},
    agreement::Scope,
    error::GraspError,
    grasp::{Core, timestamp},
    repositories::Moved,
    summary::npub,
};

pub(crate) use pull_requests::Mirrored;
use states::has_all;
pub(crate) use states::{Plan, served_states, served_states_of};

/// Authors of released events that the log names.
const MAX_LOGGED: usize = 10;

/// Repositories that are served from now on and are settled each for itself. Of more, all of the name are.
const MAX_SCOPES: usize = 4;

/// What made data available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataSource {
    /// A git client pushed it.
    Push,
    /// It was fetched from another server.
    Fetch,
    /// It was here; an event made it count.
    Announcement,
}

/// What came of it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Released {
    pub states_released: usize,
    pub prs_released: usize,
    pub announcements_released: usize,
    /// Repositories whose refs or HEAD were changed.
    pub repos_synced: usize,
    pub refs_created: usize,
    pub refs_updated: usize,
    pub refs_deleted: usize,
    /// The events that are served from now on.
    pub events: Vec<EventId>,
    /// Who signed them, for the log.
    #[serde(skip)]
    pub(crate) authors: BTreeSet<PublicKey>,
    /// The owners of the announcements among them.
    #[serde(skip)]
    pub(crate) announced: BTreeSet<PublicKey>,
    /// Events that waited and are refused now, or that the store did not take, their time being over for
    /// example: refs may have been set by them.
    #[serde(skip)]
    pub(crate) not_served: usize,
    /// What failed, for people. What is held is tried again when data comes next, or at the next
    /// start.
    pub errors: Vec<String>,
}

/// A pull request that concerns several identifiers.
type SharedRequest = (EventId, Vec<Identifier>);

impl Released {
    pub(crate) fn count(&mut self, moved: Moved) {
        self.repos_synced += usize::from(!moved.is_nothing());
        self.refs_created += moved.created;
        self.refs_updated += moved.updated;
        self.refs_deleted += moved.deleted;
    }

    /// Where refs may have to follow: of a repository that is served from now on, or, wherever it was
    /// applied, of a state that is not served after all.
    pub(crate) fn to_settle(&self) -> Vec<Scope> {
        if self.not_served > 0 || self.announced.len() > MAX_SCOPES {
            return vec![Scope::All];
        }
        let owners = self.announced.iter();
        owners.map(|owner| Scope::DependingOn(*owner)).collect()
    }

    /// The npubs of their authors, the first few.
    fn of(&self) -> String {
        let mut names: Vec<String> = self.authors.iter().take(MAX_LOGGED).map(npub).collect();
        if self.authors.len() > MAX_LOGGED {
            names.push(format!("{} more", self.authors.len() - MAX_LOGGED));
        }
        names.join(", ")
    }

    /// Tells the operator what could not be released.
    pub(crate) fn log(&self, identifier: &Identifier) {
        for error in &self.errors {
            tracing::error!(%identifier, %error, "failed to release a held event");
        }
    }

    fn note(&mut self, outcome: Result<(), GraspError>) {
        if let Err(error) = outcome {
            self.errors.push(ErrorChain(&error).to_string());
        }
    }
}

impl Grasp {
    /// Releases whatever waits for data of `identifier` and has it now.
    ///
    /// Runs to its end even if the caller goes away.
    pub async fn process_newly_available_git_data(
        &self,
        identifier: &Identifier,
        source: DataSource,
    ) -> Released {
        let core = Arc::clone(&self.core);
        let identifier = identifier.clone();
        if source == DataSource::Fetch {
            // Every fetch leaves a pack, as every push does.
            core.maintenance.add(&identifier);
        }
        let work = async move {
            match core.turns(vec![identifier.clone()]).await {
                Ok(_turns) => {
                    let released = core.release(&identifier, source).await;
                    core.settle_released(&identifier, &released).await;
                    if core.unsettled.contains(&identifier) {
                        core.settle(&identifier).await;
                    }
                    released
                }
                Err(error) => Released {
                    errors: vec![error.to_string()],
                    ..Released::default()
                },
            }
        };
        let work = work.in_current_span();
        let handle = self.core.group.spawn("grasp.release", work);
        handle.await.unwrap_or_else(|_| Released {
            errors: vec![GraspError::Stopped.to_string()],
            ..Released::default()
        })
    }
}

impl Core {
    /// Releases what it can; the caller has the turn of `identifier`. Pull requests that concern others
    /// as well are released a moment later, in the turns of all: nobody waits for a name that a
    /// stranger put beside his.
    pub(crate) fn release<'a>(
        self: &'a Arc<Self>,
        identifier: &'a Identifier,
        source: DataSource,
    ) -> BoxFuture<'a, Released> {
        self.release_in(identifier, source, Scope::All)
    }

    /// The same where nothing but the repositories of `scope` can have changed.
    pub(crate) fn release_in<'a>(
        self: &'a Arc<Self>,
        identifier: &'a Identifier,
        source: DataSource,
        scope: Scope,
    ) -> BoxFuture<'a, Released> {
        Box::pin(async move {
            let mut released = Released::default();
            let outcome = self
                .release_announcements(identifier, scope, &mut released)
                .await;
            released.note(outcome);
            match self.ready_states(identifier, scope).await {
                Ok((ready, coming)) => {
                    for id in ready {
                        let coming = Arc::clone(&coming);
                        let releasing = self.release_state(identifier, id, coming, &mut released);
                        let outcome = releasing.await;
                        released.note(outcome);
                    }
                }
                Err(error) => released.note(Err(error)),
            }
            let (own, shared) = self.waiting_pull_requests(identifier);
            for id in own {
                let outcome = self.release_pull_request(id, &mut released).await;
                released.note(outcome);
            }
            if !shared.is_empty() {
                let core = Arc::clone(self);
                let releasing = async move { core.release_shared(shared).await };
                let releasing = releasing.in_current_span();
                self.group.spawn("grasp.release", releasing);
            }
            if !released.events.is_empty() {
                tracing::info!(
                    %identifier,
                    ?source,
                    announcements = released.announcements_released,
                    states = released.states_released,
                    pull_requests = released.prs_released,
                    of = released.of(),
                    "released from purgatory"
                );
            }
            released
        })
    }

    /// The states and pull requests that wait for data of an identifier, held or wanted.
    pub(crate) fn waiting_for_data(&self, identifier: &Identifier) -> Vec<CompactEvent> {
        let purgatory = self.purgatory.lock();
        let waiting = purgatory.waiting_for(identifier).map(Waiting::held);
        waiting.map(|held| held.event.clone()).collect()
    }

    /// The waiting states that can be served or have to be dropped; those that lack data are found
    /// out all at once, since strangers may hold many under the same name.
    ///
    /// Oldest first: a later state overtakes an earlier one, never the other way (G01-17). With them those
    /// that will be served, so that refs do not leave what the last of them says.
    async fn ready_states(
        self: &Arc<Self>,
        identifier: &Identifier,
        scope: Scope,
    ) -> Result<(Vec<EventId>, Arc<[State]>), GraspError> {
        let mut states = self.waiting_for_data(identifier);
        states.retain(|event| event.kind() == kinds::STATE);
        states.sort_by_key(|event| (event.created_at(), Reverse(event.id())));
        if states.is_empty() {
            return Ok((Vec::new(), Arc::default()));
        }
        let identifier = identifier.clone();
        let look = move |core: &Self| {
            let ready = core.look_for_ready(&identifier, &states, scope)?;
            let coming = core.coming_states(&ready);
            Ok((ready, coming))
        };
        self.blocking("grasp.judge", look).await?
    }

    /// Blocks.
    fn look_for_ready(
        &self,
        identifier: &Identifier,
        states: &[CompactEvent],
        scope: Scope,
    ) -> Result<Vec<EventId>, GraspError> {
        let policy = self.policy.load();
        let announcements = self.look(|view| Announcements::load(identifier, view, &policy))?;
        let anybody = announcements.maintainers(|_| true);
        let (mut ready, mut empty, mut reached) = (BTreeSet::new(), Vec::new(), BTreeSet::new());
        let of_scope = scope.owners(&announcements);
        let of_scope = of_scope.map(|owners| announcements.awaited_of(&owners));
        for event in states {
            let author = event.author();
            if !anybody.contains(&author) {
                // It does not count any more, and is dropped.
                ready.insert(event.id());
                continue;
            }
            if of_scope.as_ref().is_some_and(|it| !it.contains(&author)) {
                // A stranger's: nothing that could release it has changed.
                continue;
            }
            match State::parse(event.unpack()) {
                Ok(state) if !state.is_satisfiable() => {}
                Ok(state) if state.refs.is_empty() => empty.push(event),
                Ok(state) if !self.look(|view| has_all(&state, view))? => {}
                Ok(_) => {
                    ready.insert(event.id());
                    for grant in announcements.grants(&author) {
                        let set = announcements.set_of(&grant.repository.owner);
                        reached.extend(set.iter().copied());
                    }
                }
                Err(_) => {
                    ready.insert(event.id());
                }
            }
        }
        // One without refs counts once something of its repository is served.
        if !empty.is_empty() {
            reached.extend(announcements.maintainers(|status| status == EventStatus::Served));
        }
        let served = empty
            .into_iter()
            .filter(|event| reached.contains(&event.author()));
        ready.extend(served.map(CompactEvent::id));
        let ids = states.iter().map(CompactEvent::id);
        Ok(ids.filter(|id| ready.contains(id)).collect())
    }

    /// The pull requests that wait for data of an identifier: those that concern it alone, and those
    /// that concern others as well.
    fn waiting_pull_requests(&self, identifier: &Identifier) -> (Vec<EventId>, Vec<SharedRequest>) {
        let purgatory = self.purgatory.lock();
        let (mut own, mut shared) = (Vec::new(), Vec::new());
        for waiting in purgatory.waiting_for(identifier) {
            let (id, identifiers) = (waiting.held().id(), waiting.identifiers());
            if waiting.held().event.kind() == kinds::STATE {
                continue;
            }
            if identifiers.iter().all(|other| other == identifier) {
                own.push(id);
            } else {
                shared.push((id, identifiers.to_vec()));
            }
        }
        (own, shared)
    }

    /// Releases pull requests, each in the turns of all it concerns.
    async fn release_shared(self: &Arc<Self>, requests: Vec<SharedRequest>) {
        for (id, identifiers) in requests {
            let mut released = Released::default();
            match self.turns(identifiers).await {
                Ok(_turns) => {
                    let outcome = self.release_pull_request(id, &mut released).await;
                    released.note(outcome);
                }
                Err(error) => released.note(Err(error)),
            }
            for error in &released.errors {
                tracing::error!(%id, %error, "failed to release a held pull request");
            }
        }
    }

    /// A waiting event, held or wanted.
    pub(crate) fn waiting_event(&self, id: &EventId) -> Option<Event> {
        let purgatory = self.purgatory.lock();
        let waiting = purgatory.find_waiting(id);
        waiting.map(|waiting| waiting.held().event.unpack())
    }

    /// The held announcement of `addr` is served now, or will never be.
    async fn forget_announcement(&self, addr: &RepoAddr) {
        self.forget(|purgatory| purgatory.remove_announcement(addr))
            .await;
    }
}

/// An event that is judged again counts as submitted: what came by sync and is held here has not
/// expired.
pub(crate) fn again() -> Arrival {
    Arrival {
        now: timestamp(),
        origin: Origin::Submitted,
    }
}
