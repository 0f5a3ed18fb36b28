//! Snapshots as their leader makes them.

use std::{fs, io, path::PathBuf, sync::Arc, time::Duration};

use grip_db::DbError;
use grip_git::{LoggedChange, LoggedState, PackFile};
use grip_store::{EventStore, StoreError};
use grip_tasks::{CancellationToken, TaskGroup, fault};
use tokio::time::sleep;

use super::{
    Snapshot,
    file::{Reader, Writer},
    sql,
};
use crate::{
    Cluster, ClusterError, Lease, Log, PackStore, Tip,
    cluster::{as_counted, as_stored},
    log::GIT,
    pack_store::FileName,
    sweep::{Sweep, SweepOptions},
};

/// How often it is looked whether a snapshot is due, and what can be trimmed.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How soon one that failed is tried again.
const RETRY_DELAY: Duration = Duration::from_secs(10);
/// Bytes of events in memory at once.
pub(super) const PIECE: usize = 1 << 20;
/// Records that one transaction takes out of the log.
const CUT: u64 = 1_000;
/// Snapshots that are kept: the last one for those who are reading it.
const KEPT: usize = 2;

/// The names of files while they are used, in the data directory.
pub(super) const WRITTEN: &str = "snapshot.made";
const BEFORE: &str = "snapshot.before";

/// Why there is no new snapshot.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error("the snapshot before it, or the store of packs, cannot be used")]
    Io(#[from] io::Error),
    #[error("the events cannot be read")]
    Store(#[from] StoreError),
    #[error("record {seq} of the cluster's log is missing, or is not what it was")]
    Record { seq: u64 },
    #[error(
        "the log of the cluster has {seq} records already: use another cluster_name, or start this node \
         with an empty data directory"
    )]
    Begun { seq: u64 },
    #[error("the node is shutting down")]
    Stopped,
}

/// When snapshots are made, and for whom the log is kept.
#[derive(Clone, Copy, Debug)]
pub struct SnapshotOptions {
    /// A snapshot follows after so many records.
    pub records: u64,
    /// Records are kept for nodes that were heard of since then.
    pub away: Duration,
}

/// Makes snapshots and trims the log, while a node leads.
pub struct Snapshots {
    cluster: Cluster,
    epoch: i64,
    packs: PackStore,
    store: EventStore,
    log: Arc<Log>,
    /// Where files are written.
    directory: PathBuf,
    options: SnapshotOptions,
    group: TaskGroup,
}

impl Snapshots {
    pub fn new(
        lease: &Lease,
        packs: PackStore,
        (store, log): (EventStore, Arc<Log>),
        directory: PathBuf,
        options: SnapshotOptions,
        group: TaskGroup,
    ) -> Self {
        Self {
            cluster: lease.cluster().clone(),
            epoch: lease.epoch(),
            packs,
            store,
            log,
            directory,
            options,
            group,
        }
    }

    /// Does what is due, again and again, until told to stop.
    pub async fn run(&self, sweeping: SweepOptions, stop: CancellationToken) {
        let mut sweep = Sweep::new(
            (&self.cluster, self.epoch),
            (self.packs.clone(), Arc::clone(&self.log)),
            self.directory.clone(),
            sweeping,
            self.group.clone(),
        );
        let working = async {
            loop {
                let pause = match self.work().await {
                    Ok(()) => {
                        // In turns with the snapshots: neither changes what the other reads.
                        if let Err(error) = sweep.run_if_due().await {
                            let error: &dyn std::error::Error = &error;
                            tracing::warn!(error, "failed to look through the object store");
                        }
                        LOOK_EVERY
                    }
                    Err(error) => {
                        let error: &dyn std::error::Error = &error;
                        tracing::warn!(error, "failed to make a snapshot of the cluster's log");
                        RETRY_DELAY
                    }
                };
                sleep(pause).await;
            }
        };
        stop.run_until_cancelled(working).await;
    }

    async fn work(&self) -> Result<(), SnapshotError> {
        let snapshots = self.cluster.snapshots().await?;
        let newest = snapshots.first();
        let position = self.log.position();
        let since = newest.map_or(0, |newest| as_counted(newest.seq));
        if position.seq.saturating_sub(since) >= self.options.records {
            self.make(newest, &position).await?;
        }
        if let Some(newest) = newest {
            self.trim(as_counted(newest.seq)).await?;
        }
        for old in snapshots.iter().skip(KEPT) {
            self.forget(old).await?;
        }
        Ok(())
    }

    /// Makes a snapshot of all up to `tip`, which is on this disk, and makes it known.
    async fn make(&self, newest: Option<&Snapshot>, tip: &Tip) -> Result<(), SnapshotError> {
        let state = self.state_at(newest, tip).await?;
        let path = self.directory.join(WRITTEN);
        let (store, to, at) = (self.store.clone(), path.clone(), tip.clone());
        let writing = move || write(state, &store, &to, &at);
        let writing = self.group.spawn_blocking("cluster.snapshot", writing);
        writing.await.map_err(|_| SnapshotError::Stopped)??;
        let stored = self.packs.put(&path, self.log.generation()).await?;
        fault::point("cluster.snapshot_stored");
        let size_bytes = stored.size_bytes;
        self.record(tip, stored).await?;
        fault::point("cluster.snapshot_recorded");
        // Best effort: the next one is written over it.
        let _ = fs::remove_file(path);
        tracing::info!(
            seq = tip.seq,
            size_bytes,
            "made a snapshot of the cluster's log"
        );
        Ok(())
    }

