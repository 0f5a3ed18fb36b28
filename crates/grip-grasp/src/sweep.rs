//! The periodic sweep: expired entries, ended withdrawals, unused stores.

use std::{
    collections::BTreeSet,
    fmt,
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use grip_git::Discarded;
use grip_nostr::{Address, Announcement, Event, EventId, RepoAddr};
use grip_purgatory::{Expired, Millis, Phase};
use grip_tasks::{PeriodicStatus, fault};
use grip_types::{ErrorChain, Identifier};

use crate::{
    Grasp,
    error::GraspError,
    grasp::{Core, now},
    repositories::remove_taken,
};

/// How many identifiers that could not be settled are tried again in one sweep.
const SETTLED_PER_SWEEP: usize = 64;

/// What one sweep did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// Held events given up.
    pub events: usize,
    /// Empty repositories removed.
    pub repositories: usize,
    /// `refs/nostr/*` deleted because no event came.
    pub refs: usize,
    /// Repositories archived because their owners had left.
    pub withdrawn: usize,
    /// Profiles removed because their authors did not become known here.
    pub profiles: usize,
    /// Object stores removed because nothing needs them any more.
    pub stores: usize,
    /// Points in which relay and git did not agree, of the identifiers audited.
    pub disagreements: usize,
}

/// A repository that was taken out of its place and whose files are still there.
pub(crate) struct Taken {
    addr: RepoAddr,
    discarded: Discarded,
}

impl fmt::Display for Swept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            events,
            repositories,
            refs,
            withdrawn,
            profiles,
            stores,
            disagreements,
        } = self;
        write!(
            f,
            "{events} events expired, {repositories} empty repositories and {refs} refs removed, \
             {withdrawn} repositories archived, {profiles} profiles and {stores} stores removed, \
             {disagreements} disagreements found"
        )
    }
}

impl Grasp {
    /// How the sweeper is doing.
    pub fn sweeper(&self) -> PeriodicStatus {
        self.sweeper.status()
    }

    /// Ends what has expired by `now`. The sweeper does this every minute.
    pub async fn sweep(&self, now: Millis) -> Swept {
        match self.core.sweep(now).await {
            Ok(swept) => swept,
            Err(error) => {
                error.log("sweep failed");
                Swept::default()
            }
        }
    }
}

impl Core {
    pub(crate) async fn sweep_now(self: Arc<Self>) -> Result<Swept, String> {
        let swept = self.sweep(now()).await;
        swept.map_err(|error| ErrorChain(&error).to_string())
    }

    async fn sweep(self: &Arc<Self>, now: Millis) -> Result<Swept, GraspError> {
        let _alone = self.sweeping.lock().await;
        // Memory has ended them, whatever becomes of the journal: a row that stays is ended again
        // by the next start.
        let (mut expired, journalled) = self
            .try_held(|purgatory| {
                let (expired, mut changes) = purgatory.cleanup(now);
                changes.append(&mut self.departures.remember_ended(&expired));
                Ok((expired, changes))
            })
            .await?;
        // A repository that is empty without them is removed; with them it would be archived, and come back
        // with refs whose time is over.
        expired.sort_by_key(|expired| !matches!(expired, Expired::Placeholder { .. }));
        let mut swept = Swept::default();
        let credited = self.credit_requests().await;
        let mut concerned = BTreeSet::new();
        for expired in expired {
            concerned.extend(concerns(&expired).iter().cloned());
            if let Err(error) = self.end(expired, &mut swept).await {
                error.log("failed to clean up after an expired entry");
            }
        }
        concerned.extend(self.unsettled.next(SETTLED_PER_SWEEP));
        for identifier in &concerned {
            self.settle_in_turn(identifier).await;
        }
        for addr in self.withdrawals.due(now) {
            match self.end_of_grace(&addr).await {
                Ok(()) => swept.withdrawn += 1,
                Err(error) => error.log("failed to archive a withdrawn repository"),
            }
        }
        self.enforce_again().await;
        swept.profiles = self.end_newcomers(now).await?;
        swept.stores = self.remove_unused_stores().await?;
        self.thaw_abandoned(now).await?;
        swept.disagreements = self.audit_some().await?;
        credited?;
        journalled?;
        Ok(swept)
    }

