//! The list of waiting events, and what an operator may do about one of them.

use std::{borrow::Cow, sync::Arc};

use grip_nostr::{Event, EventId, PullRequest, RepoAddr};
use grip_purgatory::{Phase, Purgatory, Waiting, can_be_here};
use grip_types::{Identifier, Origin};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SyncFacts;
use crate::{
    Grasp, LookError, Missing, Policy,
    admission::{View, ViewError, contributor_repositories, targets},
    error::GraspError,
    explain::missing,
    grasp::{Core, now},
    node_view::NodeView,
    summary::npub,
};

/// One waiting event.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct WaitingFacts {
    pub id: String,
    pub kind: u16,
    pub author: String,
    pub identifiers: Vec<String>,
    /// The contributor repository that its tip may be pushed to, as a path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contributor: Option<String>,
    /// `announcement`, `state` or `pull_request`.
    pub class: Cow<'static, str>,
    pub status: WaitingStatus,
    #[serde(rename = "source")]
    pub origin: Origin,
    /// Since when it waits in this way (unix milliseconds).
    pub since: i64,
    /// When it is given up (unix milliseconds).
    pub deadline: i64,
    /// How many objects it names that are not here.
    pub missing: usize,
    pub first_missing: Option<Missing>,
    /// Attempts to find its data that did not bring everything.
    pub attempts: u32,
    /// When its data is looked for next (unix milliseconds).
    pub next_attempt: Option<i64>,
    /// Its data is looked for at this moment.
    pub in_progress: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WaitingStatus {
    Held,
    /// An announcement whose time is over; a state brings it back.
    Hidden,
    /// Expired without its data, which is still looked for.
    Wanted,
}

/// A waiting event as it was when the purgatory was looked at.
struct Snapshot {
    event: Event,
    facts: WaitingFacts,
}

impl Grasp {
    /// The first `limit` waiting events: those held, then those wanted, and of each the one that
    /// is given up first at the front.
    pub async fn waiting(&self, limit: usize) -> Result<Vec<WaitingFacts>, LookError> {
        let look = move |core: &Core| core.waiting(limit);
        Ok(self.core.blocking("grasp.look", look).await??)
    }

    /// Says whether an event is held until its data arrives.
    pub fn is_held(&self, id: &EventId) -> bool {
        let purgatory = self.core.purgatory.lock();
        let waiting = purgatory.find_waiting(id);
        waiting.is_some_and(|waiting| waiting.is_held())
    }

    /// Gives up a waiting event before its time; false if none of this id waits.
    pub async fn drop_waiting(&self, id: &EventId) -> Result<bool, LookError> {
        Ok(self.core.drop_waiting(id).await?)
    }

    /// Has the data of a waiting event looked for at this moment; false if none of this id waits
    /// for data.
    pub async fn retry_waiting(&self, id: &EventId) -> Result<bool, LookError> {
        let identifiers = self.core.identifiers_of(id).unwrap_or_default();
        let brought = self.core.held(|purgatory| {
            let waits = identifiers
                .iter()
                .any(|it| purgatory.has_pending_events(it));
            let changes = identifiers.iter().map(|it| purgatory.sync_now(it, now()));
            (waits, changes.collect::<Vec<_>>().concat())
        });
        Ok(brought.await?)
    }
}

impl Core {
    /// Blocks.
    fn waiting(&self, limit: usize) -> Result<Vec<WaitingFacts>, GraspError> {
        let waiting: Vec<Snapshot> = {
            let purgatory = self.purgatory.lock();
            let waiting = purgatory.waiting().take(limit);
            waiting.map(|it| snapshot(it, &purgatory)).collect()
        };
        let events = self.events()?;
        let view = NodeView::new(self, &events);
        let policy = self.policy.load();
        let facts = waiting.into_iter().map(|it| it.complete(&view, &policy));
        Ok(facts.collect::<Result<_, ViewError>>()?)
    }

    fn identifiers_of(&self, id: &EventId) -> Option<Vec<Identifier>> {
        let purgatory = self.purgatory.lock();
        let waiting = purgatory.find_waiting(id);
        waiting.map(|waiting| waiting.identifiers().to_vec())
    }

