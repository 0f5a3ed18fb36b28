//! The repair of disagreements.

use std::{collections::BTreeMap, sync::Arc};

use futures_util::future::BoxFuture;
use grip_git::RepoError;
use grip_nostr::{Announcement, Event, EventId, PublicKey, RepoAddr};
use grip_tasks::fault;
use grip_types::{Identifier, Origin, RefEdit, RefName};

use super::{Disagreement, Expected, Fault, Scope};
use crate::{
    Grasp, RepositoryStatus,
    error::GraspError,
    grasp::{Core, now, timestamp},
    release::{DataSource, Released},
    repositories::ChangedBy,
};

/// A repair may show the next fault: a repository that was made again has refs to get.
const MAX_PASSES: usize = 4;

impl Grasp {
    /// Makes relay and git agree about one identifier, in its turn, and says what is left.
    pub async fn settle(&self, identifier: &Identifier) -> Vec<Disagreement> {
        let core = &self.core;
        core.settle_in_turn(identifier).await;
        self.audit(identifier).await.unwrap_or_default()
    }
}

impl Core {
    /// Takes the turn and settles; what cannot be done now is done by a later sweep.
    pub(crate) async fn settle_in_turn(self: &Arc<Self>, identifier: &Identifier) {
        match self.turns(vec![identifier.clone()]).await {
            Ok(_turns) => self.settle(identifier).await,
            Err(error) => self.settle_later(identifier, &error),
        }
    }

    /// Leaves an identifier to the next sweep.
    pub(crate) fn settle_later(&self, identifier: &Identifier, error: &GraspError) {
        self.unsettled.add(identifier);
        error.log("failed to bring relay and git in step; the next sweep tries again");
    }

    /// Makes relay and git agree about one identifier; the caller has its turn. What cannot be
    /// done now is done by a later sweep, or by the start, which settles every identifier.
    pub(crate) async fn settle(self: &Arc<Self>, identifier: &Identifier) {
        self.settle_in(identifier, Scope::All).await;
    }

    /// The same for the repositories that an announcement of `author` can concern.
    pub(crate) async fn settle_after(self: &Arc<Self>, identifier: &Identifier, author: PublicKey) {
        self.settle_in(identifier, Scope::DependingOn(author)).await;
    }

    async fn settle_in(self: &Arc<Self>, identifier: &Identifier, scope: Scope) {
        match self.try_settle(identifier, scope).await {
            Ok(true) if scope == Scope::All => self.unsettled.remove(identifier),
            Ok(true) => {}
            Ok(false) => self.unsettled.add(identifier),
            Err(error) => self.settle_later(identifier, &error),
        }
    }

    /// Has repositories that are served from now on show the pull requests that are served already, or
    /// were pushed for them by contributors, and refs follow no state that is not served after all; the
    /// caller has the turn.
    pub(crate) async fn settle_released(
        self: &Arc<Self>,
        identifier: &Identifier,
        released: &Released,
    ) {
        for scope in released.to_settle() {
            self.settle_in(identifier, scope).await;
        }
    }

