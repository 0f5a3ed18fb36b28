//! Removal of what nothing names any more from the object store.
//!
//! ```text
//!  all files − those that a record or snapshot names ──▶ cluster_unneeded ──grace time──▶ removed
//! ```
//!
//! The leader does it. Nobody else has to agree, and one that lost its lead in the middle does no harm:
//! - Each file is stored under its digest and a *generation*, which rises with every leader and every sweep.
//!   A record names what was stored in the present generation or the one before, and a sweep looks at older
//!   ones alone. So a file that it finds unneeded is never named again, and the same content that is stored
//!   later is another file.
//! - A file is written down as unneeded in the epoch of the leader that found it so: what it compared with
//!   was the whole log.
//! - It goes after the grace time, which is longer than it takes to fetch it, and once every node that was
//!   heard of within `cluster_away` has applied the records that replaced it.
//! - A cluster puts its mark into the store before anything else. While there are two, nothing is removed:
//!   no cluster knows what the other one names. A sweep that looked for marks before the other one came may
//!   write its files down as unneeded; the next sweep finds both marks before it would remove them.

use std::{collections::HashSet, fs, io, path::PathBuf, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use grip_db::Column;
use grip_git::{LoggedChange, PackFile};
use grip_tasks::{TaskGroup, fault};
use tokio::time::Instant;

use crate::{
    Cluster, ClusterError, Log, PackStore,
    cluster::{as_counted, as_stored},
    log::GIT,
    pack_store::FileName,
    snapshot::{file::Reader, make::change},
};

/// Parts of the grace time after which the store is looked through again.
const SWEEPS: u32 = 4;
/// How often that is at most, and at least.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(6 * 3600);
/// Files that one statement writes down.
const AT_ONCE: usize = 500;
/// Files that are removed at the same time.
const MAX_REMOVALS: usize = 8;
/// The name of a snapshot while it is read, in the data directory.
const FILE: &str = "snapshot.swept";
/// The key of the cluster that is its mark in an object store; no node keeps it in a file.
const STORE_KEY: &str = "packs";

/// Why nothing was removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error("the object store cannot be used")]
    Io(#[from] io::Error),
    #[error(
        "the object store has packs of another cluster: nothing is removed from it. Give each cluster a \
         cluster_packs of its own; if the other one is gone for good, remove all that is in clusters/ but \
         {own}"
    )]
    Shared {
        /// The mark of this cluster.
        own: String,
    },
    #[error("the node is shutting down")]
    Stopped,
}

/// What is in the object store, as it was last looked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredTotals {
    pub files: i64,
    pub bytes: i64,
    /// Of files that nothing names any more.
    pub unneeded_bytes: i64,
}

grip_db::from_row!(StoredTotals {
    files,
    bytes,
    unneeded_bytes,
});

/// A file that nothing names.
struct Unneeded {
    object: String,
    since: i64,
    seq: i64,
}

grip_db::from_row!(Unneeded { object, since, seq });

grip_db::statements! {
    pub(crate) mod sql {
        ADVANCE = "UPDATE clusters SET generation = generation + 1 WHERE name = $1 AND epoch = $2 \
                   RETURNING generation";
        NOTE = "INSERT INTO cluster_unneeded (cluster, object, size_bytes, since, seq) \
                SELECT clusters.name, rows.object, rows.size_bytes, CAST($3 AS BIGINT), \
                       CAST($4 AS BIGINT) \
                FROM clusters, {rows $5: object text, size_bytes bigint} \
                WHERE clusters.name = $1 AND clusters.epoch = $2 \
                ON CONFLICT (cluster, object) DO NOTHING";
        UNNEEDED = "SELECT object, since, seq FROM cluster_unneeded WHERE cluster = $1 ORDER BY object";
        FORGET = "DELETE FROM cluster_unneeded WHERE cluster = $1 AND object = $2";
        COUNT = "UPDATE clusters SET stored_files = $3, stored_bytes = $4 \
                 WHERE name = $1 AND epoch = $2";
        TOTALS = "SELECT stored_files AS files, stored_bytes AS bytes, \
                  CAST(COALESCE((SELECT sum(size_bytes) FROM cluster_unneeded WHERE cluster = $1), 0) \
                       AS BIGINT) AS unneeded_bytes \
                  FROM clusters WHERE name = $1";
    }
}

impl Cluster {
    /// Puts the mark of this cluster into the object store, and returns it.
    pub async fn mark(&self, packs: &PackStore) -> Result<String, SweepError> {
        let member = self.member();
        let made = format!("{} {} {}", member.cluster, member.node, self.db().now_ms());
        let made = blake3::hash(made.as_bytes()).to_hex().to_string();
        self.keep_key(STORE_KEY, &made).await?;
        let keys = self.keys().await?;
        let own = keys.into_iter().find(|(key, _)| key == STORE_KEY);
        let own = own.map_or(made, |(_, own)| own);
        packs.put_mark(&own, &member.cluster).await?;
        Ok(own)
    }

