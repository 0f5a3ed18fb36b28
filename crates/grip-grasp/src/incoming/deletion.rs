//! Kind 5.

use std::{collections::BTreeSet, sync::Arc};

use grip_nostr::{Address, Deletion, Event, EventId, PullRequest, RepoAddr, kinds};
use grip_relay::{Answer, answer_to_put};
use grip_store::{EventView as _, Put};
use grip_tasks::fault;
use grip_types::{EventSource, Identifier};

use super::own_identifier;
use crate::{
    admission::{Effect, Outcome, ViewError},
    agreement::announced,
    enforce::is_hosted,
    error::GraspError,
    grasp::Core,
    holding::HoldingReason,
};

/// What a request takes out of service.
#[derive(Default)]
struct Removal {
    /// With the repository that each belongs to.
    events: Vec<(Event, Option<RepoAddr>)>,
    /// Those of them that the request does not name itself.
    hanging: Vec<EventId>,
    /// Addresses whose owners have left: no older version comes back.
    left: Vec<Address>,
}

impl Core {
    pub(super) async fn process_deletion(
        self: &Arc<Self>,
        event: &Event,
        source: EventSource,
    ) -> Result<Answer, GraspError> {
        let identifiers = self.concerned(event).await?;
        let _turns = self
            .turns_for(event.pubkey, source.network, identifiers.clone())
            .await?;
        let decision = self.decide(event, source).await?;
        let answer = self.answer(event, &decision);
        if decision.outcome != Outcome::Serve {
            return Ok(answer);
        }
        if let Some(refused) = self.beyond_key_quota(event).await? {
            return Ok(refused);
        }
        let removal = self.prepare_removal(event).await?;
        let requests: Vec<EventId> = removal
            .events
            .iter()
            .filter(|(event, _)| PullRequest::is_one(event))
            .map(|(event, _)| event.id)
            .collect();
        let reason = HoldingReason::Deleted;
        self.holding.put(&removal.events, reason).await?;
        fault::point("delete.held_back");
        for (hangs, _) in &removal.events {
            if removal.hanging.contains(&hangs.id) {
                self.hide_tips_in_turn(hangs).await?;
            }
        }
        // Then in one step: whatever a crash leaves undone in git, the start does because of it.
        let puts = self
            .commit
            .delete(event.clone(), removal.hanging, removal.left)
            .await?;
        if !matches!(puts[0], Put::Stored { .. } | Put::Duplicate) {
            return Ok(answer_to_put(&puts[0], false));
        }
        if self.policy.load().ignores_deletions {
            return Ok(answer);
        }
        let is_use = |effect: &Effect| {
            matches!(
                effect,
                Effect::EvictAnnouncement(_)
                    | Effect::DropStates { .. }
                    | Effect::DropPullRequest(_)
            )
        };
        if decision.effects.iter().any(is_use) {
            self.used_requests.note(event.id);
        }
        self.unwant(event).await;
        for effect in decision.effects {
            if let Err(error) = self.carry_out(vec![effect]).await {
                error.log("failed to carry out a part of a deletion");
            }
            fault::point("delete.effect_done");
        }
        for identifier in &identifiers {
            for id in &requests {
                if let Err(error) = self.clear_tips(identifier, *id).await {
                    error.log("failed to remove the ref of a deleted pull request");
                }
            }
            self.settle(identifier).await;
            self.hosted.events_changed(identifier);
        }
        fault::point("delete.settled");
        Ok(answer)
    }

    /// Looks for all that a request takes out of service. If the repositories of it cannot be
    /// archived, nothing goes (G01-111).
    async fn prepare_removal(self: &Arc<Self>, event: &Event) -> Result<Removal, GraspError> {
        let request = Deletion::parse(event.clone()).expect("only a kind 5 is processed as one");
        let ignored = self.policy.load().ignores_deletions;
        let look = move |core: &Self| {
            if ignored {
                return Ok(Removal::default());
            }
            let removal = core.removal(&request)?;
            for (event, addr) in &removal.events {
                if let Some(addr) = addr
                    && event.kind == kinds::ANNOUNCEMENT
                    && core.hosted.status(addr).is_some()
                {
                    let checked = core.repositories.check_archive(addr);
                    checked.map_err(GraspError::repository(addr))?;
                }
            }
            Ok(removal)
        };
        self.blocking("grasp.look", look).await?
    }

