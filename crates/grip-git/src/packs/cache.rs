//! Packs that the object store of a cluster has as well: fetched when they are needed, and evicted when
//! others need their place.
//!
//! ```text
//!  logged pack ──note_missing──▶ missing-packs ──warm──▶ on this disk ──evict──▶ missing-packs
//! ```
//!
//! A store lists all packs that were logged for it (`stored-packs`), and those of them that are not on
//! this disk (`missing-packs`). While it has the second list it is *cold*. Packs that were replaced by
//! others are in [`replace`].
//!
//! Invariants:
//! - The list names a pack before its files go: a crash leaves packs that are fetched once more.
//! - Who holds a permit of a store and warmed it since finds all its packs until the permit is dropped.
//! - One thread at a time fetches for a store; the others wait for it.

mod compare;
mod replace;
mod stored_packs;

use std::{
    collections::{HashMap, HashSet},
    fmt, fs, io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use grip_tasks::fault;
use grip_types::Identifier;
use parking_lot::Mutex;
use tokio::sync::Notify;

pub(super) use self::replace::Replacement;
use self::stored_packs::StoredPacks;
use super::{Packs, pack_dir, quarantined::PACK_FILES, repack::graph_file};
use crate::{
    change_log::{PackFile, StoredPack},
    disk,
    repositories::free_bytes,
};

/// All packs that were logged for a store.
const STORED: &str = "stored-packs";
/// Those of them that are not on this disk.
const MISSING: &str = "missing-packs";

/// Says that packs on this disk which are not in the first list have objects that were collected.
const OUTDATED: &str = "outdated-packs";

pub(crate) const LISTS: [&str; 3] = [STORED, MISSING, OUTDATED];

/// The store of packs that all copies share.
pub trait PackSource: Send + Sync {
    /// Writes files of packs to these paths, each as it was when it was stored. Blocks.
    fn fetch(&self, files: Vec<(PackFile, PathBuf)>) -> io::Result<()>;

    /// Says whether nothing is to be fetched or evicted any more: others take the disk over.
    fn is_stopped(&self) -> bool {
        false
    }
}

/// Where packs come from that are not on this disk, and how many bytes of them stay there.
#[derive(Clone, Default)]
pub struct CachedFrom {
    source: Option<Arc<dyn PackSource>>,
    max_bytes: Option<u64>,
    counter: CacheCounter,
}

impl CachedFrom {
    /// Without `max_bytes` nothing is evicted.
    pub fn new(source: Arc<dyn PackSource>, max_bytes: Option<u64>) -> Self {
        Self {
            source: Some(source),
            max_bytes,
            counter: CacheCounter::default(),
        }
    }

    /// Has requests counted by `counter`.
    #[must_use]
    pub fn counted_by(self, counter: &CacheCounter) -> Self {
        let counter = counter.clone();
        Self { counter, ..self }
    }
}

/// Requests of clients that need the objects of a store, by whether all its packs were on this disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheUse {
    pub hits: u64,
    /// Requests that waited for packs, also for those that another request had begun to fetch.
    pub misses: u64,
}

impl CacheUse {
    /// The part of the requests that waited for nothing; none if there were none.
    pub fn hit_rate(&self) -> Option<f64> {
        let all = self.hits.saturating_add(self.misses);
        (all > 0).then(|| self.hits as f64 / all as f64)
    }
}

/// Counts hits and misses since it was made. Clones are the same counter.
#[derive(Clone, Debug, Default)]
pub struct CacheCounter {
    counts: Arc<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    hits: AtomicU64,
    misses: AtomicU64,
}

impl CacheCounter {
    pub fn read(&self) -> CacheUse {
        CacheUse {
            hits: self.counts.hits.load(Ordering::Relaxed),
            misses: self.counts.misses.load(Ordering::Relaxed),
        }
    }

    fn count(&self, is_hit: bool) {
        let counts = &*self.counts;
        let count = if is_hit { &counts.hits } else { &counts.misses };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for CachedFrom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_cached = self.source.is_some();
        f.debug_struct("CachedFrom")
            .field("is_cached", &is_cached)
            .field("max_bytes", &self.max_bytes)
            .finish()
    }
}