    /// What is in the object store, as the leader last found it.
    pub async fn stored_totals(&self) -> Result<Option<StoredTotals>, ClusterError> {
        let name = [self.member().cluster.as_str().into()];
        Ok(self.db().fetch_optional(&sql::TOTALS, &name).await?)
    }
}

/// How long files are kept that nothing names.
#[derive(Clone, Copy, Debug)]
pub struct SweepOptions {
    /// Longer than it takes to fetch one.
    pub grace: Duration,
    /// Nodes that were heard of since then may still want some.
    pub away: Duration,
}

impl SweepOptions {
    fn pause(&self) -> Duration {
        (self.grace / SWEEPS).clamp(SHORTEST_PAUSE, LONGEST_PAUSE)
    }
}

/// Looks the object store through, while a node leads.
pub(crate) struct Sweep {
    cluster: Cluster,
    epoch: i64,
    packs: PackStore,
    log: Arc<Log>,
    directory: PathBuf,
    options: SweepOptions,
    group: TaskGroup,
    due: Instant,
    /// The mark of the cluster is in the store.
    is_marked: bool,
}

impl Sweep {
    pub(crate) fn new(
        (cluster, epoch): (&Cluster, i64),
        (packs, log): (PackStore, Arc<Log>),
        directory: PathBuf,
        options: SweepOptions,
        group: TaskGroup,
    ) -> Self {
        Self {
            cluster: cluster.clone(),
            epoch,
            packs,
            log,
            directory,
            options,
            group,
            due: Instant::now() + options.pause(),
            is_marked: false,
        }
    }

    /// Sweeps if that is due. The caller makes no snapshot and trims nothing meanwhile.
    pub(crate) async fn run_if_due(&mut self) -> Result<(), SweepError> {
        // As soon as the node leads, so that no other cluster takes its packs for nobody's. A store that does
        // not answer is asked again; the sweep says why.
        self.is_marked = self.is_marked || self.cluster.mark(&self.packs).await.is_ok();
        if Instant::now() < self.due {
            return Ok(());
        }
        self.due = Instant::now() + self.options.pause();
        self.check_marks().await?;
        let oldest = self.advance().await?;
        let (named, seq) = self.named().await?;
        let found = self.look_through(oldest, &named, seq).await?;
        self.remove_due(&found).await
    }

    /// Sees that no other cluster has its packs in this store.
    async fn check_marks(&self) -> Result<(), SweepError> {
        let own = self.cluster.mark(&self.packs).await?;
        let marks = self.packs.marks().await?;
        if marks.iter().all(|mark| *mark == own) {
            Ok(())
        } else {
            Err(SweepError::Shared { own })
        }
    }

    /// Begins a generation; returns the oldest that records may still name something new of.
    async fn advance(&self) -> Result<u64, SweepError> {
        let values = [self.name(), self.epoch.into()];
        let db = self.cluster.db();
        let advancing = db.write(move |mut db| {
            Box::pin(async move { db.fetch_optional(&sql::ADVANCE, &values).await })
        });
        let advanced: Option<(i64,)> = advancing.await.map_err(ClusterError::from)?;
        let (generation,) = advanced.ok_or(ClusterError::NotLeading)?;
        let log = Arc::clone(&self.log);
        let advance = move || log.advance(as_counted(generation));
        let advancing = self.group.spawn_blocking("cluster.snapshot", advance);
        advancing.await.map_err(|_| SweepError::Stopped)
    }

    /// All files that a snapshot or a record names, and the last record that was looked at.
    async fn named(&self) -> Result<(HashSet<FileName>, u64), SweepError> {
        let mut named = HashSet::new();
        for snapshot in self.cluster.snapshots().await? {
            let file = snapshot.file();
            let path = self.directory.join(FILE);
            self.packs.get(&file, &path).await?;
            named.extend(FileName::of(&file));
            let reading = self.group.spawn_blocking("cluster.snapshot", move || {
                let names = names_in(&path);
                // Best effort: the next one is written over it.
                let _ = fs::remove_file(path);
                names
            });
            named.extend(reading.await.map_err(|_| SweepError::Stopped)??);
        }
        let mut seq = as_counted(self.cluster.known_state().await?.trimmed);
        loop {
            let records = self.cluster.read(seq).await?;
            let Some(last) = records.last() else {
                return Ok((named, seq));
            };
            seq = as_counted(last.seq);
            for record in records.iter().filter(|record| record.kind == GIT) {
                add_names(&change(&record.payload)?, &mut named);
            }
        }
    }

