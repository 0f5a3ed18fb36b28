//! Kind 5.

use std::{collections::BTreeSet, sync::Arc};

use grip_nostr::{Address, Deletion, Event, EventId, PullRequest, RepoAddr, kinds};
use grip_relay::{Answer, answer_to_put};
use grip_store::{EventView as _, Put};
use grip_tasks::fault;
use grip_types::{EventSource, Identifier};

use crate::{
    admission::{ClearedRefs, Effect, Outcome, ViewError, own_identifier},
    agreement::announced,
    departures::Departure,
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
    /// Addresses whose owners have left: no version of before that comes back.
    left: Vec<(Address, Departure)>,
}

impl Core {
    pub(super) async fn process_deletion(
        self: &Arc<Self>,
        event: &Event,
        source: EventSource,
    ) -> Result<Answer, GraspError> {
        let identifiers = self.concerned(event).await?;
        let turns = self
            .turns_for(event.pubkey, source.network, identifiers.clone())
            .await?;
        let mut decision = self.decide(event, source).await?;
        let answer = self.answer(event, &decision);
        if decision.outcome != Outcome::Serve {
            return Ok(answer);
        }
        if let Some(refused) = self.beyond_key_quota(event).await? {
            return Ok(refused);
        }
        let removal = self.prepare_removal(event).await?;
        let named = decision.take_cleared_beyond(&[]);
        let cleared = removal.cleared(named, identifiers.iter().chain(decision.reexamined()));
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
        // To settle a name is to look at it again.
        let is_settled_below = |effect: &Effect| matches!(effect, Effect::Reexamine(_));
        let effects = decision.effects.into_iter();
        for effect in effects.filter(|effect| !is_settled_below(effect)) {
            if let Err(error) = self.carry_out(vec![effect]).await {
                error.log("failed to carry out a part of a deletion");
            }
            fault::point("delete.effect_done");
        }
        // Names are settled one after the other. Whoever uses one of several waits for no other of them.
        let mut kept = Some(turns).filter(|_| identifiers.len() == 1 && cleared.len() == 1);
        for identifier in cleared.keys() {
            self.unsettled.add(identifier);
        }
        for (identifier, requests) in cleared {
            let turns = match kept.take() {
                Some(turns) => Ok(turns),
                None => {
                    let names = vec![identifier.clone()];
                    self.turns_for(event.pubkey, source.network, names).await
                }
            };
            match turns {
                Ok(_turns) => self.settle_deleted(&identifier, requests).await,
                Err(error) => self.settle_later(&identifier, &error),
            }
        }
        fault::point("delete.settled");
        Ok(answer)
    }

    /// Takes out of git what rested on deleted events, in the turn of the identifier.
    async fn settle_deleted(
        self: &Arc<Self>,
        identifier: &Identifier,
        requests: BTreeSet<EventId>,
    ) {
        // Somebody may have found a ref without its event since that is gone, and noted it.
        let is_noted = |id: &EventId| self.purgatory.lock().find_pr_placeholder(id).is_some();
        let noted: Vec<EventId> = requests.iter().copied().filter(is_noted).collect();
        if let Err(error) = self.clear_tips(identifier, requests).await {
            error.log("failed to remove the ref of a deleted pull request");
        }
        if !noted.is_empty() {
            self.forget(|purgatory| {
                let removals = noted.iter().map(|id| purgatory.remove_pr_placeholder(id));
                removals.collect::<Vec<_>>().concat()
            })
            .await;
        }
        self.settle(identifier).await;
        self.hosted.events_changed(identifier);
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
            fault::point("delete.looking");
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
        let (mut seen, mut gone) = (BTreeSet::new(), Vec::new());
        for id in &request.ids {
            let target = events.get(id).map_err(ViewError::new)?;
            if let Some(target) = target.filter(|target| request.covers(target)) {
                if let Some(addr) = announced(&target) {
                    // By what lists this server no more its author has left.
                    let is_departure = !is_hosted(&target, &policy);
                    let departure = is_departure.then(|| Departure::by(&target));
                    found.leave(&addr, departure.or_else(|| self.departures.get(&addr)));
                }
                seen.insert(target.id);
                found.add(target);
            } else if let Some(target) = self.waiting_event(id)
                && request.covers(&target)
                && let Some(addr) = announced(&target)
            {
                // Nothing is served in its place: with it its author has left.
                found.leave(&addr, Some(Departure::by(&target)));
            }
        }
        for address in &request.addresses {
            let target = events.latest(address).map_err(ViewError::new)?;
            let Some(target) = target.filter(|target| request.covers(target)) else {
                continue;
            };
            if seen.insert(target.id) {
                found.add(target);
            }
            let addr = address.repository();
            gone.extend(addr.filter(|_| address.kind == kinds::ANNOUNCEMENT));
        }
        for (event, addr) in self.hanging_on(&gone)? {
            if seen.insert(event.id) {
                found.hanging.push(event.id);
                found.events.push((event, Some(addr)));
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
            // What others want under the same names is not even read.
            let all = by_id.chain(by_name);
            let own = all.filter(|entry| entry.held.author() == request.pubkey);
            let named = own.map(|entry| entry.held.event.unpack());
            let covered = named.filter(|event| deletion.covers(event));
            let ids: Vec<EventId> = covered.map(|event| event.id).collect();
            let removals = ids.iter().map(|id| purgatory.remove_wanted(id));
            removals.collect::<Vec<_>>().concat()
        })
        .await;
    }
}

impl Removal {
    /// The names to settle, each with the pull requests whose refs go: `named` are those that the request
    /// names itself.
    fn cleared<'a>(
        &self,
        named: ClearedRefs,
        identifiers: impl Iterator<Item = &'a Identifier>,
    ) -> ClearedRefs {
        let mut cleared = named;
        for identifier in identifiers {
            cleared.entry(identifier.clone()).or_default();
        }
        for (event, addr) in &self.events {
            if let Some(addr) = addr
                && PullRequest::is_one(event)
            {
                let requests = cleared.entry(addr.identifier.clone()).or_default();
                requests.insert(event.id);
            }
        }
        cleared
    }

    fn leave(&mut self, addr: &RepoAddr, departure: Option<Departure>) {
        let address = Address::of_announcement(addr);
        self.left.extend(departure.map(|it| (address, it)));
    }

    fn add(&mut self, event: Event) {
        let is_repository = [kinds::ANNOUNCEMENT, kinds::STATE].contains(&event.kind);
        let identifier = own_identifier(&event).filter(|_| is_repository);
        let addr = identifier.map(|identifier| RepoAddr::new(event.pubkey, identifier));
        self.events.push((event, addr));
    }
}