/// What an eviction removed from this disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evicted {
    pub stores: usize,
    pub bytes: u64,
}

/// Which stores are cold, and which were used last.
#[derive(Default)]
pub(super) struct Cache {
    from: CachedFrom,
    /// Nothing is fetched that would leave less than this free on the disk.
    min_free_bytes: u64,
    /// Stores that are cold; at most those on disk.
    cold: Mutex<HashSet<Identifier>>,
    /// Stores that have outdated packs; at most those on disk.
    outdated: Mutex<HashSet<Identifier>>,
    /// One of the cold was, since the start: nodes without a cluster look no further.
    had_cold: AtomicBool,
    /// Those that are being fetched for, or evicted.
    busy: Mutex<HashMap<Identifier, Arc<Mutex<()>>>>,
    /// When each was used last; at most those on disk, and none unless some are evicted.
    used: Mutex<HashMap<Identifier, u64>>,
    uses: AtomicU64,
    /// Held while a list is read and written again.
    listing: Mutex<()>,
    changed: Notify,
}

impl Cache {
    pub(super) fn new(from: CachedFrom, min_free_bytes: u64) -> Self {
        Self {
            from,
            min_free_bytes,
            ..Self::default()
        }
    }

    fn is_cold(&self, identifier: &Identifier) -> bool {
        self.had_cold.load(Ordering::Acquire) && self.cold.lock().contains(identifier)
    }

    fn set_cold(&self, identifier: &Identifier) {
        self.had_cold.store(true, Ordering::Release);
        self.cold.lock().insert(identifier.clone());
    }

    fn set_warm(&self, identifier: &Identifier) {
        self.cold.lock().remove(identifier);
    }

    fn set_outdated(&self, identifier: &Identifier, is_outdated: bool) {
        let mut outdated = self.outdated.lock();
        if is_outdated {
            outdated.insert(identifier.clone());
        } else {
            outdated.remove(identifier);
        }
    }

    /// The store is gone.
    pub(super) fn forget(&self, identifier: &Identifier) {
        self.set_warm(identifier);
        self.set_outdated(identifier, false);
        self.used.lock().remove(identifier);
    }

    /// Calls `work` while nobody else fetches for the store or evicts it; `None` if somebody does and
    /// the caller does not want to wait.
    fn exclusively<T>(
        &self,
        identifier: &Identifier,
        may_wait: bool,
        work: impl FnOnce() -> T,
    ) -> Option<T> {
        let turn = Arc::clone(self.busy.lock().entry(identifier.clone()).or_default());
        let held = if may_wait {
            Some(turn.lock())
        } else {
            turn.try_lock()
        };
        let done = held.map(|_held| work());
        let mut busy = self.busy.lock();
        // Ours and the one in the map.
        if Arc::strong_count(&turn) <= 2 {
            busy.remove(identifier);
        }
        done
    }
}

impl Packs {
    /// Says whether packs come from elsewhere when they are needed.
    pub(crate) fn is_cached(&self) -> bool {
        self.cache.from.source.is_some()
    }

    pub(crate) fn is_cold(&self, identifier: &Identifier) -> bool {
        self.cache.is_cold(identifier)
    }

    /// Counts a request of a client, which is about to warm the store.
    pub(crate) fn count_request(&self, identifier: &Identifier) {
        if self.is_cached() {
            self.cache.from.counter.count(!self.is_cold(identifier));
        }
    }

    pub(crate) fn cache_use(&self) -> CacheUse {
        self.cache.from.counter.read()
    }

    pub(crate) fn cold(&self) -> Vec<Identifier> {
        self.cache.cold.lock().iter().cloned().collect()
    }

    /// Waits until a pack was noted, or was fetched. Cancel safe.
    pub(crate) async fn cache_changed(&self) {
        self.cache.changed.notified().await;
    }