    /// Finds what is not named, and writes it down. Returns all that is unneeded from before.
    async fn look_through(
        &self,
        oldest: u64,
        named: &HashSet<FileName>,
        seq: u64,
    ) -> Result<Vec<Unneeded>, SweepError> {
        let db = self.cluster.db();
        let known: Vec<Unneeded> = db
            .fetch_all(&sql::UNNEEDED, &[self.name()])
            .await
            .map_err(ClusterError::from)?;
        let (mut files, mut bytes) = (0_i64, 0_i64);
        let mut unneeded = HashSet::new();
        let mut pages = self.packs.list().try_chunks(AT_ONCE);
        while let Some(page) = pages.next().await {
            let page = page.map_err(|error| error.1)?;
            let (mut objects, mut sizes) = (Vec::new(), Vec::new());
            for (name, size_bytes) in page {
                let size_bytes = as_stored(size_bytes);
                files += 1;
                bytes += size_bytes;
                if name.generation < oldest && !named.contains(&name) {
                    objects.push(name.to_string());
                    sizes.push(size_bytes);
                    unneeded.insert(name.to_string());
                }
            }
            self.note(objects, sizes, seq).await?;
        }
        let values = [self.name(), self.epoch.into(), files.into(), bytes.into()];
        let counted = db.execute(&sql::COUNT, &values).await;
        counted.map_err(ClusterError::from)?;
        fault::point("cluster.sweep_noted");
        let (found, gone): (Vec<_>, Vec<_>) = known
            .into_iter()
            .partition(|known| unneeded.contains(&known.object));
        for gone in gone {
            // A crash came between its removal and this.
            self.forget(&gone.object).await?;
        }
        Ok(found)
    }

    async fn note(
        &self,
        objects: Vec<String>,
        sizes: Vec<i64>,
        seq: u64,
    ) -> Result<(), SweepError> {
        if objects.is_empty() {
            return Ok(());
        }
        let db = self.cluster.db();
        let columns = [Column::Texts(objects), Column::Ints(sizes)];
        let values = [
            self.name(),
            self.epoch.into(),
            db.now_ms().into(),
            as_stored(seq).into(),
        ];
        let noting = db.write(move |mut db| {
            Box::pin(async move { db.execute_rows(&sql::NOTE, &columns, &values).await })
        });
        noting.await.map_err(ClusterError::from)?;
        Ok(())
    }

    /// Removes what was unneeded for the whole grace time.
    async fn remove_due(&self, found: &[Unneeded]) -> Result<(), SweepError> {
        let before = self.before(self.options.grace);
        let applied = self.cluster.applied_since(self.before(self.options.away));
        let applied = applied.await?;
        let is_due = |file: &&Unneeded| {
            let is_applied = applied.is_none_or(|applied| applied >= file.seq);
            file.since <= before && is_applied
        };
        let due: Vec<String> = found
            .iter()
            .filter(is_due)
            .map(|file| file.object.clone())
            .collect();
        let files = due.len();
        let removing = stream::iter(due)
            .map(|object| async move { self.remove(&object).await })
            .buffer_unordered(MAX_REMOVALS)
            .try_collect::<()>();
        removing.await?;
        if files > 0 {
            tracing::info!(files, "removed unneeded files from the object store");
        }
        Ok(())
    }

    async fn remove(&self, object: &str) -> Result<(), SweepError> {
        if let Some(name) = FileName::parse(object) {
            self.packs.remove(&name).await?;
            fault::point("cluster.swept");
        }
        self.forget(object).await
    }

    async fn forget(&self, object: &str) -> Result<(), SweepError> {
        let values = [self.name(), object.into()];
        let forgotten = self.cluster.db().execute(&sql::FORGET, &values).await;
        forgotten.map_err(ClusterError::from)?;
        Ok(())
    }

    fn before(&self, ago: Duration) -> i64 {
        let ago = i64::try_from(ago.as_millis()).unwrap_or(i64::MAX);
        self.cluster.db().now_ms().saturating_sub(ago)
    }

    fn name(&self) -> grip_db::Value {
        self.cluster.member().cluster.as_str().into()
    }
}

/// The files that a snapshot names. Blocks.
fn names_in(path: &std::path::Path) -> io::Result<HashSet<FileName>> {
    let (reader, _) = Reader::open(path)?;
    let mut named = HashSet::new();
    for piece in reader {
        let (kind, piece) = piece?;
        if kind == GIT {
            add_names(&change(&piece)?, &mut named);
        }
    }
    Ok(named)
}

fn add_names(change: &LoggedChange, named: &mut HashSet<FileName>) {
    let names = change
        .files()
        .filter_map(|file: &PackFile| FileName::of(file));
    named.extend(names);
}

#[cfg(test)]
mod tests;