    /// Removes what was laid out for a backup whose command was killed: it is space, and links keep that of
    /// packs which go meanwhile.
    async fn thaw_abandoned(self: &Arc<Self>, now: Millis) -> Result<(), GraspError> {
        let now = UNIX_EPOCH + Duration::from_millis(u64::try_from(now.get()).unwrap_or_default());
        let thaw = move |core: &Self| core.repositories.thaw_abandoned(now);
        match self.blocking("git.stores", thaw).await? {
            Ok(false) => {}
            Ok(true) => tracing::warn!("removed the state of a backup that nobody ended"),
            Err(error) => {
                tracing::warn!(%error, "failed to remove the state of an abandoned backup");
            }
        }
        Ok(())
    }

    async fn end(self: &Arc<Self>, expired: Expired, swept: &mut Swept) -> Result<(), GraspError> {
        match expired {
            Expired::AnnouncementRepository(addr) => {
                swept.repositories += usize::from(self.end_repository(addr).await?);
            }
            Expired::Placeholder { event_id, repo, .. } => {
                swept.refs += usize::from(self.end_ref(event_id, repo).await?);
            }
            Expired::Announcement { addr, event_id, .. } => {
                tracing::info!(repository = %addr, %event_id, "announcement expired");
                swept.events += 1;
            }
            Expired::State {
                identifier,
                event_id,
            } => {
                tracing::info!(%identifier, %event_id, "state expired without its git data");
                swept.events += 1;
            }
            Expired::Pr { event_id, .. } => {
                tracing::info!(%event_id, "pull request expired without its git data");
                swept.events += 1;
            }
            Expired::Wanted { event_id, .. } => {
                tracing::info!(%event_id, "search for the git data of an expired event ended");
            }
        }
        Ok(())
    }

    /// Removes the empty repository of an announcement that is hidden, unless it came back before
    /// the turn was ours.
    async fn end_repository(self: &Arc<Self>, addr: RepoAddr) -> Result<bool, GraspError> {
        let mut taken = Vec::new();
        let ended = {
            let _turns = self.turns(vec![addr.identifier.clone()]).await?;
            self.take_hidden(addr, &mut taken).await
        };
        self.remove_all_taken(taken).await;
        ended
    }

    /// Acts on an announcement that made room for another, in the turn of their identifier. The files of
    /// its repository are left to the caller.
    pub(crate) async fn end_in_turn(
        self: &Arc<Self>,
        expired: Expired,
        taken: &mut Vec<Taken>,
    ) -> Result<(), GraspError> {
        match expired {
            Expired::AnnouncementRepository(addr) => {
                tracing::info!(repository = %addr, "announcement hidden to make room for another");
                self.take_hidden(addr, taken).await.map(drop)
            }
            other => self.end(other, &mut Swept::default()).await,
        }
    }

    /// Takes the repository of a hidden announcement out of its place; says whether it did.
    async fn take_hidden(
        self: &Arc<Self>,
        addr: RepoAddr,
        taken: &mut Vec<Taken>,
    ) -> Result<bool, GraspError> {
        let take = move |core: &Self| {
            let shown = {
                let purgatory = core.purgatory.lock();
                let entry = purgatory.find_announcement(&addr);
                entry.is_some_and(|entry| entry.phase == Phase::Shown)
            };
            let served = core
                .look(|view| view.latest(&Address::of_announcement(&addr)))?
                .is_some();
            if shown || served {
                return Ok(None);
            }
            let discarded = core.take_or_archive(&addr)?;
            Ok::<_, GraspError>(Some(discarded.map(|discarded| Taken { addr, discarded })))
        };
        let ended = self.blocking("git.remove", take).await??;
        let is_ended = ended.is_some();
        taken.extend(ended.flatten());
        Ok(is_ended)
    }

