//! The open store, and its two kinds of transaction.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use heed::{CompactionOption, Env, EnvOpenOptions, WithoutTls};

use crate::{
    CompactError, Compacted, OpenError, ReadView, StoreError, WriteView,
    compaction::{self, ChangeLog},
    tables::{self, Tables},
};

/// LMDB wants the map in whole pages; this is a multiple of every common page size.
const MAP_UNIT: usize = 1 << 16;

/// How the store is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The most the store may grow to; 64 GiB. Address space only: the file grows with its content,
    /// and pages that were read are the kernel's cache, not the heap. At the bound writes fail with
    /// [`StoreError::Full`] and everything written stays.
    pub map_bytes: usize,
    /// Read transactions at once; 1024. At the bound `read` fails with
    /// [`StoreError::TooManyReaders`].
    pub max_readers: u32,
    /// Keep requests to delete and let them do nothing (G01-121); false.
    pub ignores_deletions: bool,
    /// Have every transaction say what it changed ([`WriteView::encoded_changes`]); false.
    pub notes_changes: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            map_bytes: 64 << 30,
            max_readers: 1024,
            ignores_deletions: false,
            notes_changes: false,
        }
    }
}

/// How much the store holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Events, those expired and not yet swept among them.
    pub events: u64,
    /// Bytes of the file in use, free pages inside it included.
    pub used_bytes: u64,
    /// The bound of `used_bytes`.
    pub map_bytes: u64,
}

/// The served events. Clones share one environment, which closes with the last of them.
#[derive(Clone)]
pub struct EventStore {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) path: PathBuf,
    pub(crate) options: Options,
    /// Replaced as a whole by a compaction.
    pub(crate) current: RwLock<Opened>,
    /// Held by the one write of the moment; what it changes is noted while the store is compacted.
    pub(crate) writing: Mutex<Option<ChangeLog>>,
    /// Held by the one compaction of the moment, which counts them.
    pub(crate) compacting: Mutex<u64>,
}

/// An environment with its tables.
#[derive(Clone)]
pub(crate) struct Opened {
    pub(crate) env: Env<WithoutTls>,
    pub(crate) tables: Tables,
}

impl Opened {
    pub(crate) fn open(path: &Path, options: &Options) -> Result<Self, OpenError> {
        let env = open_env(path, options)?;
        let tables = Tables::open(&env)?;
        Ok(Self { env, tables })
    }
}

impl EventStore {
    /// Opens the store in the directory `path`, which is created if missing.
    ///
    /// That no other process has it open is the caller's care.
    pub fn open(path: &Path, options: Options) -> Result<Self, OpenError> {
        fs::create_dir_all(path).map_err(OpenError::Directory)?;
        compaction::remove_unfinished(path).map_err(OpenError::Directory)?;
        let current = Opened::open(path, &options)?;
        let shared = Arc::new(Shared {
            path: path.to_owned(),
            options,
            current: RwLock::new(current),
            writing: Mutex::new(None),
            compacting: Mutex::new(0),
        });
        Ok(Self { shared })
    }

    fn current(&self) -> Opened {
        let current = self.shared.current.read();
        current.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes a snapshot. Keep it short: pages freed meanwhile cannot be used again until it ends.
    pub fn read(&self) -> Result<ReadView<'_>, StoreError> {
        let Opened { env, tables } = self.current();
        Ok(ReadView::new(tables, env.static_read_txn()?))
    }

