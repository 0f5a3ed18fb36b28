//! The log as its leader writes it.

use std::{
    collections::BTreeMap,
    error::Error,
    io,
    path::PathBuf,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use grip_db::DbError;
use grip_git::{ChangeLog, LoggedChange, PackFile};
use grip_relay::CommitLog;
use parking_lot::{Mutex, MutexGuard};
use tokio::{
    runtime::Handle,
    sync::watch,
    task::block_in_place,
    time::{Instant, sleep},
};

use crate::{
    ClusterError, Lease, PackStore, Tip,
    cluster::{Cluster, NewRecord, as_counted},
};

/// Kinds of records.
pub(crate) const STORE: &str = "store";
pub(crate) const GIT: &str = "git";

/// How long a record is tried to be appended while the database does not answer.
const APPEND_TIMEOUT: Duration = Duration::from_secs(30);
const RETRY_DELAY: Duration = Duration::from_millis(50);

/// The log of a leader, in its epoch.
///
/// A record whose fate is not known is appended again under the same number, which the database takes
/// once. If that cannot be told either, nothing is appended any more, and the node has to stop: what is
/// in the log and not on its disk comes back to it when it follows.
pub struct Log {
    cluster: Cluster,
    epoch: i64,
    packs: PackStore,
    /// In which files are stored.
    generation: AtomicU64,
    runtime: Handle,
    /// One record at a time.
    appending: Mutex<Appending>,
    made: Mutex<Made>,
    failure: watch::Sender<Option<String>>,
}

struct Appending {
    /// Records of this epoch.
    count: i64,
    /// The end of the log.
    tip: Tip,
    /// Files of earlier generations may be removed if no record names them.
    oldest_generation: u64,
}

/// What of the log is on this disk.
struct Made {
    last: Tip,
    /// Records that are logged and being made, each with the place before it.
    under_way: BTreeMap<u64, Tip>,
}

impl Log {
    /// The log of a leader that has followed it to its end. Needs a runtime around it.
    pub fn new(lease: &Lease, packs: PackStore, tip: Tip) -> Self {
        Self {
            cluster: lease.cluster().clone(),
            epoch: lease.epoch(),
            packs,
            generation: AtomicU64::new(lease.generation()),
            runtime: Handle::current(),
            appending: Mutex::new(Appending {
                count: 0,
                tip: tip.clone(),
                oldest_generation: lease.generation(),
            }),
            made: Mutex::new(Made {
                last: tip,
                under_way: BTreeMap::new(),
            }),
            failure: watch::Sender::new(None),
        }
    }

    /// Up to which record everything is on this disk.
    pub fn position(&self) -> Tip {
        let made = self.made.lock();
        let first = made.under_way.values().next();
        first.unwrap_or(&made.last).clone()
    }

    /// Says that this node lives, and that everything up to `made` is on its disk.
    pub async fn report(&self, made: &Tip) -> Result<(), ClusterError> {
        self.cluster.report(made.seq, self.packs.cache_use()).await
    }

    /// The generation in which files are stored.
    pub(crate) fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// Has files stored in a new generation from now on; returns the one before it. Nothing that was
    /// stored earlier than that is named by a record from now on, unless one names it already. Blocks,
    /// while a record is appended.
    pub(crate) fn advance(&self, generation: u64) -> u64 {
        let mut appending = self.appending.lock();
        let before = self.generation.swap(generation, Ordering::AcqRel);
        appending.oldest_generation = before;
        before
    }

    /// Waits until nothing can be appended any more, and says why.
    pub async fn failed(&self) -> String {
        let mut failure = self.failure.subscribe();
        match failure.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            // The sender is ours.
            Err(_) => std::future::pending().await,
        }
    }

    /// Appends a record. Blocks.
    fn write(&self, kind: &'static str, payload: Vec<u8>) -> Result<u64, ClusterError> {
        self.write_in(self.appending.lock(), kind, payload)
    }

    fn write_in(
        &self,
        mut appending: MutexGuard<'_, Appending>,
        kind: &'static str,
        payload: Vec<u8>,
    ) -> Result<u64, ClusterError> {
        if self.failure.borrow().is_some() {
            return Err(ClusterError::NotLeading);
        }
        let record = NewRecord {
            epoch: self.epoch,
            number: appending.count + 1,
            digest: appending.tip.digest_of_next(kind, &payload),
            kind,
            payload,
        };
        let appended = block_in_place(|| self.runtime.block_on(self.append_surely(&record)));
        match appended {
            Ok(Some(seq)) => {
                let tip = Tip {
                    seq: as_counted(seq),
                    digest: record.digest,
                };
                let seq = tip.seq;
                let before = std::mem::replace(&mut appending.tip, tip.clone());
                appending.count = record.number;
                let mut made = self.made.lock();
                made.last = tip;
                made.under_way.insert(seq, before);
                Ok(seq)
            }
            Ok(None) => {
                self.fail("another node leads the cluster now");
                Err(ClusterError::NotLeading)
            }
            Err(error) => {
                self.fail("a record could not be appended to the log of the cluster");
                Err(error.into())
            }
        }
    }

    /// Tries until it is known what became of the record.
    async fn append_surely(&self, record: &NewRecord) -> Result<Option<i64>, DbError> {
        let until = Instant::now() + APPEND_TIMEOUT;
        loop {
            let appending = self.cluster.append(record);
            match appending.await {
                Err(error) if error.is_transient() && Instant::now() < until => {
                    tracing::warn!(%error, "failed to append to the log of the cluster; trying again");
                    sleep(RETRY_DELAY).await;
                }
                known => return known,
            }
        }
    }

    fn made(&self, seq: u64) {
        self.made.lock().under_way.remove(&seq);
    }

    fn fail(&self, reason: &str) {
        self.failure.send_if_modified(|failure| {
            let is_first = failure.is_none();
            failure.get_or_insert_with(|| reason.to_owned());
            is_first
        });
    }

    /// The record stays under way: it is made when this node follows.
    fn not_made(&self, seq: u64) {
        tracing::error!(
            seq,
            "failed to make a change that is in the log of the cluster"
        );
        self.fail("a change that the other nodes make could not be made here");
    }
}

impl ChangeLog for Log {
    fn store_pack(&self, files: Vec<PathBuf>) -> io::Result<Vec<PackFile>> {
        let storing = async {
            let mut stored = Vec::new();
            for file in &files {
                stored.push(self.packs.put(file, self.generation()).await?);
            }
            Ok(stored)
        };
        block_in_place(|| self.runtime.block_on(storing))
    }

    fn append(&self, change: LoggedChange) -> io::Result<u64> {
        let payload = serde_json::to_vec(&change)?;
        let appending = self.appending.lock();
        let oldest = appending.oldest_generation;
        if change.files().any(|file| file.generation < oldest) {
            return Err(io::Error::other(
                "what was stored for this took too long and may be gone: push again",
            ));
        }
        let written = self.write_in(appending, GIT, payload);
        written.map_err(io::Error::other)
    }

    fn applied(&self, seq: u64) {
        self.made(seq);
    }

    fn failed(&self, seq: u64) {
        self.not_made(seq);
    }
}

impl CommitLog for Log {
    fn append(&self, changes: Vec<u8>) -> Result<u64, Box<dyn Error + Send + Sync>> {
        Ok(self.write(STORE, changes)?)
    }

    fn applied(&self, seq: u64) {
        self.made(seq);
    }

    fn failed(&self, seq: u64) {
        self.not_made(seq);
    }
}