    /// Removes the files of repositories that were taken out of their places, in nobody's turn.
    pub(crate) async fn remove_all_taken(self: &Arc<Self>, taken: Vec<Taken>) {
        if taken.is_empty() {
            return;
        }
        let remove = move |_: &Self| {
            for Taken { addr, discarded } in taken {
                if let Err(error) = remove_taken(&addr, discarded) {
                    error.log("failed to remove an empty repository; the next start removes it");
                }
            }
        };
        if let Err(error) = self.blocking("git.remove", remove).await {
            error.log("failed to remove empty repositories; the next start removes them");
        }
    }

    /// Deletes a ref whose event did not come, unless it did before the turn was ours.
    async fn end_ref(self: &Arc<Self>, id: EventId, addr: RepoAddr) -> Result<bool, GraspError> {
        let _turns = self.turns(vec![addr.identifier.clone()]).await?;
        let delete = move |core: &Self| {
            let waits = {
                let purgatory = core.purgatory.lock();
                let placeholder = purgatory.find_pr_placeholder(&id);
                placeholder.is_some_and(|found| found.refs.contains_key(&addr))
                    || purgatory.find_event(&id).is_some()
            };
            let served = core.look(|view| view.served_event(&id))?.is_some();
            let is_here = addr.is_contributor() || core.hosted.status(&addr).is_some();
            if waits || served || !is_here {
                return Ok(false);
            }
            // At whatever commit: a push that failed after its note may have left an older one.
            let moved = core.clear_tip(&addr, &id, None)?;
            Ok(moved.deleted > 0)
        };
        self.blocking("git.refs", delete).await?
    }

    async fn end_of_grace(self: &Arc<Self>, addr: &RepoAddr) -> Result<(), GraspError> {
        let _turns = self.turns(vec![addr.identifier.clone()]).await?;
        if self.withdrawals.until(addr).is_none() {
            return Ok(());
        }
        self.archive_withdrawn(addr).await?;
        self.settle(&addr.identifier).await;
        Ok(())
    }

    /// Archives a repository whose owner has left, and ends its announcement; the caller has the turn.
    pub(crate) async fn archive_withdrawn(
        self: &Arc<Self>,
        addr: &RepoAddr,
    ) -> Result<(), GraspError> {
        let archive = {
            let addr = addr.clone();
            move |core: &Self| {
                core.archive(&addr)?;
                Ok::<_, GraspError>(
                    core.look(|view| view.latest(&Address::of_announcement(&addr)))?,
                )
            }
        };
        let announcement = self.blocking("git.archive", archive).await??;
        fault::point("withdraw.archived");
        let policy = self.policy.load_full();
        let is_hosted = |event: &Event| {
            let parsed = Announcement::parse(event.clone());
            parsed.is_ok_and(|announcement| policy.hosts(&announcement))
        };
        // What it says is not true any more: the repository is gone.
        if let Some(event) = announcement.filter(is_hosted) {
            self.commit.remove_events(vec![event.id]).await?;
        }
        Ok(self.end_withdrawal(addr).await?)
    }
}

/// The identifiers whose refs may have to follow the end of an entry.
pub(crate) fn concerns(expired: &Expired) -> &[Identifier] {
    match expired {
        Expired::AnnouncementRepository(addr) | Expired::Announcement { addr, .. } => {
            std::slice::from_ref(&addr.identifier)
        }
        Expired::Placeholder { repo, .. } => std::slice::from_ref(&repo.identifier),
        Expired::State { identifier, .. } => std::slice::from_ref(identifier),
        Expired::Pr { identifiers, .. } => identifiers,
        Expired::Wanted { .. } => &[],
    }
}
