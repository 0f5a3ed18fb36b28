//! Immutable pack files of each identifier: the one place where they are put, found and collected.
//!
//! ```text
//!  push, fetch ─▶ QuarantineDir ─▶ QuarantinedPack ─put─▶ ┌───────┐ ──look──▶ objects read in process
//!                 git writes       checked, synced        │ Packs │ ──borrow─▶ git upload-pack, fsck
//!  adopt ────────────────────────────────────import─────▶ │       │ ──repack─▶ fewer packs, bitmap
//!                                                         └───────┘ ──collect▶ unreachable objects
//!                                                            ▲ └──────remove─▶ unused stores
//!  object store of a cluster ◀──────────────────────cache──────┘
//! ```
//!
//! Code outside this module knows no file of an object store. The packs of an identifier lie in a
//! bare repository without refs, its *store*, which the repositories of all owners borrow from.
//!
//! Invariants:
//! - A pack is durable before it is visible, and visible as a whole or not at all.
//! - Objects are never dropped while a repository, an archived one or a [`Permit`] needs the store.
//! - A file of a pack comes and goes under the identifier's lock alone. Methods that say so need the
//!   caller to hold it.

use std::{
    collections::BTreeSet,
    hash::{BuildHasher, RandomState},
    io,
    num::NonZeroUsize,
    os::unix::fs::MetadataExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use grip_tasks::{Permit, Permits};
use grip_types::{Identifier, Oid};
use lru::LruCache;
use parking_lot::{Mutex, MutexGuard};

use crate::{
    bare, disk,
    layout::{self, Layout},
    memory::MemoryBudget,
    objects::{ObjectKind, Objects, Reader},
    process::Git,
};

mod cache;
mod collect;
mod damaged;
mod foreign;
mod import;
mod marked;
mod quarantined;
mod remove;
mod repack;
mod size;

pub(crate) use cache::LISTS;
use cache::{Cache, Replacement};
pub use cache::{CacheCounter, CacheUse, CachedFrom, Evicted, PackSource};
pub use collect::Collected;
pub(crate) use collect::{Removal, Roots, Unreachable, since};
pub use damaged::DamagedPack;
pub use foreign::ForeignPack;
pub(crate) use marked::Marked;
pub use quarantined::Promoted;
pub(crate) use quarantined::{PACK_FILES, QuarantineDir, QuarantinedPack};
pub(crate) use remove::remove_pack;
pub use repack::{RepackError, Repacked};
pub(crate) use size::{MEMORY_PER_OBJECT, StoreSize};

/// Identifiers that share a lock or a generation by chance only wait for each other, or reopen their
/// stores more often.
const STRIPES: usize = 64;
/// Object directories kept open.
const MAX_OPEN: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// The packs of all identifiers on the local disk.
pub(crate) struct Packs {
    layout: Layout,
    git: Git,
    memory: Arc<MemoryBudget>,
    open: Mutex<LruCache<Identifier, Opened>>,
    hasher: RandomState,
    generations: [AtomicU64; STRIPES],
    locks: [Mutex<()>; STRIPES],
    /// Stores that a pack or an answer under way relies on.
    in_use: Permits<Identifier>,
    /// Packs on their way into a store, or waiting in quarantine.
    receiving: Permits<Identifier>,
    repacking: Permits<Identifier>,
    /// Empty directories of the quarantine for the next packs.
    spares: Mutex<Vec<PathBuf>>,
    cache: Cache,
}

#[derive(Clone)]
struct Opened {
    objects: Objects,
    stamp: Stamp,
}

/// Tells one state of a pack directory from another.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Stamp {
    /// Counts what this process did; the time alone is too coarse to tell two quick changes apart.
    generation: u64,
    modified: (i64, i64),
}

impl Packs {
    pub(crate) fn new(
        layout: Layout,
        git: Git,
        memory: Arc<MemoryBudget>,
        (cached_from, min_free_bytes): (CachedFrom, u64),
    ) -> Arc<Self> {
        Arc::new(Self {
            layout,
            git,
            memory,
            open: Mutex::new(LruCache::new(MAX_OPEN)),
            hasher: RandomState::new(),
            generations: std::array::from_fn(|_| AtomicU64::new(0)),
            locks: std::array::from_fn(|_| Mutex::new(())),
            in_use: Permits::new(),
            receiving: Permits::new(),
            repacking: Permits::new(),
            spares: Mutex::default(),
            cache: Cache::new(cached_from, min_free_bytes),
        })
    }

    /// Makes the store of an identifier; the caller holds the lock.
    pub(crate) fn ensure(&self, identifier: &Identifier) -> io::Result<()> {
        let store = self.layout.store(identifier);
        if disk::is_real_dir(&store)? {
            bare::repair(&self.layout.root, &store)
        } else {
            bare::create(&self.layout.quarantines(), &store, None)
        }
    }

