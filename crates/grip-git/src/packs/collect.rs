//! Collection of objects that nothing reaches.
//!
//! ```text
//!  roots ─▶ walk ─▶ marks on all packs ─▶ write what is marked ─▶ turn: nothing new? ─▶ swap packs
//!                                                                       │ a pack, a root
//!                                                                       └─▶ walk these, look again
//! ```
//!
//! Safe while pushes and fetches are under way:
//! - A pack that came within the grace time stays as it is, and what a ref named within it is a root:
//!   a client that was told of an object has the whole grace time to fetch it or to build on it.
//! - What stays has all it links to. So objects of packs that stay are roots as well, wanted or not.
//! - Packs are swapped in the identifier's turn, and only while no pack is being received: one that is
//!   was checked against the objects that would go. What has come since the walk is walked before.
//! - A reader whose pack goes away finds its objects in the new one, as with a repack.
//! - Where others follow, the new packs are stored for them before the turn is taken, and the swap is
//!   logged before it is made.

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    hash::{BuildHasher as _, Hash},
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime},
};

use grip_tasks::{Permit, fault};
use grip_types::{Identifier, Oid};

use super::{
    Marked, Packs, QuarantinedPack, RepackError, Replacement, pack_dir,
    remove::remove_pack,
    repack::{PackFile, PackList, blocking, complaint, graph_file},
};
use crate::{
    change_log::{LoggedBy, StoredPack},
    disk,
    process::walk_input,
};

/// What is written again is at most so many times what goes.
const MAX_REWRITTEN: u64 = 20;
/// Roots that a later walk is told to stop at; without the others it is longer, but right.
const MAX_TIPS: usize = 1000;
/// File of a store that names the packs which are being removed.
const NOTE: &str = "collecting";

/// What an identifier's objects are kept for.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Roots {
    pub(crate) oids: BTreeSet<Oid>,
    /// Those of them that refs are at, and that the store therefore has: what they lead to would count
    /// as unreachable without them. Events may name what never came.
    pub(crate) tips: BTreeSet<Oid>,
    /// Packs of staged uploads, which link into the store, with their object directories.
    pub(crate) staged: BTreeMap<PathBuf, PathBuf>,
}

/// What a collection removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Collected {
    pub objects: u64,
    /// Bytes that the packs of the store are smaller by.
    pub bytes: u64,
}

/// The unreachable objects of a store, and the pack that takes the place of those they are in.
pub(crate) struct Unreachable {
    packs: Arc<Packs>,
    identifier: Identifier,
    walked: Vec<WalkedPack>,
    roots: Roots,
    written: Option<QuarantinedPack>,
    log: LoggedBy,
    /// Packs that other copies can fetch, and that no record names yet.
    stored: Vec<StoredPack>,
    goes: Collected,
    /// No other change of packs meanwhile, and the store stays where it is.
    _permits: [Permit<Identifier>; 2],
}

struct WalkedPack {
    file: PackFile,
    marked: Marked,
    /// It is written again without its unmarked objects.
    goes: bool,
}

/// What [`Unreachable::remove`] found.
pub(crate) enum Removal {
    Done(Collected),
    /// Something came since the walk, which has to go on.
    Changed(Box<Unreachable>),
}

impl Packs {
    /// Looks for objects that no root reaches, in packs that came before `since`; none if that is not
    /// worth writing packs again. Cancel safe.
    pub(crate) async fn find_unreachable(
        self: &Arc<Self>,
        identifier: &Identifier,
        since: SystemTime,
        roots: Roots,
        log: &LoggedBy,
    ) -> Result<Option<Unreachable>, RepackError> {
        let busy = || RepackError::Busy(identifier.clone());
        let repacking = self.repacking.try_take(identifier, 1).ok_or_else(busy)?;
        let in_use = self.borrow(identifier);
        let list = PackList::read(&self.objects(identifier))?;
        let is_ready = !log.is_some() || (self.is_listed(identifier) && !self.is_cold(identifier));
        // Loose objects are packed by the next repack.
        if !is_ready || list.has_loose || !list.packs.iter().any(|pack| pack.modified < since) {
            return Ok(None);
        }
        self.check_tips(identifier, &roots).await?;
        let start = roots.oids.iter().copied().collect();
        let mut found = Unreachable {
            packs: Arc::clone(self),
            identifier: identifier.clone(),
            walked: self.opened(identifier, list.packs)?,
            roots,
            written: None,
            log: log.clone(),
            stored: Vec::new(),
            goes: Collected::default(),
            _permits: [repacking, in_use],
        };
        found.walk(start, Vec::new()).await?;
        let (mut found, staying) = found
            .blocking(move |found| {
                found.choose(since);
                found.unmarked_that_stay()
            })
            .await?;
        let tips = found.tips();
        found.walk(staying, tips).await?;
        let (mut found, goes) = found.blocking(Unreachable::count).await?;
        if goes.objects == 0 {
            return Ok(None);
        }
        found.goes = goes;
        found.write().await?;
        if log.is_some() {
            let (mut storing, stored) = found.blocking(|found| found.store()).await?;
            storing.stored = stored?;
            found = storing;
            fault::point("git.collect.stored");
        }
        Ok(Some(found))
    }

