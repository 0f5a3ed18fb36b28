//! Kind 62: requests to vanish (NIP-62, G01-117 … G01-120).

use std::sync::Arc;

use grip_nostr::{Event, PublicKey, RepoAddr, kinds};
use grip_relay::{Answer, answer_to_put};
use grip_store::{Put, Vanished};
use grip_tasks::fault;
use grip_types::EventSource;

use crate::{
    admission::{Outcome, ViewError},
    agreement::announced,
    error::GraspError,
    grasp::Core,
};

impl Core {
    pub(super) async fn process_vanish(
        self: &Arc<Self>,
        event: &Event,
        source: EventSource,
    ) -> Result<Answer, GraspError> {
        let decision = self.decide(event, source).await?;
        let answer = self.answer(event, &decision);
        if decision.outcome != Outcome::Serve {
            return Ok(answer);
        }
        if let Some(refused) = self.beyond_key_quota(event).await? {
            return Ok(refused);
        }
        let acts = self.policy.load().is_vanish(event);
        // Stored first: whatever a crash leaves undone, the start does because of it.
        let puts = if acts {
            self.commit.vanish(event.clone()).await?
        } else {
            self.commit.events(vec![event.clone()]).await?
        };
        if !matches!(puts[0], Put::Stored { .. } | Put::Duplicate) {
            return Ok(answer_to_put(&puts[0], false));
        }
        if acts {
            self.finish_vanishing(|author| *author == event.pubkey)
                .await?;
        }
        Ok(answer)
    }

    /// Carries out the requests to vanish of some keys that are not yet: one that has just come, or
    /// those that a crash or a failure cut short. One that fails again stops no other.
    pub(crate) async fn finish_vanishing(
        self: &Arc<Self>,
        of: impl Fn(&PublicKey) -> bool,
    ) -> Result<(), GraspError> {
        if self.policy.load().ignores_deletions {
            return Ok(());
        }
        let look = |core: &Self| {
            let events = core.store.read().map_err(ViewError::new)?;
            events.vanishing().map_err(ViewError::new)
        };
        let mut pending = self.blocking("grasp.look", look).await??;
        pending.retain(|vanished| of(&vanished.author));
        let mut outcome = Ok(());
        for vanished in pending {
            let done = self.vanish(vanished).await;
            outcome = outcome.and(done);
        }
        outcome
    }

    /// Takes out what a key made up to its request, in relay and git, and keeps nothing of it: not in
    /// holding, not in the archive (G01-120). Done once for each request, so that who comes back later
    /// loses nothing by it.
    async fn vanish(self: &Arc<Self>, vanished: Vanished) -> Result<(), GraspError> {
        let Vanished {
            author,
            until,
            request,
        } = vanished;
        let mut ended = self.drop_held(&vanished).await?;
        loop {
            let goes = |kind| !kinds::is_request(kind);
            let look = move |core: &Self| core.events_of(&author, Some(until), goes);
            let events = self.blocking("grasp.look", look).await??;
            if events.is_empty() {
                break;
            }
            ended += events.len();
            let gone: Vec<RepoAddr> = events.iter().filter_map(announced).collect();
            let look = move |core: &Self| core.hanging_on(&gone);
            let hanging = self.blocking("grasp.look", look).await??;
            self.end_served(hanging.into_iter().map(|(event, _)| event).collect())
                .await?;
            self.end_served(events).await?;
            fault::point("vanish.events_removed");
        }
        self.end_withdrawals(|addr| {
            let left = self.departures.get(addr);
            addr.owner == author && left.is_none_or(|left| left.created_at <= until)
        })
        .await?;
        self.commit.forget_author(author, until).await?;
        fault::point("vanish.history_forgotten");
        self.holding.remove_author(&author, until).await?;
        fault::point("vanish.holding_removed");
        self.drop_unkept_tips(move |key| *key == author).await?;
        // A request of long ago may come late, or be replayed: what its author has had here since stays.
        let has_come_back = |addr: &RepoAddr| {
            let left = self.departures.get(addr);
            self.hosted.status(addr).is_some()
                || left.is_some_and(|left| left.created_at > until)
                || self.purgatory.lock().find_announcement(addr).is_some()
        };
        ended += self
            .destroy_archives(|it| {
                it.repo.owner == author && (it.stamp <= until.as_secs() || !has_come_back(&it.repo))
            })
            .await?;
        self.commit.end_vanishing(vanished).await?;
        fault::point("vanish.done");
        if ended > 0 {
            tracing::info!(%author, %request, ended, "a key has vanished");
            self.used_requests.note(request);
        }
        Ok(())
    }

    /// Drops what waits, or is wanted, of a key that vanishes.
    async fn drop_held(self: &Arc<Self>, vanished: &Vanished) -> Result<usize, GraspError> {
        self.drop_waiting_where(|waiting| {
            let held = waiting.held();
            held.author() == vanished.author && held.event.created_at() <= vanished.until
        })
        .await
    }
}