    /// Runs `work` on the calling thread and commits what it did, durable on return. If it returns
    /// an error, or panics, nothing changed. Blocks while another write is under way.
    pub fn write<T>(
        &self,
        work: impl FnOnce(&mut WriteView<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let writing = self.shared.writing.lock();
        // A write that panicked changed nothing, so there is nothing wrong with the lock.
        let mut log = writing.unwrap_or_else(PoisonError::into_inner);
        let Opened { env, tables } = self.current();
        let options = &self.shared.options;
        let notes_changes = options.notes_changes || log.is_some();
        let ignores_deletions = options.ignores_deletions;
        let mut view = WriteView::new(tables, env.write_txn()?, notes_changes, ignores_deletions)?;
        let value = work(&mut view)?;
        let changes = view.commit()?;
        if let Some(log) = &mut *log {
            log.extend(changes);
        }
        Ok(value)
    }

    /// Writes the store again without its free pages, while it is read and written. Blocks for as
    /// long as that takes; writes wait for a moment at its end.
    ///
    /// Whatever happens on the way, the store is the old one or the new one, whole: the new file
    /// takes the old one's place in one step, with everything that was written until then.
    pub fn compact(&self) -> Result<Compacted, CompactError> {
        compaction::run(&self.shared)
    }

    /// Bytes that a compaction under way has written, and about how many it will write. Blocking.
    pub fn compaction_progress(&self) -> Result<(u64, u64), StoreError> {
        let written = compaction::written_bytes(&self.shared.path).map_err(heed::Error::Io)?;
        Ok((written, self.stats()?.used_bytes.max(written)))
    }

    /// Writes the store as it is at this moment into a new file that [`EventStore::open`] can be given
    /// the directory of. Blocks for as long as that takes; reads and writes go on.
    ///
    /// Pages stay where they are, free ones included, so that two copies differ where the store does.
    pub fn copy_to(&self, directory: &Path) -> Result<(), StoreError> {
        fs::create_dir_all(directory).map_err(heed::Error::Io)?;
        let file = directory.join(compaction::DATA_FILE);
        // A compaction replaces the environment, and waits for none who uses the old one.
        let Opened { env, .. } = self.current();
        let mut copy = env.copy_to_path(file, CompactionOption::Disabled)?;
        copy.flush()
            .and_then(|()| copy.sync_all())
            .map_err(heed::Error::Io)?;
        Ok(())
    }

    /// Stands for what is stored: another number after every write.
    pub fn revision(&self) -> u64 {
        let Opened { env, .. } = self.current();
        widen(env.info().last_txn_id)
    }

    pub fn stats(&self) -> Result<Stats, StoreError> {
        let Opened { env, tables } = self.current();
        let txn = env.read_txn()?;
        let events = tables.events.stat(&txn)?;
        let info = env.info();
        let pages = widen(info.last_page_number) + 1;
        Ok(Stats {
            events: widen(events.entries),
            used_bytes: pages * u64::from(events.page_size),
            map_bytes: widen(info.map_size),
        })
    }
}

fn widen(number: usize) -> u64 {
    u64::try_from(number).expect("usize has at most 64 bits")
}

#[expect(
    unsafe_code,
    reason = "a memory map is sound as long as nobody else changes its file; the data directory is locked"
)]
fn open_env(path: &Path, options: &Options) -> Result<Env<WithoutTls>, OpenError> {
    let mut builder = EnvOpenOptions::new().read_txn_without_tls();
    builder
        .map_size(options.map_bytes.next_multiple_of(MAP_UNIT))
        .max_readers(options.max_readers)
        .max_dbs(tables::COUNT);
    // SAFETY: the default flags keep LMDB's locks and syncs; the file is changed through it alone.
    Ok(unsafe { builder.open(path) }?)
}

#[cfg(test)]
mod tests {
    use heed::{CommitOrAbort, types::Bytes};

    use super::*;

    #[test]
    fn a_store_of_another_format_is_refused_and_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let store = EventStore::open(dir.path(), Options::default()).unwrap();
        let Opened { env, .. } = store.current();
        let txn = env.write_txn().unwrap();
        env.create_databases_and_commit(txn, |opener, txn| {
            let meta = opener.create_database::<Bytes, Bytes>(txn, Some("meta"))?;
            meta.put(txn, b"format", &99_u32.to_be_bytes())?;
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(meta))
        })
        .unwrap();
        drop((env, store));
        for _ in 0..2 {
            let refused = EventStore::open(dir.path(), Options::default());
            assert!(matches!(
                refused,
                Err(OpenError::Format {
                    found: 99,
                    known: 2
                })
            ));
        }
    }

    #[test]
    fn a_store_of_format_1_is_taken_over_with_its_deletion_requests() {
        use nostr::prelude::{EventBuilder, FinalizeEvent as _, Keys, Kind, Tag, Timestamp};

        use crate::EventView as _;

        let dir = tempfile::tempdir().unwrap();
        let store = EventStore::open(dir.path(), Options::default()).unwrap();
        let keys = Keys::generate();
        let note = EventBuilder::new(Kind::from(1), "x")
            .finalize(&keys)
            .unwrap();
        let tag = Tag::parse(["e", &note.id.to_hex()]).unwrap();
        let request = EventBuilder::new(Kind::from(5), "").tag(tag);
        let request = request.finalize(&keys).unwrap();
        let put = store.write(|view| view.put(&request, Timestamp::now()));
        put.unwrap();
        let Opened { env, tables } = store.current();
        let mut txn = env.write_txn().unwrap();
        tables.requests.clear(&mut txn).unwrap();
        tables.targets.clear(&mut txn).unwrap();
        txn.commit().unwrap();
        let txn = env.write_txn().unwrap();
        env.create_databases_and_commit(txn, |opener, txn| {
            let meta = opener.create_database::<Bytes, Bytes>(txn, Some("meta"))?;
            meta.put(txn, b"format", &1_u32.to_be_bytes())?;
            Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(meta))
        })
        .unwrap();
        drop((env, store));
        let store = EventStore::open(dir.path(), Options::default()).unwrap();
        let view = store.read().unwrap();
        assert_eq!(view.deletion_of(&note).unwrap(), Some(request.id));
        assert_eq!(view.request_counts().unwrap().served, 1);
    }
}
