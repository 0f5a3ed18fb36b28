//! Compaction while the store is used: a copy of a snapshot without free pages, then what was written
//! since, then the new file in the place of the old one.
//!
//! ```text
//! note changes ─▶ copy a snapshot ─▶ apply changes, round by round ─▶ hold writes: apply the last,
//!                                                                     sync, rename, switch over
//! ```
//!
//! Until the rename the old file is the store, and a crash leaves a directory that the next start
//! removes. No write happens between the last changes and the rename, so the new file has them all.

use std::{
    fs::{self, File},
    io,
    path::Path,
    sync::{PoisonError, TryLockError},
};

use heed::CompactionOption;

use crate::{
    OpenError, StoreError,
    changes::Change,
    store::{Opened, Shared},
};

pub(crate) const DATA_FILE: &str = "data.mdb";
/// Where new files are made, and the lock of the one in use stays.
const DIRECTORY: &str = ".compact-";
/// Changes are applied while writes go on until so few are left, or so many rounds were made.
const FEW_CHANGES: usize = 2_000;
const MAX_ROUNDS: usize = 20;
/// What may be noted before it is applied: more is written than can be caught up with.
const MAX_LOG_BYTES: usize = 256 << 20;

/// What a compaction did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compacted {
    pub bytes_before: u64,
    pub bytes_after: u64,
}

/// Why the store was not compacted. It is as it was.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompactError {
    #[error("the event store is being compacted already")]
    Running,
    #[error(
        "more is written to the event store than a copy of it can keep up with; try again later"
    )]
    TooBusy,
    #[error("the node is shutting down")]
    Stopped,
    #[error("the compacted copy of the event store cannot be written")]
    Io(#[from] io::Error),
    #[error("the compacted copy of the event store cannot be opened")]
    Open(#[from] OpenError),
    #[error("the compacted copy of the event store cannot be filled")]
    Store(#[from] StoreError),
}

impl From<heed::Error> for CompactError {
    fn from(error: heed::Error) -> Self {
        Self::Store(error.into())
    }
}

/// Changes that were committed since the compaction began, in their order.
#[derive(Default)]
pub(crate) struct ChangeLog {
    changes: Vec<Change>,
    bytes: usize,
    has_overflowed: bool,
}

impl ChangeLog {
    pub(crate) fn extend(&mut self, changes: Vec<Change>) {
        self.bytes += changes.iter().map(Change::size_bytes).sum::<usize>();
        self.changes.extend(changes);
        if self.bytes > MAX_LOG_BYTES {
            *self = Self {
                has_overflowed: true,
                ..Self::default()
            };
        }
    }

    fn take(&mut self) -> Result<Vec<Change>, CompactError> {
        if self.has_overflowed {
            return Err(CompactError::TooBusy);
        }
        self.bytes = 0;
        Ok(std::mem::take(&mut self.changes))
    }
}

/// Removes what a compaction that did not end has left.
pub(crate) fn remove_unfinished(path: &Path) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if is_of_compaction(&entry) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// The length of the new file, until it takes the place of the old one.
pub(crate) fn written_bytes(path: &Path) -> io::Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if is_of_compaction(&entry) {
            let new_file = fs::metadata(entry.path().join(DATA_FILE));
            bytes += new_file.map_or(0, |metadata| metadata.len());
        }
    }
    Ok(bytes)
}

fn is_of_compaction(entry: &fs::DirEntry) -> bool {
    let name = entry.file_name();
    name.as_encoded_bytes().starts_with(DIRECTORY.as_bytes())
}

pub(crate) fn run(shared: &Shared) -> Result<Compacted, CompactError> {
    let mut number = match shared.compacting.try_lock() {
        Ok(number) => number,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return Err(CompactError::Running),
    };
    // Each has a directory of its own: that of the last one holds the lock of the store in use.
    *number += 1;
    let directory = shared.path.join(format!("{DIRECTORY}{number}"));
    let noting = Noting::begin(shared);
    let compacted = noting.copy_into(&directory);
    if compacted.is_err() {
        // Best effort: the next start removes it too.
        let _ = fs::remove_dir_all(&directory);
    }
    compacted
}

/// Has writes noted for as long as it lives.
struct Noting<'s> {
    shared: &'s Shared,
}

impl<'s> Noting<'s> {
    fn begin(shared: &'s Shared) -> Self {
        let writing = shared.writing.lock();
        *writing.unwrap_or_else(PoisonError::into_inner) = Some(ChangeLog::default());
        Self { shared }
    }

    fn copy_into(&self, directory: &Path) -> Result<Compacted, CompactError> {
        let Shared {
            path,
            options,
            current,
            writing,
            ..
        } = self.shared;
        let old = {
            current
                .read()
                .unwrap_or_else(PoisonError::into_inner)
                .clone()
        };
        let (old_file, new_file) = (path.join(DATA_FILE), directory.join(DATA_FILE));
        let bytes_before = fs::metadata(&old_file)?.len();
        fs::create_dir_all(directory)?;
        old.env
            .copy_to_path(&new_file, CompactionOption::Enabled)?
            .sync_all()?;
        let new = Opened::open(directory, options)?;
        for _ in 0..MAX_ROUNDS {
            let changes = {
                let mut log = writing.lock().unwrap_or_else(PoisonError::into_inner);
                log.as_mut().map_or(Ok(Vec::new()), ChangeLog::take)?
            };
            apply(&new, &changes)?;
            if changes.len() <= FEW_CHANGES {
                break;
            }
        }
        let mut log = writing.lock().unwrap_or_else(PoisonError::into_inner);
        let last = log.as_mut().map_or(Ok(Vec::new()), ChangeLog::take)?;
        apply(&new, &last)?;
        let bytes_after = fs::metadata(&new_file)?.len();
        fs::rename(&new_file, &old_file)?;
        // From here on the new file is the store, whatever fails.
        *current.write().unwrap_or_else(PoisonError::into_inner) = new;
        drop(log);
        File::open(path)?.sync_all()?;
        Ok(Compacted {
            bytes_before,
            bytes_after,
        })
    }
}

impl Drop for Noting<'_> {
    fn drop(&mut self) {
        let writing = self.shared.writing.lock();
        *writing.unwrap_or_else(PoisonError::into_inner) = None;
    }
}

fn apply(new: &Opened, changes: &[Change]) -> Result<(), CompactError> {
    let mut txn = new.env.write_txn()?;
    for change in changes {
        change.apply(&new.tables, &mut txn)?;
    }
    txn.commit()?;
    Ok(())
}
