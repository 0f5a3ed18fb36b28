//! Kind 5.

use std::{collections::BTreeSet, sync::Arc};

use grip_nostr::{Address, Deletion, Event, EventId};
use grip_relay::{Answer, answer_to_put};
use grip_store::{EventView as _, Put};
use grip_types::{EventSource, Identifier};

use crate::{
    admission::{Outcome, ViewError},
    error::GraspError,
    grasp::Core,
};

/// What the deletion requests of one key may take up.
const KEY_BYTES: usize = 1 << 20;

impl Core {
    pub(super) async fn process_deletion(
        self: &Arc<Self>,
        event: &Event,
        source: EventSource,
    ) -> Result<Answer, GraspError> {
        let identifiers = self.concerned(event).await?;
        let _turns = self.turns(identifiers.clone()).await?;
        let decision = self.decide(event, source).await?;
        let answer = self.answer(event, &decision);
        if decision.outcome != Outcome::Serve {
            return Ok(answer);
        }
        if let Some(refused) = self.beyond_key_quota(event).await? {
            return Ok(refused);
        }
        // Stored first: whatever a crash leaves undone, the start does again because of it.
        let puts = self.commit.events(vec![event.clone()]).await?;
        if !matches!(puts[0], Put::Stored { .. } | Put::Duplicate) {
            return Ok(answer_to_put(&puts[0], false));
        }
        self.unwant(event).await;
        for effect in decision.effects {
            if let Err(error) = self.carry_out(vec![effect]).await {
                error.log("failed to carry out a part of a deletion");
            }
        }
        for identifier in &identifiers {
            self.settle(identifier).await;
            self.hosted.events_changed(identifier);
        }
        Ok(answer)
    }

    /// Refuses a request whose author has stored too many bytes of them: nothing has to be related
    /// to what is served for one to be taken.
    async fn beyond_key_quota(
        self: &Arc<Self>,
        event: &Event,
    ) -> Result<Option<Answer>, GraspError> {
        let (author, kind) = (event.pubkey, event.kind);
        let look = move |core: &Self| -> Result<usize, ViewError> {
            let events = core.store.read().map_err(ViewError::new)?;
            let used = events.stored_bytes(&author, kind, KEY_BYTES);
            used.map_err(ViewError::new)
        };
        let used = self.blocking("grasp.look", look).await??;
        let is_beyond = used >= KEY_BYTES;
        Ok(is_beyond.then(|| {
            Answer::refused(format!(
                "rate-limited: deletion requests of yours take up {KEY_BYTES} bytes here already"
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