    /// Finds out at the start whether a store is cold, or has outdated packs.
    pub(super) fn recall(&self, identifier: &Identifier) {
        if self.list(identifier, MISSING).exists() {
            self.cache.set_cold(identifier);
        }
        if self.list(identifier, OUTDATED).exists() {
            self.cache.set_outdated(identifier, true);
        }
    }

    /// Notes a pack that all copies can fetch; the caller holds the lock and makes it part of the store.
    pub(crate) fn note_stored(&self, identifier: &Identifier, pack: &StoredPack) -> io::Result<()> {
        self.ensure(identifier)?;
        let _listing = self.cache.listing.lock();
        self.note(identifier, pack)?;
        self.cache.changed.notify_one();
        Ok(())
    }

    /// Notes a pack that is part of the store and is fetched when it is needed; durable on return. The
    /// caller holds the lock.
    pub(crate) fn note_missing(
        &self,
        identifier: &Identifier,
        pack: &StoredPack,
    ) -> io::Result<()> {
        self.ensure(identifier)?;
        let _listing = self.cache.listing.lock();
        self.note(identifier, pack)?;
        if !self.has(identifier, &pack.name) {
            StoredPacks::append(&self.list(identifier, MISSING), pack)?;
            self.cache.set_cold(identifier);
            // Not before: who waits for it would look too early.
            self.cache.changed.notify_one();
        }
        Ok(())
    }

    /// A list that lacks packs of before is of no use: such a store has none, and is not evicted.
    fn note(&self, identifier: &Identifier, pack: &StoredPack) -> io::Result<()> {
        let list = self.list(identifier, STORED);
        let packs = || disk::entries(&pack_dir(&self.objects(identifier)));
        if list.exists() || packs()?.is_empty() {
            StoredPacks::append(&list, pack)?;
        }
        Ok(())
    }

    /// Has every pack of a store on this disk, for as long as the caller keeps a permit that it took
    /// before. Blocks, for as long as it takes to fetch them.
    pub(crate) fn warm(&self, identifier: &Identifier) -> io::Result<()> {
        self.touch(identifier);
        if !self.cache.is_cold(identifier) {
            return Ok(());
        }
        let Some(source) = &self.cache.from.source else {
            return Err(io::Error::other(format!(
                "packs of {identifier} are in the object store of a cluster and not on this disk"
            )));
        };
        let fetched = self
            .cache
            .exclusively(identifier, true, || -> io::Result<()> {
                let _in_use = self.borrow(identifier);
                while self.cache.is_cold(identifier) {
                    self.fetch_missing(identifier, &**source)?;
                }
                Ok(())
            });
        // Never as absent: that a pack could not be had does not say that there is none.
        fetched.unwrap_or(Ok(())).map_err(io::Error::other)
    }

    /// Notes that a store is used, if there is one: strangers may name any number of others.
    fn touch(&self, identifier: &Identifier) {
        if self.cache.from.max_bytes.is_some() && self.layout.store(identifier).is_dir() {
            let use_number = self.cache.uses.fetch_add(1, Ordering::Relaxed) + 1;
            let mut used = self.cache.used.lock();
            used.insert(identifier.clone(), use_number);
        }
    }

    /// Fetches what the list names. Puts files into the store without its lock, which callers may hold:
    /// a pack of the same name has the same content, so that two threads may move it there.
    fn fetch_missing(&self, identifier: &Identifier, source: &dyn PackSource) -> io::Result<()> {
        let list = self.list(identifier, MISSING);
        let listed = {
            let _listing = self.cache.listing.lock();
            StoredPacks::read(&list)?
        };
        let is_missing = |pack: &&StoredPack| !self.has(identifier, &pack.name);
        let missing: Vec<&StoredPack> = listed.packs().filter(is_missing).collect();
        let fetched = self.fetch_packs(identifier, &missing, source);
        let _listing = self.cache.listing.lock();
        if StoredPacks::read(&list)? == listed {
            fetched?;
            disk::remove_file(&list)?;
            self.cache.set_warm(identifier);
        } else if let Err(error) = fetched {
            // What was replaced meanwhile may be gone; the caller looks again.
            tracing::debug!(%identifier, %error, "failed to fetch packs that were replaced");
        }
        self.changed(identifier);
        self.cache.changed.notify_one();
        Ok(())
    }