    pub(crate) async fn drop_waiting(self: &Arc<Self>, id: &EventId) -> Result<bool, GraspError> {
        let Some(identifiers) = self.identifiers_of(id) else {
            return Ok(false);
        };
        let _turns = self.turns(identifiers.clone()).await?;
        let announcement = self.announcement_of(id);
        let dropped = self
            .held(|purgatory| {
                let waits = purgatory.find_waiting(id).is_some();
                (waits, purgatory.drop_event(id, now()))
            })
            .await?;
        if let Some(addr) = announcement {
            let remove = move |core: &Self| core.remove_or_archive(&addr);
            self.blocking("git.remove", remove).await??;
        }
        for identifier in &identifiers {
            self.settle(identifier).await;
        }
        if dropped {
            tracing::info!(%id, "dropped a waiting event by order of the operator");
        }
        Ok(dropped)
    }

    fn announcement_of(&self, id: &EventId) -> Option<RepoAddr> {
        match self.purgatory.lock().find_event(id)? {
            Waiting::Announcement(entry) => Some(entry.addr.clone()),
            _ => None,
        }
    }
}

fn snapshot(waiting: Waiting<'_>, purgatory: &Purgatory) -> Snapshot {
    let (class, status) = match waiting {
        Waiting::Announcement(entry) => match entry.phase {
            Phase::Shown => ("announcement", WaitingStatus::Held),
            Phase::Hidden => ("announcement", WaitingStatus::Hidden),
        },
        Waiting::State(_) => ("state", WaitingStatus::Held),
        Waiting::Pr(_) => ("pull_request", WaitingStatus::Held),
        Waiting::Wanted(entry) if entry.is_state() => ("state", WaitingStatus::Wanted),
        Waiting::Wanted(_) => ("pull_request", WaitingStatus::Wanted),
    };
    let (held, identifiers) = (waiting.held(), waiting.identifiers());
    let event = held.event.unpack();
    let mut facts = WaitingFacts {
        id: event.id.to_hex(),
        kind: event.kind.as_u16(),
        author: npub(&event.pubkey),
        identifiers: identifiers
            .iter()
            .map(|it| it.as_str().to_owned())
            .collect(),
        contributor: None,
        class: class.into(),
        status,
        origin: held.origin,
        since: held.added_at.get(),
        deadline: held.deadline().get(),
        missing: 0,
        first_missing: None,
        attempts: 0,
        next_attempt: None,
        in_progress: false,
    };
    facts.searched(search(waiting, purgatory));
    Snapshot { event, facts }
}

/// The state of the search for the data of a waiting event: of several identifiers, the attempt
/// that comes first counts. An announcement is not searched for.
pub(crate) fn search(waiting: Waiting<'_>, purgatory: &Purgatory) -> Option<SyncFacts> {
    if matches!(waiting, Waiting::Announcement(_)) {
        return None;
    }
    let identifiers = waiting.identifiers().iter();
    let entries = identifiers.filter_map(|it| purgatory.sync_entry(it));
    let facts = entries.map(SyncFacts::from);
    facts.min_by_key(|facts| (!facts.in_progress, facts.next_attempt))
}

impl WaitingFacts {
    fn searched(&mut self, search: Option<SyncFacts>) {
        self.attempts = search.map_or(0, |search| search.attempt_count);
        self.next_attempt = search.map(|search| search.next_attempt.get());
        self.in_progress = search.is_some_and(|search| search.in_progress);
    }
}

impl Snapshot {
    /// Looks up what is missing.
    fn complete(mut self, view: &dyn View, policy: &Policy) -> Result<WaitingFacts, ViewError> {
        let missing = missing(&self.event, view)?;
        if let Ok(request) = PullRequest::parse(self.event.clone()) {
            let contributed = contributor_repositories(&request, policy);
            self.facts.contributor = contributed.first().map(RepoAddr::path);
            // For a contributor repository alone nothing is fetched: its tip is pushed there.
            if targets(&request, view, policy)?.is_empty() {
                self.facts.searched(None);
            }
        }
        if !missing.iter().all(|missing| can_be_here(&missing.oid)) {
            self.facts.searched(None);
        }
        Ok(WaitingFacts {
            missing: missing.len(),
            first_missing: missing.into_iter().next(),
            ..self.facts
        })
    }
}