    /// Refuses a store that lost a tip.
    async fn check_tips(
        self: &Arc<Self>,
        identifier: &Identifier,
        roots: &Roots,
    ) -> Result<(), RepackError> {
        let (packs, identifier) = (Arc::clone(self), identifier.clone());
        let tips: Vec<Oid> = roots.tips.iter().copied().collect();
        let checked = blocking(move || {
            let kinds = packs.kinds(&identifier, &tips)?;
            let mut found = tips.iter().zip(kinds);
            let lost = found.find(|(_, kind)| kind.is_none());
            Ok(match lost {
                Some((tip, _)) => {
                    let reason = format!("{tip}, which a ref is at, is missing");
                    Err(packs.fetch_again(&identifier, &[], reason))
                }
                None => Ok(()),
            })
        });
        checked.await?
    }

    /// The names of packs that came before `since`.
    pub(crate) fn older_than(
        &self,
        identifier: &Identifier,
        since: SystemTime,
    ) -> io::Result<Vec<String>> {
        let list = PackList::read(&self.objects(identifier))?;
        let old = list.packs.into_iter().filter(|pack| pack.modified < since);
        Ok(old.map(|pack| pack.name).collect())
    }

    /// A number for a value, the same as long as this process lives.
    pub(crate) fn stamp_of(&self, value: &impl Hash) -> u64 {
        self.hasher.hash_one(value)
    }

    fn opened(
        &self,
        identifier: &Identifier,
        packs: Vec<PackFile>,
    ) -> Result<Vec<WalkedPack>, RepackError> {
        let dir = pack_dir(&self.objects(identifier));
        let open = |file: PackFile| {
            let marked = Marked::open(dir.join(format!("{}.idx", file.name)))?;
            Ok(WalkedPack {
                file,
                marked,
                goes: false,
            })
        };
        packs.into_iter().map(open).collect()
    }
}

impl WalkedPack {
    fn unmarked_bytes(&self) -> u64 {
        self.marked.unmarked_bytes(self.file.bytes)
    }
}

impl Unreachable {
    /// Marks what `from` leads to, but for what `not` leads to, which is marked already.
    async fn walk(&mut self, from: Vec<Oid>, not: Vec<Oid>) -> Result<(), RepackError> {
        if from.is_empty() {
            return Ok(());
        }
        let packs = &self.packs;
        let mut command = packs.git.walk();
        let mut staged = OsString::new();
        for dir in self.roots.staged.values().collect::<BTreeSet<_>>() {
            staged.push(if staged.is_empty() { "" } else { ":" });
            staged.push(dir);
        }
        command
            .env("GIT_DIR", packs.layout.store(&self.identifier))
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", staged);
        let input = walk_input(from, not);
        let memory = packs.memory_to_repack(&self.identifier).await?;
        let walked = &mut self.walked;
        let output = |bytes: &[u8]| {
            for pack in walked.iter_mut() {
                pack.marked.read(bytes);
            }
        };
        // It writes no file.
        let running = packs.git.run_with(command, &memory, input, output, 0);
        let finished = running.await?;
        if finished.status.success() {
            Ok(())
        } else {
            Err(RepackError::Git(complaint(&finished)))
        }
    }

    /// Picks the packs that are written again: all that have something to lose if it is much in all of
    /// them, else those of which it is much.
    fn choose(&mut self, since: SystemTime) {
        let (mut unmarked, mut bytes) = (0_u64, 0_u64);
        let is_worth = |unmarked: u64, bytes: u64| unmarked.saturating_mul(MAX_REWRITTEN) >= bytes;
        let mut of_each = Vec::new();
        for pack in &self.walked {
            let is_old = pack.file.modified < since;
            let own = if is_old { pack.unmarked_bytes() } else { 0 };
            of_each.push(own);
            if own > 0 {
                unmarked += own;
                bytes += pack.file.bytes;
            }
        }
        let all = is_worth(unmarked, bytes);
        for (pack, own) in self.walked.iter_mut().zip(of_each) {
            pack.goes = own > 0 && (all || is_worth(own, pack.file.bytes));
        }
    }