    fn fetch_packs(
        &self,
        identifier: &Identifier,
        missing: &[&StoredPack],
        source: &dyn PackSource,
    ) -> io::Result<()> {
        if missing.is_empty() {
            return Ok(());
        }
        let files = missing.iter().flat_map(|pack| &pack.files);
        self.check_room(files.map(|file| file.size_bytes).sum())?;
        let room = self.layout.quarantines().join(disk::unique());
        fs::create_dir(&room)?;
        let fetched = self.fetch_into(identifier, missing, &room, source);
        // Best effort: the next start empties the quarantine.
        let _ = fs::remove_dir_all(&room);
        fetched
    }

    /// A disk that does not say how full it is counts as one with room.
    pub(super) fn check_room(&self, bytes: u64) -> io::Result<()> {
        self.check_room_above(self.cache.min_free_bytes, bytes)
    }

    /// The same above a floor of its own.
    pub(super) fn check_room_above(&self, floor: u64, bytes: u64) -> io::Result<()> {
        let needed = floor.saturating_add(bytes);
        match free_bytes(&self.layout.root) {
            Ok(free) if free < needed => Err(io::Error::new(
                io::ErrorKind::StorageFull,
                format!(
                    "the disk has no room for {} MiB of packs beside the {} MiB that are kept free",
                    bytes >> 20,
                    floor >> 20
                ),
            )),
            _ => Ok(()),
        }
    }

    fn fetch_into(
        &self,
        identifier: &Identifier,
        missing: &[&StoredPack],
        room: &Path,
        source: &dyn PackSource,
    ) -> io::Result<()> {
        let files = missing.iter().flat_map(|pack| {
            pack.files.iter().map(move |file| {
                let name = format!("{}.{}", pack.name, file.extension);
                (file.clone(), room.join(name))
            })
        });
        source.fetch(files.collect())?;
        for (name, _) in disk::entries(room)? {
            fs::File::open(room.join(name))?.sync_all()?;
        }
        fault::point("git.cache.fetched");
        let to = pack_dir(&self.objects(identifier));
        for pack in missing {
            for extension in PACK_FILES {
                let file = format!("{}.{extension}", pack.name);
                fs::rename(room.join(&file), to.join(&file))?;
            }
        }
        disk::sync_dir(&to)
    }

    /// Removes packs of the stores that were not used for the longest time, until the others take no
    /// more than the bound; stores in use stay. Blocking.
    pub(crate) fn evict(&self) -> io::Result<Evicted> {
        let mut evicted = Evicted::default();
        let Some(max_bytes) = self.cache.from.max_bytes else {
            return Ok(evicted);
        };
        let mut stores = Vec::new();
        let mut total = 0;
        for identifier in self.identifiers()? {
            if self.is_stopped() {
                return Ok(evicted);
            }
            let bytes = self.size(&identifier)?.bytes;
            let used = self.cache.used.lock().get(&identifier).copied();
            total += bytes;
            stores.push((used.unwrap_or_default(), bytes, identifier));
        }
        stores.sort_unstable();
        for (_, bytes, identifier) in stores {
            if total <= max_bytes || self.is_stopped() {
                break;
            }
            if bytes == 0 {
                continue;
            }
            match self.cool(&identifier) {
                Ok(true) => {
                    total -= bytes;
                    evicted.stores += 1;
                    evicted.bytes += bytes;
                }
                Ok(false) => {}
                Err(error) => tracing::warn!(%identifier, %error, "failed to evict packs"),
            }
        }
        Ok(evicted)
    }

    fn is_stopped(&self) -> bool {
        let source = self.cache.from.source.as_ref();
        source.is_some_and(|source| source.is_stopped())
    }