    /// The identifiers that have a store.
    pub(crate) fn identifiers(&self) -> io::Result<BTreeSet<Identifier>> {
        let entries = disk::entries(&self.layout.stores())?;
        let stores = entries.into_iter().filter(|(_, kind)| kind.is_dir());
        let named = |(name, _): (String, _)| {
            let identifier = layout::identifier_of(&name);
            identifier.filter(|identifier| layout::directory(identifier) == name)
        };
        Ok(stores.filter_map(named).collect())
    }

    /// Keeps the store where it is; taken under the identifier's lock, or before looking into it.
    pub(crate) fn borrow(&self, identifier: &Identifier) -> Permit<Identifier> {
        self.in_use.take(identifier)
    }

    /// Keeps every object where it is for a pack that is checked against them. Taken under the
    /// identifier's lock, or while another is held.
    pub(crate) fn receive(&self, identifier: &Identifier) -> Permit<Identifier> {
        self.receiving.take(identifier)
    }

    /// What each object is; `None` for those that are not in the store.
    pub(crate) fn kinds(
        &self,
        identifier: &Identifier,
        oids: &[Oid],
    ) -> io::Result<Vec<Option<ObjectKind>>> {
        let mut kinds = vec![None; oids.len()];
        let look = |reader: &Reader| {
            for (kind, oid) in kinds.iter_mut().zip(oids) {
                *kind = kind.or_else(|| reader.kind(oid));
            }
            kinds.iter().all(Option::is_some)
        };
        match self.look(identifier, 2, look, |is_complete| !is_complete) {
            Err(error) if !disk::is_absent(&error) => Err(error),
            _ => Ok(kinds),
        }
    }

    /// Looks up to `max_looks` times: again where packs that went away meanwhile may be the reason
    /// for a doubtful result.
    pub(crate) fn look<T>(
        &self,
        identifier: &Identifier,
        max_looks: usize,
        mut look: impl FnMut(&Reader) -> T,
        is_doubtful: impl Fn(&T) -> bool,
    ) -> io::Result<T> {
        // What is opened is not evicted before it was looked at.
        let _in_use = self.is_cached().then(|| self.borrow(identifier));
        let mut opened = self.open(identifier)?;
        let mut found = look(&opened.objects.reader());
        for _ in 1..max_looks {
            if !is_doubtful(&found) {
                break;
            }
            let now = self.open(identifier)?;
            if now.stamp == opened.stamp && self.repacking.held(identifier) == 0 {
                break;
            }
            opened = now;
            found = look(&opened.objects.patient_reader());
        }
        Ok(found)
    }

    /// A reader that finds every object of the store, also those whose pack is being replaced.
    pub(crate) fn reader(&self, identifier: &Identifier) -> io::Result<Reader> {
        Ok(self.open(identifier)?.objects.patient_reader())
    }

    /// The opened store, from memory unless its packs have changed.
    fn open(&self, identifier: &Identifier) -> io::Result<Opened> {
        self.warm(identifier)?;
        let path = self.objects(identifier);
        // Before the directory is read, so that a change meanwhile makes the stamp differ.
        let stamp = Stamp {
            generation: self.generation(identifier).load(Ordering::Acquire),
            modified: modified(&path)?,
        };
        let known = self.open.lock().get(identifier).cloned();
        if let Some(known) = known.filter(|known| known.stamp == stamp) {
            return Ok(known);
        }
        let objects = Objects::open(path)?;
        let opened = Opened { objects, stamp };
        self.open.lock().put(identifier.clone(), opened.clone());
        Ok(opened)
    }

    /// Packs came or went: the next look opens the store again, and maps of removed packs go.
    fn changed(&self, identifier: &Identifier) {
        self.generation(identifier).fetch_add(1, Ordering::AcqRel);
        let closed = self.open.lock().pop(identifier);
        drop(closed);
    }

    /// The one lock for the files of an identifier. Not reentrant; never held across an await.
    pub(crate) fn lock(&self, identifier: &Identifier) -> MutexGuard<'_, ()> {
        self.locks[self.stripe(identifier)].lock()
    }

    fn generation(&self, identifier: &Identifier) -> &AtomicU64 {
        &self.generations[self.stripe(identifier)]
    }

    fn stripe(&self, identifier: &Identifier) -> usize {
        self.hasher.hash_one(identifier) as usize % STRIPES
    }

    fn objects(&self, identifier: &Identifier) -> PathBuf {
        self.layout.store(identifier).join("objects")
    }
}

fn modified(objects: &Path) -> io::Result<(i64, i64)> {
    let metadata = std::fs::metadata(pack_dir(objects))?;
    Ok((metadata.mtime(), metadata.mtime_nsec()))
}

fn pack_dir(objects: &Path) -> PathBuf {
    objects.join("pack")
}
