//! Beginning of a log with what a single node has: a snapshot, and nothing before it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use grip_git::{LoggedState, PackFile, Repositories};
use grip_store::EventStore;
use grip_tasks::{TaskGroup, fault};
use tokio::runtime::Handle;

use super::{
    SnapshotError,
    file::{Reader, Writer},
    make::{PIECE, WRITTEN, change, object_of},
    sql,
};
use crate::{Cluster, ClusterError, PackStore, Tip, cluster::as_stored, log::GIT};

/// The record that stands for all that was there.
const FIRST: u64 = 1;
/// The generation of what is stored before anybody leads: done again, it finds it there.
const BEFORE_ALL: u64 = 0;

/// What a data directory is made part of a cluster with.
#[derive(Clone)]
pub struct SingleNode {
    pub store: EventStore,
    pub repositories: Repositories,
    /// Where files are written.
    pub directory: PathBuf,
    pub group: TaskGroup,
}

impl Cluster {
    /// Has the log begin with all that a single node has, which nobody may change meanwhile. Done again
    /// after it was cut short, it leads to the same; it fails if the log has begun with something else.
    /// `on_progress` is told how many bytes of how many are done.
    pub async fn adopt(
        &self,
        packs: &PackStore,
        node: &SingleNode,
        on_progress: impl FnMut(u64, u64) + Send + 'static,
    ) -> Result<Tip, SnapshotError> {
        let (reading, store) = (node.clone(), packs.clone());
        let mut work = Work::of(node, Box::new(on_progress))?;
        let writing = node.group.spawn_blocking("cluster.snapshot", move || {
            let (tip, state) = write(&reading, &store, &mut work)?;
            Ok::<_, SnapshotError>((tip, state, work))
        });
        let (tip, state, mut work) = writing.await.map_err(|_| SnapshotError::Stopped)??;
        let path = node.directory.join(WRITTEN);
        let stored = packs.put(&path, BEFORE_ALL).await?;
        work.add(work.snapshot_bytes);
        packs.get(&stored, &path).await?;
        work.add(work.snapshot_bytes);
        let (file, expected) = (path.clone(), tip.clone());
        let reading = node.group.spawn_blocking("cluster.snapshot", move || {
            let (read, digest) = read(&file, &mut work)?;
            Ok::<_, SnapshotError>(read == state && digest == expected.digest)
        });
        let is_same = reading.await.map_err(|_| SnapshotError::Stopped)??;
        if !is_same {
            return Err(SnapshotError::Record { seq: FIRST });
        }
        fault::point("cluster.adopt_stored");
        self.begin_with(&tip, stored).await?;
        fault::point("cluster.adopt_begun");
        // Best effort: it is of no more use.
        let _ = fs::remove_file(path);
        Ok(tip)
    }

    async fn begin_with(&self, tip: &Tip, stored: PackFile) -> Result<(), SnapshotError> {
        let state = self.known_state().await?;
        let name: grip_db::Value = self.member().cluster.as_str().into();
        let record = [
            name.clone(),
            state.epoch.into(),
            as_stored(tip.seq).into(),
            tip.digest.as_str().into(),
            object_of(&stored).into(),
            as_stored(stored.size_bytes).into(),
            self.db().now_ms().into(),
        ];
        let begin = [name, as_stored(tip.seq).into(), tip.digest.as_str().into()];
        let beginning = self.db().write(move |mut db| {
            Box::pin(async move {
                let begun = db.execute(&sql::BEGIN_WITH, &begin).await? == 1;
                if begun {
                    db.execute(&sql::RECORD, &record).await?;
                }
                Ok(begun)
            })
        });
        let begun = beginning.await.map_err(ClusterError::from)?;
        if begun || state.tip() == *tip {
            Ok(())
        } else {
            Err(SnapshotError::Begun {
                seq: state.tip().seq,
            })
        }
    }
}

/// How far an adoption is, in bytes.
struct Work {
    pack_bytes: u64,
    /// Those of the event store, until the snapshot was read once.
    snapshot_bytes: u64,
    done: u64,
    on_progress: Box<dyn FnMut(u64, u64) + Send>,
}