    /// Repositories and packs as they are at `tip`: those of the snapshot before, and what came since.
    async fn state_at(
        &self,
        newest: Option<&Snapshot>,
        tip: &Tip,
    ) -> Result<LoggedState, SnapshotError> {
        let (mut state, mut at) = match newest {
            Some(newest) => (self.state_of(newest).await?, newest.tip()),
            None => (LoggedState::default(), Tip::default()),
        };
        while at.seq < tip.seq {
            let records = self.cluster.read(at.seq).await?;
            let missing = SnapshotError::Record { seq: at.seq + 1 };
            if records.is_empty() {
                return Err(missing);
            }
            for record in records {
                let (expected, found) = (at.seq + 1, as_counted(record.seq));
                if found > tip.seq {
                    break;
                }
                let next = at.after(&record).filter(|_| found == expected);
                at = next.ok_or(SnapshotError::Record { seq: expected })?;
                if record.kind == GIT {
                    state.apply(change(&record.payload)?);
                }
            }
        }
        if at.agrees_with(tip) {
            Ok(state)
        } else {
            Err(SnapshotError::Record { seq: tip.seq })
        }
    }

    async fn state_of(&self, newest: &Snapshot) -> Result<LoggedState, SnapshotError> {
        let path = self.directory.join(BEFORE);
        self.packs.get(&newest.file(), &path).await?;
        let reading = self.group.spawn_blocking("cluster.snapshot", move || {
            let (reader, _) = Reader::open(&path)?;
            let mut state = LoggedState::default();
            for piece in reader {
                let (kind, payload) = piece?;
                if kind == GIT {
                    state.apply(change(&payload)?);
                }
            }
            // Best effort: the next one is written over it.
            let _ = fs::remove_file(path);
            Ok::<_, SnapshotError>(state)
        });
        reading.await.map_err(|_| SnapshotError::Stopped)?
    }

    async fn record(&self, tip: &Tip, stored: PackFile) -> Result<(), SnapshotError> {
        let values = [
            self.name(),
            self.epoch.into(),
            as_stored(tip.seq).into(),
            tip.digest.as_str().into(),
            object_of(&stored).into(),
            as_stored(stored.size_bytes).into(),
            self.cluster.db().now_ms().into(),
        ];
        let recorded = self.cluster.db().execute(&sql::RECORD, &values).await;
        recorded.map_err(ClusterError::from)?;
        Ok(())
    }

    /// Takes records out of the log that are in the snapshot at `newest`, and that nobody needs.
    async fn trim(&self, newest: u64) -> Result<(), SnapshotError> {
        let state = self.cluster.known_state().await?;
        let away = i64::try_from(self.options.away.as_millis()).unwrap_or(i64::MAX);
        let since = self.cluster.db().now_ms().saturating_sub(away);
        let applied = self.cluster.applied_since(since).await?;
        let end = applied.map_or(newest, |applied| newest.min(as_counted(applied)));
        let mut trimmed = as_counted(state.trimmed);
        while trimmed < end {
            trimmed = end.min(trimmed + CUT);
            if !self.cut(trimmed).await.map_err(ClusterError::from)? {
                return Err(ClusterError::NotLeading.into());
            }
            fault::point("cluster.trimmed");
        }
        Ok(())
    }

    /// Takes out all up to `seq`; false if this node leads no more.
    async fn cut(&self, seq: u64) -> Result<bool, DbError> {
        let (name, epoch, seq) = (self.name(), self.epoch, as_stored(seq));
        let cutting = self.cluster.db().write(move |mut db| {
            Box::pin(async move {
                let trim = [name.clone(), epoch.into(), seq.into()];
                let leads = db.execute(&sql::TRIM, &trim).await? == 1;
                if leads {
                    db.execute(&sql::CUT, &[name, seq.into()]).await?;
                }
                Ok(leads)
            })
        });
        cutting.await
    }

    /// Forgets a snapshot that later ones have replaced. Its file is swept after the grace time, as packs
    /// are: a backup of the database may name it.
    async fn forget(&self, old: &Snapshot) -> Result<(), SnapshotError> {
        let values = [self.name(), old.seq.into()];
        let forgotten = self.cluster.db().execute(&sql::FORGET, &values).await;
        forgotten.map_err(ClusterError::from)?;
        Ok(())
    }

    fn name(&self) -> grip_db::Value {
        self.cluster.member().cluster.as_str().into()
    }
}

/// The name of a file in the object store.
pub(super) fn object_of(stored: &PackFile) -> String {
    FileName::of(stored).map_or_else(|| stored.digest.clone(), |name| name.to_string())
}

/// Writes a snapshot; durable on return. Blocks.
fn write(
    state: LoggedState,
    store: &EventStore,
    to: &std::path::Path,
    tip: &Tip,
) -> Result<(), SnapshotError> {
    let mut writer = Writer::create(to, tip)?;
    for change in state.into_changes() {
        let change = serde_json::to_vec(&change).map_err(io::Error::other)?;
        writer.git(&change)?;
    }
    fault::point("cluster.snapshot_half");
    // What was stored after `tip` may be in it too: the records that say so are made again.
    store.read()?.encoded(PIECE, |piece| {
        writer.store(&piece).map_err(SnapshotError::from)
    })?;
    writer.end()?;
    Ok(())
}

pub(crate) fn change(payload: &[u8]) -> io::Result<LoggedChange> {
    serde_json::from_slice(payload).map_err(io::Error::other)
}

#[cfg(test)]
mod tests;
