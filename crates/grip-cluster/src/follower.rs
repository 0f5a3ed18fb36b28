//! A copy that follows the log.

use std::{collections::BTreeSet, io, path::Path, sync::Arc, time::Duration};

use grip_git::{Applied, LoggedChange, PackFile, RefUpdateError, Repositories};
use grip_store::{EventStore, StoreError};
use grip_tasks::{CancellationToken, TaskGroup, fault};
use grip_types::Identifier;
use tokio::{
    runtime::Handle,
    sync::{Mutex, watch},
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::{
    Cluster, ClusterError, PackStore, Position, PositionError, State, Tip,
    cluster::{Record, TOPIC, as_counted},
    log::{GIT, STORE},
};

/// How often the log is read although nobody told of anything new.
const POLL_EVERY: Duration = Duration::from_millis(500);
/// How soon a record that could not be applied is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// How often stores that grew are repacked.
const REPACK_EVERY: Duration = Duration::from_secs(60);
/// How long a reader waits for this copy to catch up.
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a copy does not follow.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error("record {seq} of the cluster's log cannot be applied to the events of this node")]
    Store { seq: u64, source: StoreError },
    #[error("record {seq} of the cluster's log cannot be applied to the repositories of this node")]
    Git { seq: u64, source: RefUpdateError },
    #[error("record {seq} of the cluster's log is of another version of gripfast: use that one")]
    Unknown { seq: u64 },
    #[error(
        "record {seq} is not in the cluster's log any more: this node was away for longer than the log is \
         kept (cluster_away). Start it again: it begins with the newest snapshot"
    )]
    Trimmed { seq: u64 },
    #[error("the snapshot of the cluster's log at record {seq} cannot be taken over")]
    Snapshot { seq: u64, source: io::Error },
    #[error(
        "the log of the cluster goes on without record {seq}, which this node has: the database was set \
         back. Bring its newest state back, or start this node with an empty data directory"
    )]
    SetBack { seq: u64 },
    #[error(transparent)]
    Position(#[from] PositionError),
    #[error("the node is shutting down")]
    Stopped,
}

/// A copy of events and repositories. Clones are the same copy.
#[derive(Clone)]
pub struct Follower {
    pub(crate) shared: Arc<Shared>,
}

pub(crate) struct Shared {
    cluster: Cluster,
    store: EventStore,
    repositories: Repositories,
    pub(crate) packs: PackStore,
    pub(crate) position: Arc<Position>,
    /// The last record that was applied.
    pub(crate) applied: watch::Sender<Tip>,
    /// Why the next one cannot be.
    trouble: watch::Sender<Option<String>>,
    /// Held by the one who applies.
    pub(crate) applying: Mutex<()>,
    /// Stores that got a pack since they were last repacked; at most those on disk.
    grown: parking_lot::Mutex<BTreeSet<Identifier>>,
    pub(crate) group: TaskGroup,
}