    /// Says whether they agree now.
    async fn try_settle(
        self: &Arc<Self>,
        identifier: &Identifier,
        scope: Scope,
    ) -> Result<bool, GraspError> {
        let releasing = self.release_in(identifier, DataSource::Announcement, scope);
        let released = releasing.await;
        released.log(identifier);
        // The announcements that were released are of this scope. A state that was not may be anybody's.
        let scope = if released.not_served > 0 {
            Scope::All
        } else {
            scope
        };
        for _ in 0..MAX_PASSES {
            let compare = {
                let identifier = identifier.clone();
                move |core: &Self| core.compare(&identifier, scope)
            };
            let found = self.blocking("grasp.audit", compare).await??;
            if scope == Scope::All {
                self.damage.note(identifier, &found);
            }
            if found.is_empty() {
                return Ok(true);
            }
            if !self.repair(identifier, found).await? {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Says whether anything was repaired.
    fn repair<'a>(
        self: &'a Arc<Self>,
        identifier: &'a Identifier,
        found: Vec<Disagreement>,
    ) -> BoxFuture<'a, Result<bool, GraspError>> {
        Box::pin(async move {
            let mut refs: BTreeMap<RepoAddr, (Vec<RefEdit>, Option<RefName>)> = BTreeMap::new();
            let (mut orphans, mut groundless) = (Vec::new(), Vec::new());
            let mut any = false;
            for Disagreement {
                repository, fault, ..
            } in found
            {
                tracing::info!(%identifier, repository = ?repository.as_ref().map(RepoAddr::path), %fault, "bringing relay and git in step");
                match (fault, repository) {
                    (Fault::Absent, Some(addr)) => {
                        let status = self.expected_status(&addr).await?;
                        // Its refs may be remembered of before it was gone.
                        let forgotten = addr.clone();
                        let forget = move |core: &Self| core.repositories.read_again(&forgotten);
                        self.blocking("git.refs", forget).await?;
                        self.have_repository(addr, status, None).await?;
                        any = true;
                    }
                    (Fault::Status { says }, Some(addr)) => {
                        self.hosted.set(&addr, says);
                        any = true;
                    }
                    (Fault::Unannounced, Some(addr)) => {
                        self.unselect(&addr).await?;
                        self.end_withdrawal(&addr).await?;
                        self.blocking("git.remove", move |core| core.remove_or_archive(&addr))
                            .await??;
                        any = true;
                    }
                    (Fault::Unproven, Some(addr)) => any |= self.unprove(addr).await?,
                    (Fault::Ref { name, is, says }, Some(addr)) => {
                        let edit = RefEdit {
                            name,
                            old: is,
                            new: says,
                        };
                        refs.entry(addr).or_default().0.push(edit);
                    }
                    (Fault::Head { says, .. }, Some(addr)) => {
                        refs.entry(addr).or_default().1 = Some(says);
                    }
                    (Fault::OrphanRef { .. }, Some(addr)) => orphans.push(addr),
                    (Fault::HeldForNothing { event }, _) => groundless.push(event),
                    (Fault::NotLookedFor, _) => {
                        self.held(|purgatory| ((), purgatory.sync_now(identifier, now())))
                            .await?;
                    }
                    // What a contributor repository has is nowhere else: it is left to a person.
                    (Fault::Damaged { .. }, Some(addr)) if addr.is_contributor() => {}
                    (Fault::Damaged { .. }, Some(addr)) => any |= self.mend(addr).await?,
                    (Fault::MissingObject { event, .. } | Fault::LostTip { event, .. }, _) => {
                        self.look_again(identifier, event).await?;
                    }
                    _ => {}
                }
            }
            any |= !refs.is_empty() || !groundless.is_empty();
            for (addr, (mut edits, head)) in refs {
                self.mirror_missing(identifier, &mut edits).await?;
                let change = move |core: &Self| {
                    let changed =
                        core.change_refs(&addr, &edits, head.as_ref(), ChangedBy::Agreement);
                    changed.map(drop)
                };
                self.blocking("git.align", change).await??;
            }
            self.drop_states(identifier, &groundless).await;
            orphans.dedup();
            if !orphans.is_empty() {
                self.hold_orphan_refs(orphans).await?;
                any = true;
            }
            Ok(any)
        })
    }

    async fn expected_status(
        self: &Arc<Self>,
        addr: &RepoAddr,
    ) -> Result<RepositoryStatus, GraspError> {
        let addr = addr.clone();
        let scope = Scope::DependingOn(addr.owner);
        let look = move |core: &Self| {
            let policy = core.policy.load();
            core.look(|view| {
                let expected = Expected::load(&addr.identifier, scope, view, &policy)?;
                let repository = expected.repositories.get(&addr);
                Ok(repository.map_or(RepositoryStatus::Held, |it| it.status))
            })
        };
        Ok(self.blocking("grasp.look", look).await??)
    }

    /// The last state that spoke for a repository is gone: its refs go to the archive, and its
    /// announcement waits for a new state (G01-105). If its owner has left, it waits for nothing: what is
    /// left of its day ends.
    async fn unprove(self: &Arc<Self>, addr: RepoAddr) -> Result<bool, GraspError> {
        let look = {
            let addr = addr.clone();
            let scope = Scope::DependingOn(addr.owner);
            move |core: &Self| {
                let policy = core.policy.load();
                core.look(|view| {
                    let expected = Expected::load(&addr.identifier, scope, view, &policy)?;
                    let repository = expected.repositories.get(&addr);
                    let unproven = repository.filter(|it| it.is_unproven());
                    Ok(unproven.map(|it| it.event.clone()))
                })
            }
        };
        let Some(event) = self.blocking("grasp.look", look).await?? else {
            return Ok(false);
        };
        let departure = self.departures.get(&addr);
        if departure.is_some_and(|left| left.supersedes(&event)) {
            self.archive_withdrawn(&addr).await?;
            self.hosted.events_changed(&addr.identifier);
            return Ok(true);
        }
        tracing::info!(repository = %addr, "no state speaks for it any more: its announcement waits again");
        // Held before it goes from where it is served: a crash in between leaves it in both, which
        // the start sees as served.
        self.hold_again(&addr, event.clone()).await?;
        fault::point("unprove.held_again");
        let empty = {
            let addr = addr.clone();
            move |core: &Self| {
                if core.is_archived(&addr)? {
                    return core.delete_state_refs(&addr);
                }
                let stamp = timestamp().as_secs();
                core.commit.empty_repository(&addr, stamp)
            }
        };
        self.blocking("git.archive", empty).await??;
        fault::point("unprove.emptied");
        self.commit.remove_events(vec![event.id]).await?;
        fault::point("unprove.event_removed");
        self.hosted.set(&addr, RepositoryStatus::Held);
        self.hosted.events_changed(&addr.identifier);
        Ok(true)
    }

    async fn hold_again(&self, addr: &RepoAddr, event: Event) -> Result<(), GraspError> {
        let identifier = addr.identifier.clone();
        let (_, journalled) = self
            .try_held(|purgatory| {
                let changes =
                    purgatory.add_announcement(event, identifier, Origin::Submitted, now())?;
                Ok(((), changes))
            })
            .await?;
        if let Err(error) = journalled {
            drop(self.purgatory.lock().remove_announcement(addr));
            return Err(error.into());
        }
        Ok(())
    }

    /// Puts aside what is damaged and can be made or fetched again: refs, which events say, and
    /// packs. Says whether there was something of the kind.
    async fn mend(self: &Arc<Self>, addr: RepoAddr) -> Result<bool, GraspError> {
        let mend = move |core: &Self| {
            let repositories = &core.repositories;
            let packs = repositories.damaged_packs(&addr.identifier);
            let packs = packs.map_err(GraspError::repository(&addr))?;
            if !packs.is_empty() {
                let moved = core.commit.set_packs_aside(&addr.identifier, &packs);
                moved.map_err(GraspError::repository(&addr))?;
                return Ok(true);
            }
            let is_unreadable = matches!(repositories.refs(&addr), Err(RepoError::Refs { .. }));
            if is_unreadable {
                core.commit.reset_refs(&addr)?;
            }
            Ok::<_, GraspError>(is_unreadable)
        };
        self.blocking("git.refs", mend).await?
    }

    /// Has the data of a served event looked for again.
    async fn look_again(
        self: &Arc<Self>,
        identifier: &Identifier,
        event: EventId,
    ) -> Result<(), GraspError> {
        let look = {
            let identifier = identifier.clone();
            move |core: &Self| {
                core.commit.ensure_objects(&identifier)?;
                Ok::<_, GraspError>(core.look(|view| view.served_event(&event))?)
            }
        };
        let served = self.blocking("grasp.look", look).await??;
        if let Some(event) = served {
            self.held(|purgatory| ((), purgatory.want_again(event, identifier, now())))
                .await?;
        }
        Ok(())
    }
}

/// The announcement that an event is, if it is one.
pub(crate) fn announced(event: &Event) -> Option<RepoAddr> {
    let parsed = Announcement::parse(event.clone()).ok();
    parsed.map(|announcement| announcement.addr())
}