    /// Runs what looks at every object where it may take a while.
    async fn blocking<T: Send + 'static>(
        mut self,
        work: impl FnOnce(&mut Self) -> T + Send + 'static,
    ) -> Result<(Self, T), RepackError> {
        let done = blocking(move || {
            let done = work(&mut self);
            Ok((self, done))
        });
        Ok(done.await?)
    }

    /// What packs that stay have beside what is marked. It is walked from as well: they must not link
    /// into nothing.
    fn unmarked_that_stay(&mut self) -> Vec<Oid> {
        let staying = self.walked.iter().filter(|pack| !pack.goes);
        staying.flat_map(|pack| pack.marked.all(false)).collect()
    }

    /// The objects that go; one that is in several packs is counted several times.
    fn count(&mut self) -> Collected {
        let mut goes = Collected::default();
        for pack in self.walked.iter().filter(|pack| pack.goes) {
            goes.objects += pack.marked.all(false).count() as u64;
            goes.bytes += pack.unmarked_bytes();
        }
        goes
    }

    fn tips(&self) -> Vec<Oid> {
        self.roots.oids.iter().copied().take(MAX_TIPS).collect()
    }

    /// Writes what stays of the packs that go.
    async fn write(&mut self) -> Result<(), RepackError> {
        let going = self.walked.iter().filter(|pack| pack.goes);
        if going
            .clone()
            .all(|pack| pack.marked.all(true).next().is_none())
        {
            return Ok(());
        }
        let packs = &self.packs;
        let staying = going
            .clone()
            .map(|pack| pack.file.bytes.saturating_sub(pack.unmarked_bytes()));
        // Below what is kept free as well: more goes than is written.
        packs.check_room_above(0, staying.sum())?;
        let dir = packs.quarantine_dir(&self.identifier, packs.borrow(&self.identifier), None)?;
        let mut command = packs.git.command([
            "pack-objects",
            "--quiet",
            "--non-empty",
            "--delta-base-offset",
        ]);
        command
            .arg(dir.pack_prefix())
            .env("GIT_DIR", packs.layout.store(&self.identifier));
        let input = going.flat_map(|pack| pack.marked.lines());
        let hash = packs.write_pack(&self.identifier, command, input).await?;
        let hash = hash.ok_or_else(|| RepackError::Git("it named no pack".to_owned()))?;
        self.written = blocking(move || dir.seal(&hash)).await?;
        Ok(())
    }

    /// Stores what the other copies need in the place of the packs that go. Blocks.
    fn store(&mut self) -> io::Result<Vec<StoredPack>> {
        let staying = self.walked.iter().filter(|pack| !pack.goes);
        let names: Vec<String> = staying.map(|pack| pack.file.name.clone()).collect();
        let (packs, identifier) = (&self.packs, &self.identifier);
        let mut stored = packs.store_unlisted(identifier, &names, &self.log)?;
        if let Some(written) = &self.written {
            stored.push(StoredPack {
                name: written.name().to_owned(),
                files: self.log.store_pack(written.files())?,
            });
        }
        Ok(stored)
    }

    /// What the log is told; none where nobody follows. The caller holds the lock.
    fn replacement(&self) -> Result<Option<Replacement>, RepackError> {
        if !self.log.is_some() {
            return Ok(None);
        }
        let staying = self.walked.iter().filter(|pack| !pack.goes);
        let staying = staying.map(|pack| &*pack.file.name);
        let written = self.written.as_ref().map(QuarantinedPack::name);
        let after = staying.chain(written).map(str::to_owned).collect();
        let packs = &self.packs;
        let replacement = packs.replacement(&self.identifier, after, &self.stored)?;
        let busy = || RepackError::Busy(self.identifier.clone());
        replacement.map(Some).ok_or_else(busy)
    }

    /// Removes what was found, unless something has come since: then nothing is changed. Blocking; the
    /// caller has the identifier's turn and its lock, and `roots` are those of this moment.
    pub(crate) fn remove(self, roots: Roots) -> Result<Removal, RepackError> {
        let (packs, identifier) = (Arc::clone(&self.packs), self.identifier.clone());
        if packs.receiving.held(&identifier) > 0 {
            return Err(RepackError::Busy(identifier));
        }
        let list = PackList::read(&packs.objects(&identifier))?;
        let is_known = |file: &PackFile| self.walked.iter().any(|pack| pack.file.name == file.name);
        if !list.packs.iter().all(is_known) || self.lacks(&roots) {
            return Ok(Removal::Changed(Box::new(self)));
        }
        let replacement = self.replacement()?;
        let begun = replacement.as_ref().map(|replacement| {
            let change = || replacement.change(&identifier, true);
            self.log.begin(change)
        });
        let begun = begun.transpose()?;
        fault::point("git.collect.logged");
        let swapped = self.swap(replacement.as_ref());
        packs.changed(&identifier);
        if let Some(begun) = begun {
            begun.end(&swapped);
        }
        swapped?;
        Ok(Removal::Done(self.goes))
    }

    /// Puts what stays in the place of what goes. The caller holds the lock.
    fn swap(&self, replacement: Option<&Replacement>) -> io::Result<()> {
        let (packs, identifier) = (&self.packs, &self.identifier);
        let going: Vec<&WalkedPack> = self.walked.iter().filter(|pack| pack.goes).collect();
        let dir = pack_dir(&packs.objects(identifier));
        if let Some(written) = &self.written {
            let newest = going.iter().map(|pack| pack.file.modified).max();
            written.set_modified(newest)?;
            written.move_to(&dir)?;
            fault::point("git.collect.written");
        }
        if let Some(replacement) = replacement {
            packs.list_replacement(identifier, replacement)?;
        }
        let names: Vec<&str> = going.iter().map(|pack| &*pack.file.name).collect();
        let note = packs.layout.store(identifier).join(NOTE);
        disk::replace(&note, names.join("\n").as_bytes())?;
        let removed = remove_packs(&dir, names.into_iter());
        // Also after a failure: what is left may be needed by the next start.
        disk::remove_file(&note)?;
        removed
    }

    /// Says whether there is something that was not walked from.
    fn lacks(&self, roots: &Roots) -> bool {
        let mut staged = roots.staged.keys();
        let new = roots.oids.difference(&self.roots.oids);
        staged.any(|pack| !self.roots.staged.contains_key(pack)) || self.would_lose(new)
    }

    fn would_lose<'a>(&self, mut oids: impl Iterator<Item = &'a Oid>) -> bool {
        let goes = |oid| {
            let mut going = self.walked.iter().filter(|pack| pack.goes);
            going.any(|pack| pack.marked.lacks_mark(oid))
        };
        oids.any(goes)
    }

    /// Walks what has come since; none if it reaches what would have gone.
    pub(crate) async fn go_on(mut self, roots: Roots) -> Result<Option<Self>, RepackError> {
        let list = PackList::read(&self.packs.objects(&self.identifier))?;
        let mut new = list.packs;
        new.retain(|file| !self.walked.iter().any(|pack| pack.file.name == file.name));
        let opened = self.packs.opened(&self.identifier, new)?;
        self.walked.extend(opened);
        let tips = self.tips();
        self.roots.staged = roots.staged;
        let named: Vec<Oid> = roots.oids.difference(&self.roots.oids).copied().collect();
        let (mut found, mut from) = self.blocking(Self::unmarked_that_stay).await?;
        from.extend(named);
        found.walk(from, tips).await?;
        found.roots.oids.extend(roots.oids);
        let (found, goes) = found.blocking(Self::count).await?;
        Ok((goes == found.goes).then_some(found))
    }
}

/// Ends a collection that a crash has cut: half of it would leave objects that link into nothing. Only
/// for the start.
pub(super) fn finish(store: &Path) -> io::Result<()> {
    let note = store.join(NOTE);
    let Some(names) = disk::read(&note)? else {
        return Ok(());
    };
    let names = String::from_utf8_lossy(&names).into_owned();
    remove_packs(&pack_dir(&store.join("objects")), names.lines())?;
    disk::remove_file(&note)
}

pub(super) fn remove_packs<'a>(dir: &Path, names: impl Iterator<Item = &'a str>) -> io::Result<()> {
    // An index over packs that are gone would lead nowhere.
    disk::remove_files(dir, |name| name.starts_with("multi-pack-index"))?;
    // And so would a graph of commits that are gone; the next repack writes one.
    if let Some(objects) = dir.parent() {
        disk::remove_file(&graph_file(objects))?;
    }
    for name in names {
        remove_pack(dir, name)?;
        fault::point("git.collect.removed");
    }
    Ok(())
}

/// The time before which packs must have come, and refs gone, to be looked at.
pub(crate) fn since(now: SystemTime, keep: Duration) -> SystemTime {
    now.checked_sub(keep).unwrap_or(SystemTime::UNIX_EPOCH)
}