    /// Removes the packs of a store that can be fetched again; false if it is in use, or if some could
    /// not be.
    fn cool(&self, identifier: &Identifier) -> io::Result<bool> {
        let _turn = self.lock(identifier);
        let Some(_permit) = self.repacking.try_take(identifier, 1) else {
            return Ok(false);
        };
        let cooled = self.cache.exclusively(identifier, false, || {
            let stored = {
                let _listing = self.cache.listing.lock();
                StoredPacks::read(&self.list(identifier, STORED))?
            };
            if stored.is_empty() {
                return Ok(false);
            }
            let was_cold = self.cache.is_cold(identifier);
            // Before looking who uses it: who takes a permit later finds it cold, and waits.
            self.cache.set_cold(identifier);
            if self.in_use.held(identifier) + self.receiving.held(identifier) > 0 {
                if !was_cold {
                    self.cache.set_warm(identifier);
                }
                return Ok(false);
            }
            {
                let _listing = self.cache.listing.lock();
                stored.write(&self.list(identifier, MISSING))?;
            }
            fault::point("git.cache.listed");
            self.remove_files(identifier)?;
            disk::remove_file(&self.list(identifier, OUTDATED))?;
            self.cache.set_outdated(identifier, false);
            Ok(true)
        });
        cooled.unwrap_or(Ok(false))
    }

    /// Removes everything that speaks of packs, what others rest on last.
    fn remove_files(&self, identifier: &Identifier) -> io::Result<()> {
        let objects = self.objects(identifier);
        let dir = pack_dir(&objects);
        disk::remove_file(&graph_file(&objects))?;
        let is_index_of_many = |name: &str| name.starts_with("multi-pack-index");
        disk::remove_files(&dir, is_index_of_many)?;
        disk::remove_files(&dir, |name| name.ends_with(".idx"))?;
        disk::remove_files(&dir, |name| name.starts_with("pack-"))?;
        self.changed(identifier);
        fault::point("git.cache.evicted");
        disk::sync_dir(&dir)
    }

    /// Says whether a store has packs that are not on this disk.
    pub(super) fn has_missing(&self, identifier: &Identifier) -> bool {
        self.list(identifier, MISSING).exists()
    }

    /// Makes these the packs of a store that all copies can fetch, and replaces what was listed before.
    pub(crate) fn set_stored(
        &self,
        identifier: &Identifier,
        packs: impl Iterator<Item = StoredPack>,
    ) -> io::Result<()> {
        let _listing = self.cache.listing.lock();
        StoredPacks::of(packs).write(&self.list(identifier, STORED))
    }

    /// Forgets what other copies can fetch: this one will be alone.
    pub(crate) fn forget_stored(&self, identifier: &Identifier) -> io::Result<()> {
        let _listing = self.cache.listing.lock();
        // First: without the other list everything would be outdated.
        disk::remove_file(&self.list(identifier, OUTDATED))?;
        disk::remove_file(&self.list(identifier, STORED))
    }

    /// Has everything that was stored fetched again where `remove` takes it from this disk, also if that
    /// is cut short. Nobody fetches meanwhile: to them nothing would be missing yet.
    pub(super) fn lose(
        &self,
        identifier: &Identifier,
        remove: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        if !self.is_cached() {
            return remove();
        }
        let lost = self.cache.exclusively(identifier, true, || {
            self.note_lost(identifier)?;
            let removed = remove();
            self.cache.changed.notify_one();
            removed
        });
        lost.unwrap_or(Ok(()))
    }

    fn note_lost(&self, identifier: &Identifier) -> io::Result<()> {
        let _listing = self.cache.listing.lock();
        let stored = StoredPacks::read(&self.list(identifier, STORED))?;
        if !stored.is_empty() {
            stored.write(&self.list(identifier, MISSING))?;
            self.cache.set_cold(identifier);
        }
        Ok(())
    }

    fn list(&self, identifier: &Identifier, name: &str) -> PathBuf {
        self.layout.store(identifier).join(name)
    }
}
