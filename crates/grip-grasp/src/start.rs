//! The start: what was held is held again, what was half done is finished, and what lies on disk
//! is compared with what is served.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    ops::ControlFlow,
    sync::Arc,
    time::Duration,
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
    Grasp, Parts, Policy,
    admission::ReadAnnouncements,
    agreement::Scope,
    commit::Commit,
    departures::Departures,
    error::GraspError,
    former_names,
    grasp::{Core, MAX_WAITING, now, timestamp},
    hold::MAX_FORGETTING,
    holding::Holding,
    hosted_repositories::{HostedRepositories, RepositoryStatus},
    incoming::{MAX_PREPARING, MAX_TOO_SOON},
    operator::Blocks,
    sync::max_looks,
    withdrawal::Withdrawals,
};

/// How often events whose own time is over are looked for: the relay shows them no longer, and git
/// must not either.
const EXPIRY_EVERY: Duration = Duration::from_secs(1);

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
        let departures = Departures::restore(&mut rows);
        let blocks = Blocks::restore(&mut rows);
        let service = parts.policy.load().service.clone();
        let former = former_names::restore(&mut rows, &service, &commit, now().get()).await?;
        parts.policy.rcu(|policy| Policy {
            former: former.clone(),
            blocked: blocks.selection(),
            ..Policy::clone(policy)
        });
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
        let core = Arc::new(Core::new(
            parts,
            commit,
            purgatory,
            withdrawals,
            departures,
            blocks,
        ));
        core.write_held(changes).await?;
        core.holding.withhold_kept().await?;
        remove_wanted_jobs(&db).await?;
        core.reconcile(identifiers).await?;
        if let Err(error) = core.remove_unused_stores().await {
            error.log("failed to look for unused object stores");
        }
        if let Err(error) = core.restore_newcomers(now()).await {
            error.log("failed to look for profiles of newcomers");
        }
        let sweeping = Arc::clone(&core);
        let sweeper = Periodic::start(&core.group, "grasp.sweep", sweep_every, move || {
            Arc::clone(&sweeping).sweep_now()
        });
        let maintaining = Arc::clone(&core);
        // The group owns its loop.
        drop(Periodic::start(
            &core.group,
            "grasp.maintain",
            sweep_every,
            move || Arc::clone(&maintaining).maintain_now(),
        ));
        let ending = Arc::clone(&core);
        Periodic::start(&core.group, "grasp.expiry", EXPIRY_EVERY, move || {
            Arc::clone(&ending).end_expired_now()
        });
        let aging = Arc::clone(&core);
        let every = core.lifecycle.every;
        Periodic::start(&core.group, "grasp.lifecycle", every, move || {
            Arc::clone(&aging).age_now()
        });
        core.enforce_soon();
        Ok(Self { core, sweeper })
    }
}

impl Core {
    fn new(
        parts: Parts,
        commit: Commit,
        purgatory: Purgatory,
        withdrawals: Withdrawals,
        departures: Departures,
        blocks: Blocks,
    ) -> Self {
        let holding = Holding::new(parts.db, parts.repositories.withheld_tips());
        Self {
            store: parts.store,
            commit,
            repositories: parts.repositories,
            announcements: ReadAnnouncements::new(parts.policy.load_full()),
            policy: parts.policy,
            group: parts.group,
            purgatory: Mutex::new(purgatory),
            bounds: parts.bounds,
            lanes: Lanes::new(MAX_WAITING),
            hosted: HostedRepositories::default(),
            withdrawals,
            departures,
            blocks,
            enforcement: Default::default(),
            holding,
            lifecycle: parts.lifecycle,
            used_requests: Default::default(),
            unsettled: Default::default(),
            damage: Default::default(),
            auditor: Default::default(),
            sweeping: Default::default(),
            refusals: Default::default(),
            denials: Default::default(),
            newcomers: Default::default(),
            pushes: Default::default(),
            request_bytes: Default::default(),
            maintenance: Default::default(),
            keep: parts.keep,
            collecting: Default::default(),
            kept: Default::default(),
            sync_changes: watch::Sender::new(0),
            announcements_accepted: watch::Sender::new(0),
            too_soon: Semaphore::new(MAX_TOO_SOON),
            preparing: Semaphore::new(MAX_PREPARING),
            looks: Semaphore::new(max_looks()),
            forgetting: Arc::new(Semaphore::new(MAX_FORGETTING)),
        }
    }

    /// Brings disk and events in step. One repository that cannot be used stops no other.
    async fn reconcile(self: &Arc<Self>, held: BTreeSet<Identifier>) -> Result<(), StartError> {
        let reconcile = move |core: &Self| core.reconcile_disk(&held);
        let unsettled = self.blocking("grasp.start", reconcile).await??;
        // Nobody else is at work yet, so the turns are not asked for.
        for identifier in &unsettled {
            self.settle(identifier).await;
        }
        Ok(())
    }

    /// Takes up what is on disk, and returns the identifiers that have to be settled: those that
    /// something waits for, and those about which relay and git do not agree.
    fn reconcile_disk(
        &self,
        held: &BTreeSet<Identifier>,
    ) -> Result<BTreeSet<Identifier>, StartError> {
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
                    if let Err(error) = self.remove_or_archive(&addr) {
                        error.log("failed to archive a repository; it is not served");
                    }
                }
            }
        }
        for (addr, status) in self.announced_here(held, &view)? {
            if self.hosted.status(&addr).is_none()
                && let Err(error) = self.ensure_repository(&addr, status, None)
            {
                self.hosted.set(&addr, status);
                error.log("failed to make a repository that is announced here");
            }
        }
        let mut unsettled = self.identifiers();
        unsettled.retain(|identifier| {
            let agrees = self
                .compare(identifier, Scope::All)
                .is_ok_and(|found| found.is_empty());
            held.contains(identifier) || !agrees
        });
        Ok(unsettled)
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
                && policy.hosts(&announcement)
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