    fn removal(&self, request: &Deletion) -> Result<Removal, ViewError> {
        let events = self.store.read().map_err(ViewError::new)?;
        let policy = self.policy.load();
        let mut found = Removal::default();
        let mut seen = BTreeSet::new();
        for id in &request.ids {
            let target = events.get(id).map_err(ViewError::new)?;
            if let Some(target) = target.filter(|target| request.covers(target)) {
                // By what lists this server no more its author has left: nothing of before comes back.
                if let Some(addr) = announced(&target)
                    && (self.departures.get(&addr).is_some() || !is_hosted(&target, &policy))
                {
                    found.left.push(Address::of_announcement(&addr));
                }
                seen.insert(target.id);
                found.add(target);
            }
        }
        for address in &request.addresses {
            let target = events.latest(address).map_err(ViewError::new)?;
            let Some(target) = target.filter(|target| request.covers(target)) else {
                continue;
            };
            let addr = address.repository();
            let addr = addr.filter(|_| address.kind == kinds::ANNOUNCEMENT);
            if seen.insert(target.id) {
                found.add(target);
            }
            let hanging = addr.as_ref().map(|addr| self.hanging_on(addr));
            for event in hanging.transpose()?.unwrap_or_default() {
                if seen.insert(event.id) {
                    found.hanging.push(event.id);
                    found.events.push((event, addr.clone()));
                }
            }
        }
        Ok(found)
    }

    /// Refuses a request whose author has stored too many bytes of them: nothing has to be related
    /// to what is served for one to be taken.
    pub(super) async fn beyond_key_quota(
        self: &Arc<Self>,
        event: &Event,
    ) -> Result<Option<Answer>, GraspError> {
        let Some(most) = self.policy.load().request_bytes_per_key else {
            return Ok(None);
        };
        let (author, kind) = (event.pubkey, event.kind);
        let look = move |core: &Self| -> Result<usize, ViewError> {
            let events = core.store.read().map_err(ViewError::new)?;
            let used = events.stored_bytes(&author, kind, most);
            used.map_err(ViewError::new)
        };
        let used = self.blocking("grasp.look", look).await??;
        Ok((used >= most).then(|| {
            Answer::refused(format!(
                "rate-limited: deletion requests of yours take up {most} bytes here already"
            ))
        }))
    }

    /// Ends the search for the data of what a deletion request covers. Admission does not see
    /// these events: they are not held.
    async fn unwant(&self, request: &Event) {
        let Some(deletion) = Deletion::parse(request.clone()) else {
            return;
        };
        self.forget(|purgatory| {
            let by_id = deletion
                .ids
                .iter()
                .filter_map(|id| purgatory.find_wanted(id));
            let repositories = deletion.addresses.iter().filter_map(Address::repository);
            let names: BTreeSet<Identifier> = repositories.map(|addr| addr.identifier).collect();
            let by_name = names.iter().flat_map(|name| purgatory.wanted(name));
            let named = by_id.chain(by_name).map(|entry| entry.held.event.unpack());
            let covered = named.filter(|event| deletion.covers(event));
            let ids: Vec<EventId> = covered.map(|event| event.id).collect();
            let removals = ids.iter().map(|id| purgatory.remove_wanted(id));
            removals.collect::<Vec<_>>().concat()
        })
        .await;
    }
}

impl Removal {
    fn add(&mut self, event: Event) {
        let is_repository = [kinds::ANNOUNCEMENT, kinds::STATE].contains(&event.kind);
        let identifier = own_identifier(&event).filter(|_| is_repository);
        let addr = identifier.map(|identifier| RepoAddr::new(event.pubkey, identifier));
        self.events.push((event, addr));
    }
}
