//! The start: what was held is held again, what was half done is finished, and what lies on disk
//! is compared with what is served.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    ops::ControlFlow,
    sync::Arc,
};

use grip_db::{Db, DbError};
use grip_nostr::{Address, Announcement, RepoAddr, kinds};
use grip_purgatory::{Phase, Purgatory, Restored, Row};
use grip_queue::{Filter, Queue};
use grip_store::{EventView, Limits, ReadView, StoreError};
use grip_tasks::{Lanes, Periodic};
use grip_types::Identifier;
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};

use crate::{
    DataSource, Grasp, Parts,
    commit::Commit,
    error::GraspError,
    grasp::{Core, MAX_WAITING, now, timestamp},
    hold::MAX_FORGETTING,
    hosted_repositories::{HostedRepositories, RepositoryStatus},
    incoming::MAX_TOO_SOON,
    sync::max_looks,
    withdrawal::Withdrawals,
};

/// Why the service cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    #[error("what was held cannot be read back")]
    Journal(#[from] DbError),
    #[error("the events that are served cannot be read")]
    Store(#[from] StoreError),
    #[error("the repositories cannot be listed")]
    List(#[source] io::Error),
    #[error("the repositories cannot be brought in step with the events")]
    Reconcile(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl From<GraspError> for StartError {
    fn from(error: GraspError) -> Self {
        Self::Reconcile(Box::new(error))
    }
}

impl Grasp {
    /// Starts the service: restores what was held, brings disk and events in step, finishes
    /// releases that were cut short, removes objects that nothing needs, and begins to sweep.
    pub async fn start(parts: Parts) -> Result<Self, StartError> {
        let commit = Commit::new(
            parts.repositories.clone(),
            parts.writer.clone(),
            parts.db.clone(),
        );
        let mut rows = commit.load_held().await?;
        let withdrawals = Withdrawals::restore(&mut rows);
        let identifiers = identifiers(&rows);
        let restored = Purgatory::restore(rows, parts.bounds, now());
        let Restored {
            purgatory,
            changes,
            unreadable,
        } = restored;
        for row in &unreadable {
            tracing::error!(%row, "failed to read a held entry; it stays in the journal");
        }
        let sweep_every = parts.sweep_every;
        let db = parts.db.clone();
        let core = Arc::new(Core::new(parts, commit, purgatory, withdrawals));
        core.write_held(changes).await?;
        remove_wanted_jobs(&db).await?;
        core.reconcile(identifiers.clone()).await?;
        for identifier in identifiers {
            let released = core.release_at_start(&identifier).await;
            released.log(&identifier);
        }
        if let Err(error) = core.remove_unused_stores().await {
            error.log("failed to look for unused object stores");
        }
        let sweeping = Arc::clone(&core);
        let sweeper = Periodic::start(&core.group, "grasp.sweep", sweep_every, move || {
            Arc::clone(&sweeping).sweep_now()
        });
        Ok(Self { core, sweeper })
    }
}

impl Core {
    fn new(parts: Parts, commit: Commit, purgatory: Purgatory, withdrawals: Withdrawals) -> Self {
        Self {
            store: parts.store,
            commit,
            repositories: parts.repositories,
            policy: parts.policy,
            group: parts.group,
            purgatory: Mutex::new(purgatory),
            bounds: parts.bounds,
            lanes: Lanes::new(MAX_WAITING),
            hosted: HostedRepositories::default(),
            withdrawals,
            refusals: Default::default(),
            pushes: Default::default(),
            pending_repacks: Default::default(),
            kept: Default::default(),
            sync_changes: watch::Sender::new(0),
            announcements_accepted: watch::Sender::new(0),
            too_soon: Semaphore::new(MAX_TOO_SOON),
            looks: Semaphore::new(max_looks()),
            forgetting: Arc::new(Semaphore::new(MAX_FORGETTING)),
        }
    }

    async fn release_at_start(self: &Arc<Self>, identifier: &Identifier) -> crate::Released {
        // Nobody else is at work yet, so the turn is not asked for.
        self.release(identifier, DataSource::Start).await
    }

    /// Brings disk and events in step, and notes pushed refs that nothing notes.
    async fn reconcile(self: &Arc<Self>, held: BTreeSet<Identifier>) -> Result<(), StartError> {
        let reconcile = move |core: &Self| core.reconcile_disk(&held);
        self.blocking("grasp.start", reconcile).await??;
        let hosted = self.hosted.all().into_iter().map(|(addr, _)| addr);
        self.hold_orphan_refs(hosted.collect()).await?;
        Ok(())
    }

    fn reconcile_disk(&self, held: &BTreeSet<Identifier>) -> Result<(), StartError> {
        let view = self.store.read()?;
        let is_new_here = self.store.stats()?.events == 0;
        for addr in self.repositories.list().map_err(StartError::List)? {
            match self.status(&addr, &view)? {
                Some(status) => self.hosted.set(&addr, status),
                // Another server's data was put here before its events: they may still come.
                None if is_new_here => {
                    tracing::info!(repository = %addr, "keeping a repository that is not announced yet");
                }
                None => {
                    tracing::info!(repository = %addr, "archiving a repository that is neither served nor held");
                    self.remove_or_archive(&addr)?;
                }
            }
        }
        for (addr, status) in self.announced_here(held, &view)? {
            if self.hosted.status(&addr).is_none() {
                self.ensure_repository(&addr, status)?;
            }
        }
        Ok(())
    }

    /// How a repository on disk stands by its announcement.
    fn status(
        &self,
        addr: &RepoAddr,
        view: &dyn EventView,
    ) -> Result<Option<RepositoryStatus>, StoreError> {
        if view.latest(&Address::of_announcement(addr))?.is_some() {
            return Ok(Some(RepositoryStatus::Served));
        }
        let purgatory = self.purgatory.lock();
        let held = purgatory.find_announcement(addr);
        let shown = held.is_some_and(|entry| entry.phase == Phase::Shown);
        Ok(shown.then_some(RepositoryStatus::Held))
    }

    /// Every repository that an announcement says is here.
    fn announced_here(
        &self,
        held: &BTreeSet<Identifier>,
        view: &ReadView<'_>,
    ) -> Result<BTreeMap<RepoAddr, RepositoryStatus>, StoreError> {
        let policy = self.policy.load();
        let mut found = BTreeMap::new();
        for addr in self.shown_announcements(held) {
            found.insert(addr, RepositoryStatus::Held);
        }
        let filter = grip_nostr::Filter {
            kinds: Some(vec![kinds::ANNOUNCEMENT.as_u16()]),
            ..grip_nostr::Filter::default()
        };
        let limits = Limits {
            default_limit: usize::MAX,
            max_limit: usize::MAX,
        };
        view.query(&[filter], limits, timestamp(), &mut |stored| {
            let event = serde_json::from_slice(stored.json).ok();
            let announcement = event.and_then(|event| Announcement::parse(event).ok());
            if let Some(announcement) = announcement
                && announcement.lists(&policy.service)
                && policy.selects(&announcement.addr())
            {
                found.insert(announcement.addr(), RepositoryStatus::Served);
            }
            ControlFlow::Continue(())
        })?;
        Ok(found)
    }

    fn shown_announcements(&self, held: &BTreeSet<Identifier>) -> Vec<RepoAddr> {
        let purgatory = self.purgatory.lock();
        let all = held
            .iter()
            .flat_map(|identifier| purgatory.announcements(identifier));
        let shown = all.filter(|entry| entry.phase == Phase::Shown);
        shown.map(|entry| entry.addr.clone()).collect()
    }
}

/// Removes the jobs by which earlier versions looked for wanted data: the sync queue does so now.
async fn remove_wanted_jobs(db: &Db) -> Result<(), DbError> {
    let kind = match db.node() {
        "" => "wanted".to_owned(),
        node => format!("wanted@{node}"),
    };
    let queue = Queue::new(db.clone());
    let filter = Filter {
        kind: Some(kind.clone()),
        ..Filter::default()
    };
    loop {
        let jobs = queue.list(&filter, 1_000).await?;
        if jobs.is_empty() {
            return Ok(());
        }
        for job in jobs {
            queue.remove(&kind, &job.key).await?;
        }
    }
}

/// The identifiers that something is held for.
fn identifiers(rows: &[Row]) -> BTreeSet<Identifier> {
    let parsed = rows.iter().map(|row| Identifier::parse(&row.identifier));
    parsed.filter_map(Result::ok).collect()
}
