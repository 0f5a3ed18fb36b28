//! The open store, and its two kinds of transaction.

use std::{fs, path::Path};

use heed::{Env, EnvOpenOptions, WithoutTls};

use crate::{
    OpenError, ReadView, StoreError, WriteView,
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
}

impl Default for Options {
    fn default() -> Self {
        Self {
            map_bytes: 64 << 30,
            max_readers: 1024,
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
    env: Env<WithoutTls>,
    tables: Tables,
}

impl EventStore {
    /// Opens the store in the directory `path`, which is created if missing.
    ///
    /// That no other process has it open is the caller's care.
    pub fn open(path: &Path, options: Options) -> Result<Self, OpenError> {
        fs::create_dir_all(path).map_err(OpenError::Directory)?;
        let env = open_env(path, &options)?;
        let tables = Tables::open(&env)?;
        Ok(Self { env, tables })
    }

    /// Takes a snapshot. Keep it short: pages freed meanwhile cannot be used again until it ends.
    pub fn read(&self) -> Result<ReadView<'_>, StoreError> {
        Ok(ReadView::new(self.tables, self.env.read_txn()?))
    }

    /// Runs `work` on the calling thread and commits what it did, durable on return. If it returns
    /// an error, or panics, nothing changed. Blocks while another write is under way.
    pub fn write<T>(
        &self,
        work: impl FnOnce(&mut WriteView<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut view = WriteView::new(self.tables, self.env.write_txn()?)?;
        let value = work(&mut view)?;
        view.commit()?;
        Ok(value)
    }

    pub fn stats(&self) -> Result<Stats, StoreError> {
        let txn = self.env.read_txn()?;
        let events = self.tables.events.stat(&txn)?;
        let info = self.env.info();
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
        let txn = store.env.write_txn().unwrap();
        store
            .env
            .create_databases_and_commit(txn, |opener, txn| {
                let meta = opener.create_database::<Bytes, Bytes>(txn, Some("meta"))?;
                meta.put(txn, b"format", &99_u32.to_be_bytes())?;
                Ok::<_, heed::Error>(CommitOrAbort::<_, ()>::Commit(meta))
            })
            .unwrap();
        drop(store);
        for _ in 0..2 {
            let refused = EventStore::open(dir.path(), Options::default());
            assert!(matches!(
                refused,
                Err(OpenError::Format {
                    found: 99,
                    known: 1
                })
            ));
        }
    }
}
