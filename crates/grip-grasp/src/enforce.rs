//! Bans and blacklists, applied to what is served and held already (G01-123, G01-124).

use std::{collections::BTreeSet, ops::ControlFlow, sync::Arc};

use grip_nostr::{Address, Event, EventId, Filter, Kind, PublicKey, RepoAddr, Timestamp};
use grip_purgatory::Waiting;
use grip_store::{EventView as _, Limits};
use grip_types::Identifier;

use crate::{
    Grasp, Policy,
    admission::ViewError,
    error::GraspError,
    grasp::{Core, now, timestamp},
    holding::HoldingReason,
};

/// Events that are ended in one step.
const BATCH: usize = 500;
const NOT_ENFORCED: &str =
    "failed to apply the rules to what is served; the next reload or start tries again";

impl Grasp {
    /// Has other rules count from now on, for what is served and held already too, soon.
    pub fn set_policy(&self, policy: Policy) {
        self.core.swap_policy(policy);
        self.core.enforce_soon();
    }

    /// The same, and waits until it is done.
    pub async fn enforce(&self, policy: Policy) {
        self.core.swap_policy(policy);
        if let Err(error) = self.core.enforce().await {
            error.log(NOT_ENFORCED);
        }
    }
}

impl Core {
    fn swap_policy(&self, policy: Policy) {
        let former = self.policy.load().former.clone();
        self.policy.store(Arc::new(Policy { former, ..policy }));
    }

    /// Ends what the rules in force ban, in a task of its own.
    pub(crate) fn enforce_soon(self: &Arc<Self>) {
        let core = Arc::clone(self);
        self.group.spawn("grasp.enforce", async move {
            if let Err(error) = core.enforce().await {
                error.log(NOT_ENFORCED);
            }
        });
    }

    pub(crate) async fn enforce(self: &Arc<Self>) -> Result<(), GraspError> {
        let policy = self.policy.load_full();
        self.vanish_all().await?;
        for author in &policy.event_blacklist {
            self.end_author(author).await?;
        }
        self.end_banned_repositories(&policy).await?;
        self.drop_banned(&policy).await?;
        self.restore_from_holding(&policy).await
    }

    /// Takes the served events of a key out of service.
    async fn end_author(self: &Arc<Self>, author: &PublicKey) -> Result<(), GraspError> {
        loop {
            let author = *author;
            let look = move |core: &Self| core.events_of(&author, None, |_| true);
            let events = self.blocking("grasp.look", look).await??;
            if events.is_empty() {
                return Ok(());
            }
            self.put_on_hold(events, HoldingReason::Banned).await?;
        }
    }

    /// Some of the served events of a key, of certain kinds and up to a time. Blocks.
    pub(crate) fn events_of(
        &self,
        author: &PublicKey,
        until: Option<Timestamp>,
        is_wanted: fn(Kind) -> bool,
    ) -> Result<Vec<Event>, ViewError> {
        let filter = Filter {
            authors: Some(vec![author.to_bytes()]),
            until: until.map(|until| until.as_secs()),
            ..Filter::default()
        };
        let limits = Limits {
            default_limit: usize::MAX,
            max_limit: usize::MAX,
        };
        let view = self.store.read().map_err(ViewError::new)?;
        let mut found = Vec::new();
        let queried = view.query(&[filter], limits, timestamp(), &mut |stored| {
            if is_wanted(Kind::from(stored.kind)) {
                found.extend(serde_json::from_slice::<Event>(stored.json).ok());
            }
            if found.len() < BATCH {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        });
        queried.map_err(ViewError::new)?;
        Ok(found)
    }

    async fn end_banned_repositories(
        self: &Arc<Self>,
        policy: &Arc<Policy>,
    ) -> Result<(), GraspError> {
        let hosted = self.hosted.all().into_iter().map(|(addr, _)| addr);
        let left_out = hosted.filter(|addr| policy.bans(addr) || !policy.selects(addr));
        for addr in left_out.collect::<Vec<RepoAddr>>() {
            let reason = if policy.bans(&addr) {
                HoldingReason::Blacklist
            } else {
                HoldingReason::Whitelist
            };
            tracing::info!(repository = %addr, %reason, "repository is not taken any more");
            let look = {
                let addr = addr.clone();
                move |core: &Self| {
                    let view = core.store.read().map_err(ViewError::new)?;
                    let found = view.latest(&Address::of_announcement(&addr));
                    found.map_err(ViewError::new)
                }
            };
            let announcement = self.blocking("grasp.look", look).await??;
            self.put_on_hold(announcement.into_iter().collect(), reason)
                .await?;
        }
        Ok(())
    }

    /// Drops the held events of banned keys and repositories.
    async fn drop_banned(self: &Arc<Self>, policy: &Policy) -> Result<(), GraspError> {
        let banned: Vec<(EventId, Vec<Identifier>)> = {
            let purgatory = self.purgatory.lock();
            let is_banned = |waiting: &Waiting<'_>| match waiting {
                Waiting::Announcement(entry) => {
                    policy.bans(&entry.addr) || !policy.selects(&entry.addr)
                }
                other => policy.bans_author(&other.held().author()),
            };
            let waiting = purgatory.waiting().filter(is_banned);
            let waiting = waiting.map(|it| (it.held().id(), it.identifiers().to_vec()));
            waiting.collect()
        };
        let mut concerned = BTreeSet::new();
        for (id, identifiers) in banned {
            let _turns = self.turns(identifiers.clone()).await?;
            self.held(|purgatory| ((), purgatory.drop_event(&id, now())))
                .await?;
            concerned.extend(identifiers);
        }
        for identifier in &concerned {
            self.settle_in_turn(identifier).await;
        }
        Ok(())
    }
}