impl Follower {
    /// A copy that has everything up to `tip`.
    pub fn new(
        cluster: Cluster,
        (store, repositories): (EventStore, Repositories),
        packs: PackStore,
        position: Arc<Position>,
        tip: Tip,
        group: TaskGroup,
    ) -> Self {
        let shared = Shared {
            cluster,
            store,
            repositories,
            packs,
            position,
            applied: watch::Sender::new(tip),
            trouble: watch::Sender::new(None),
            applying: Mutex::default(),
            grown: parking_lot::Mutex::default(),
            group,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Up to which record everything is here.
    pub fn applied(&self) -> Tip {
        self.shared.applied.borrow().clone()
    }

    /// Says that this node lives, and how far it has followed.
    pub async fn report(&self) -> Result<(), ClusterError> {
        let Shared { cluster, packs, .. } = &*self.shared;
        cluster.report(self.applied().seq, packs.cache_use()).await
    }

    /// Why the next record cannot be applied, if so.
    pub fn trouble(&self) -> Option<String> {
        self.shared.trouble.borrow().clone()
    }

    /// Applies what is in the log until there is no more; returns the last record.
    pub async fn catch_up(&self) -> Result<Tip, FollowError> {
        let shared = &self.shared;
        let _applying = shared.applying.lock().await;
        loop {
            let before = self.applied();
            let records = shared.cluster.read(before.seq).await?;
            if records.is_empty() {
                return Ok(before);
            }
            let copy = Arc::clone(shared);
            let applying = shared
                .group
                .spawn_blocking("cluster.apply", move || copy.apply_all(records));
            applying.await.map_err(|_| FollowError::Stopped)??;
        }
    }

    /// Follows the log until told to stop. What cannot be applied is tried again, and nothing after it
    /// before.
    pub async fn run(&self, stop: CancellationToken) {
        let mut told = self.shared.cluster.db().topic(TOPIC);
        let following = async {
            loop {
                told.mark_unchanged();
                let pause = match self.catch_up().await {
                    Ok(_) => {
                        self.shared.trouble.send_replace(None);
                        self.remove_rest().await;
                        POLL_EVERY
                    }
                    Err(error) => {
                        let text = chain(&error);
                        let before = self.shared.trouble.send_replace(Some(text.clone()));
                        if before.as_ref() != Some(&text) {
                            tracing::error!(error = text, "failed to follow the cluster");
                        }
                        RETRY_DELAY
                    }
                };
                // Its end says nothing that the next look does not find out.
                let _ = timeout(pause, told.changed()).await;
                if self.trouble().is_some() {
                    sleep(RETRY_DELAY).await;
                }
            }
        };
        stop.run_until_cancelled(following).await;
    }

    /// Removes the stores that were read when they were to go; false if one still is.
    pub async fn remove_rest(&self) -> bool {
        let shared = &self.shared;
        // Nothing comes into such a store meanwhile.
        let _applying = shared.applying.lock().await;
        let rest = shared.position.removals();
        if rest.is_empty() {
            return true;
        }
        let copy = Arc::clone(shared);
        let removing = move || {
            for identifier in &rest {
                copy.remove_store(identifier);
            }
        };
        let removing = shared.group.spawn_blocking("cluster.apply", removing);
        // One that was stopped goes on after the next start.
        let _ = removing.await;
        shared.position.removals().is_empty()
    }

    /// Repacks stores that grew, again and again, until told to stop: fetches read from few packs.
    pub async fn maintain(&self, stop: CancellationToken) {
        let maintaining = async {
            loop {
                sleep(REPACK_EVERY).await;
                let grown = std::mem::take(&mut *self.shared.grown.lock());
                for identifier in grown {
                    if self.shared.repositories.is_cold(&identifier) {
                        // Until it has all its packs.
                        self.shared.grown.lock().insert(identifier);
                        continue;
                    }
                    let repacked = self.shared.repositories.repack(&identifier).await;
                    if let Err(error) = repacked {
                        let error: &dyn std::error::Error = &error;
                        tracing::warn!(%identifier, error, "failed to repack objects");
                        self.shared.grown.lock().insert(identifier);
                    }
                }
            }
        };
        stop.run_until_cancelled(maintaining).await;
    }

    /// Waits until everything is here that was in the log when this was called; false if that takes too
    /// long, or if the log cannot be read.
    pub async fn is_fresh(&self) -> bool {
        let until = Instant::now() + CATCH_UP_TIMEOUT;
        let before = self.applied();
        let Ok(Ok(state)) = timeout_at(until, self.shared.cluster.known_state()).await else {
            return false;
        };
        let wanted = as_counted(state.seq);
        if before.seq >= wanted && !before.agrees_with(&state.tip()) {
            // The database was set back: nobody knows what this copy has too much.
            return false;
        }
        let mut applied = self.shared.applied.subscribe();
        let reached = applied.wait_for(|applied| applied.seq >= wanted);
        matches!(timeout_at(until, reached).await, Ok(Ok(_)))
    }
}

impl State {
    /// Fails if the log ends with less than a copy had before this was read, or with something else, or if
    /// what the copy needs next is not in it any more.
    pub fn check_copy(&self, applied: &Tip) -> Result<(), FollowError> {
        let end = self.tip();
        if applied.seq < as_counted(self.trimmed) {
            let seq = applied.seq + 1;
            return Err(FollowError::Trimmed { seq });
        }
        let is_behind = applied.seq < end.seq;
        if is_behind || applied.agrees_with(&end) {
            Ok(())
        } else {
            Err(FollowError::SetBack { seq: applied.seq })
        }
    }
}

impl Shared {
    fn apply_all(&self, records: Vec<Record>) -> Result<(), FollowError> {
        for record in records {
            let applied = self.applied.borrow().clone();
            let (expected, found) = (applied.seq + 1, as_counted(record.seq));
            if found != expected {
                // Records have no gaps.
                return Err(FollowError::Trimmed { seq: expected });
            }
            let set_back = FollowError::SetBack { seq: applied.seq };
            let next = applied.after(&record).ok_or(set_back)?;
            self.apply(found, &record)?;
            fault::point("cluster.applied");
            self.applied.send_replace(next);
        }
        let applied = self.applied.borrow().clone();
        Ok(self.position.write(&applied)?)
    }

    pub(crate) fn apply(&self, seq: u64, record: &Record) -> Result<(), FollowError> {
        match record.kind.as_str() {
            STORE => {
                let applied = self.store.write(|view| view.apply_changes(&record.payload));
                applied.map_err(|source| FollowError::Store { seq, source })
            }
            GIT => {
                let change: LoggedChange = serde_json::from_slice(&record.payload)
                    .map_err(|_| FollowError::Unknown { seq })?;
                let fetch = |file: &PackFile, to: &Path| self.fetch(file, to);
                let applied = self.repositories.apply_logged(&change, &fetch);
                let applied = applied.map_err(|source| FollowError::Git { seq, source })?;
                if let LoggedChange::RemoveStore { identifier } = &change
                    && applied == Applied::StillRead
                {
                    self.position.note_removal(identifier);
                } else {
                    self.position.forget_removal(change.identifier());
                }
                if let LoggedChange::Pack { identifier, .. } = change {
                    self.grown.lock().insert(identifier);
                }
                Ok(())
            }
            _ => Err(FollowError::Unknown { seq }),
        }
    }

    /// Tries once more to remove a store. Blocks.
    fn remove_store(&self, identifier: &Identifier) {
        let gone = LoggedChange::RemoveStore {
            identifier: identifier.clone(),
        };
        let unneeded =
            |_: &PackFile, _: &Path| -> io::Result<()> { Err(io::ErrorKind::Unsupported.into()) };
        match self.repositories.apply_logged(&gone, &unneeded) {
            Ok(Applied::StillRead) => {}
            Ok(Applied::Whole) => self.position.forget_removal(identifier),
            Err(error) => {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(%identifier, error, "failed to remove objects; trying again");
            }
        }
    }

    /// On a thread where it may block.
    fn fetch(&self, file: &PackFile, to: &Path) -> io::Result<()> {
        Handle::current().block_on(self.packs.get(file, to))
    }
}

/// The error with all its causes.
fn chain(error: &FollowError) -> String {
    grip_bucket::in_words(error)
}