impl Work {
    /// A snapshot is read for its digest, written, stored, fetched and read back.
    const PASSES: u64 = 5;

    fn of(
        node: &SingleNode,
        on_progress: Box<dyn FnMut(u64, u64) + Send>,
    ) -> Result<Self, SnapshotError> {
        let repositories = &node.repositories;
        let (all, stores) = (repositories.list()?, repositories.stores()?);
        let shared = stores.iter().map(|of| repositories.object_bytes(of));
        let staged = all.iter().map(|repo| repositories.staged_bytes(repo));
        Ok(Self {
            pack_bytes: shared.chain(staged).sum(),
            snapshot_bytes: node.store.stats()?.used_bytes,
            done: 0,
            on_progress,
        })
    }

    fn add(&mut self, bytes: u64) {
        self.done += bytes;
        let total = self.pack_bytes + Self::PASSES * self.snapshot_bytes;
        (self.on_progress)(self.done, total.max(self.done));
    }
}

/// Writes the snapshot of a single node and stores its packs. Blocks.
fn write(
    node: &SingleNode,
    packs: &PackStore,
    work: &mut Work,
) -> Result<(Tip, LoggedState), SnapshotError> {
    let runtime = Handle::current();
    let mut store_pack = |files: Vec<PathBuf>| -> io::Result<Vec<PackFile>> {
        let storing = async {
            let mut stored = Vec::new();
            for file in &files {
                let file = packs.put(file, BEFORE_ALL).await?;
                if file.extension == "pack" {
                    work.add(file.size_bytes);
                }
                stored.push(file);
            }
            Ok::<_, io::Error>(stored)
        };
        runtime.block_on(storing)
    };
    let state = node.repositories.logged_state(&mut store_pack)?;
    let (mut digest, before) = (Digest::default(), work.done);
    each_piece(&state, &node.store, &mut |kind, piece| {
        digest.add(kind, piece);
        work.add(piece.len() as u64);
        Ok(())
    })?;
    (work.pack_bytes, work.snapshot_bytes) = (before, work.done - before);
    let tip = Tip {
        seq: FIRST,
        digest: digest.end(),
    };
    let mut writer = Writer::create(&node.directory.join(WRITTEN), &tip)?;
    each_piece(&state, &node.store, &mut |kind, piece| {
        work.add(piece.len() as u64);
        if kind == GIT {
            writer.git(piece)
        } else {
            writer.store(piece)
        }
    })?;
    writer.end()?;
    Ok((tip, state))
}

/// Reads a snapshot back, with the digest of its pieces. Blocks.
fn read(path: &Path, work: &mut Work) -> io::Result<(LoggedState, String)> {
    let (reader, _) = Reader::open(path)?;
    let (mut state, mut digest) = (LoggedState::default(), Digest::default());
    for piece in reader {
        let (kind, piece) = piece?;
        digest.add(kind, &piece);
        work.add(piece.len() as u64);
        if kind == GIT {
            state.apply(change(&piece)?);
        }
    }
    Ok((state, digest.end()))
}

type TakePiece<'a> = dyn FnMut(&str, &[u8]) -> io::Result<()> + 'a;

fn each_piece(
    state: &LoggedState,
    store: &EventStore,
    take: &mut TakePiece<'_>,
) -> Result<(), SnapshotError> {
    for change in state.clone().into_changes() {
        let change = serde_json::to_vec(&change).map_err(io::Error::other)?;
        take(GIT, &change)?;
    }
    store.read()?.encoded(PIECE, |piece| {
        take(crate::log::STORE, &piece).map_err(SnapshotError::from)
    })
}

/// Tells one content of a snapshot from another.
#[derive(Default)]
struct Digest(blake3::Hasher);

impl Digest {
    fn add(&mut self, kind: &str, piece: &[u8]) {
        for part in [kind.as_bytes(), piece] {
            self.0.update(&(part.len() as u64).to_be_bytes());
            self.0.update(part);
        }
    }

    fn end(self) -> String {
        self.0.finalize().to_hex().to_string()
    }
}
