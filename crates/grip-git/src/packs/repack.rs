//! Repacking: few packs for each identifier, a bitmap for quick clones, and a graph of commits with the
//! paths that each changed, so that pages of history need not read every commit.
//!
//! Safe while pushes and fetches are under way: one new pack is written from several, without any lock,
//! and only those are removed, each under the lock: a push may bring the very same pack again, and must
//! find all of its files or none. No object is dropped, reachable or not, and a reader whose pack goes
//! away finds its objects in the new one.
//!
//! Sizes grow at least twofold from pack to pack, so that few are written again, and each seldom. `git
//! repack` would do the same through a process of its own, which outlives the one we started and with
//! it the node.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use grip_tasks::fault;
use grip_types::{Identifier, Oid};

use crate::{
    disk,
    memory::{MemoryFull, MemoryPermit, Payer},
    process::Finished,
};

use super::{Packs, QuarantinedPack, pack_dir, remove::remove_pack};

/// No file that git writes here is larger.
const MAX_PACK_BYTES: u64 = 1 << 50;

/// Bytes of packs below which a clone needs no bitmap to start quickly.
const BITMAP_MIN_BYTES: u64 = 8 << 20;

/// Bytes of packs below which histories are walked quickly without a graph.
const GRAPH_MIN_BYTES: u64 = 256 << 10;

/// What [`Repositories::repack`] did.
///
/// [`Repositories::repack`]: crate::Repositories::repack
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repacked {
    pub packs_before: usize,
    pub packs_after: usize,
    /// The index over all packs was written again, with its bitmap.
    pub bitmap_written: bool,
    /// The graph of commits was written again.
    pub graph_written: bool,
}

/// Why a repack failed; the objects are as they were.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepackError {
    #[error("the objects of {0} are being repacked already")]
    Busy(Identifier),
    #[error("git could not repack: {0}")]
    Git(String),
    #[error("the objects of {identifier} on this disk are not whole: {reason}")]
    Incomplete {
        identifier: Identifier,
        reason: String,
    },
    #[error(transparent)]
    MemoryFull(#[from] MemoryFull),
    #[error("the store could not be read")]
    Io(#[from] io::Error),
}

impl Packs {
    /// Rolls packs up if there are more than `max_packs`, and keeps the bitmap over them; `tips`
    /// are the commits that clones start from, since the store itself has no refs.
    ///
    /// Idempotent, and cheap where there is nothing to do. Cancel safe: git is killed and its
    /// temporary files go at the next start.
    pub(crate) async fn repack(
        self: &Arc<Self>,
        identifier: &Identifier,
        max_packs: usize,
        tips: impl Fn() -> io::Result<Vec<Oid>>,
    ) -> Result<Repacked, RepackError> {
        let permit = self.repacking.try_take(identifier, 1);
        let _permit = permit.ok_or_else(|| RepackError::Busy(identifier.clone()))?;
        let objects = self.objects(identifier);
        // A store without all its packs is repacked when it has them.
        let is_whole = !self.is_cold(identifier) && !self.is_outdated(identifier);
        if !disk::is_real_dir(&objects)? || !is_whole {
            return Ok(Repacked::default());
        }
        let mut found = PackList::read(&objects)?;
        let mut done = Repacked {
            packs_before: found.packs.len(),
            ..Repacked::default()
        };
        if found.packs.len() > max_packs || found.has_loose {
            self.roll_up(identifier, &found).await?;
            found = PackList::read(&objects)?;
        }
        done.packs_after = found.packs.len();
        if found.wants_bitmap() {
            done.bitmap_written = self.write_bitmap(identifier, &tips()?).await?;
        }
        if found.wants_graph() {
            done.graph_written = self.write_graph(identifier, &tips()?).await?;
        }
        Ok(done)
    }

    /// Writes the smallest packs, and loose objects, as one.
    async fn roll_up(
        self: &Arc<Self>,
        identifier: &Identifier,
        found: &PackList,
    ) -> Result<(), RepackError> {
        let (rolled, kept) = found.packs.split_at(found.too_small());
        if rolled.len() < 2 && !found.has_loose {
            return Ok(());
        }
        // They stay until the new one is here.
        self.check_room(rolled.iter().map(|pack| pack.bytes).sum())?;
        let mut command = self.git.command([
            "pack-objects",
            "--stdin-packs",
            "--quiet",
            "--non-empty",
            "--delta-base-offset",
        ]);
        if found.has_loose {
            command.arg("--unpacked");
        }
        let included = rolled.iter().map(|pack| format!("{}.pack\n", pack.name));
        let excluded = kept.iter().map(|pack| format!("^{}.pack\n", pack.name));
        let input: String = included.chain(excluded).collect();
        let dir = self.quarantine_dir(identifier, self.borrow(identifier), None)?;
        command
            .arg(dir.pack_prefix())
            .env("GIT_DIR", self.layout.store(identifier));
        let input = std::iter::once(input.into_bytes());
        let hash = self.write_pack(identifier, command, input).await?;
        let (packs, identifier) = (Arc::clone(self), identifier.clone());
        let has_loose = found.has_loose;
        let rolled: Vec<PackFile> = rolled.to_vec();
        let (loose, of) = (Arc::clone(self), identifier.clone());
        blocking(move || {
            let newest = rolled.iter().map(|pack| pack.modified).max();
            if let Some(hash) = hash
                && let Some(written) = dir.seal(&hash)?
            {
                packs.replace(&identifier, &written, newest, &rolled)?;
            }
            Ok(())
        })
        .await?;
        if has_loose {
            loose.remove_packed_loose(&of).await?;
        }
        Ok(())
    }

    /// Runs `git pack-objects`; the name of what it wrote, if there was anything to write.
    pub(super) async fn write_pack(
        &self,
        identifier: &Identifier,
        command: std::process::Command,
        input: impl Iterator<Item = Vec<u8>>,
    ) -> Result<Option<Oid>, RepackError> {
        let memory = self.memory_to_repack(identifier).await?;
        self.run_pack_objects(command, &memory, input).await
    }

    /// Runs `git pack-objects`; the hash in the name of the pack, if it wrote one.
    pub(super) async fn run_pack_objects(
        &self,
        command: std::process::Command,
        memory: &MemoryPermit,
        input: impl Iterator<Item = Vec<u8>>,
    ) -> Result<Option<Oid>, RepackError> {
        let mut said = Vec::new();
        let output = |bytes: &[u8]| said.extend_from_slice(bytes);
        let running = self
            .git
            .run_with(command, memory, input, output, MAX_PACK_BYTES);
        let finished = running.await?;
        if !finished.status.success() {
            return Err(RepackError::Git(complaint(&finished)));
        }
        Ok(String::from_utf8_lossy(&said).trim().parse().ok())
    }

    pub(super) async fn memory_to_repack(
        &self,
        identifier: &Identifier,
    ) -> Result<MemoryPermit, RepackError> {
        let bytes = self.size(identifier)?.memory_to_repack();
        let memory = self.memory.acquire(Payer::Maintenance, identifier, bytes);
        Ok(memory.await?)
    }

    /// Puts one pack in the place of others, all of whose objects it has. The grace time of its
    /// objects counts from `newest`. Blocking; takes the lock, for each file again.
    fn replace(
        &self,
        identifier: &Identifier,
        by: &QuarantinedPack,
        newest: Option<SystemTime>,
        packs: &[PackFile],
    ) -> io::Result<()> {
        let dir = pack_dir(&self.objects(identifier));
        by.set_modified(newest)?;
        let turn = self.lock(identifier);
        by.move_to(&dir)?;
        drop(turn);
        self.changed(identifier);
        fault::point("git.repack.written");
        // An index over packs that are gone would lead nowhere.
        disk::remove_files(&dir, |name| name.starts_with("multi-pack-index"))?;
        for pack in packs.iter().filter(|pack| pack.name != by.name()) {
            let _turn = self.lock(identifier);
            remove_pack(&dir, &pack.name)?;
        }
        self.changed(identifier);
        Ok(())
    }

    /// Loose objects come from other servers alone, and leave for good.
    async fn remove_packed_loose(&self, identifier: &Identifier) -> Result<(), RepackError> {
        let mut command = self.git.command(["prune-packed", "-q"]);
        command.env("GIT_DIR", self.layout.store(identifier));
        let memory = self.memory_to_repack(identifier).await?;
        let finished = self.git.run(command, &memory).await?;
        self.changed(identifier);
        if finished.status.success() {
            Ok(())
        } else {
            Err(RepackError::Git(complaint(&finished)))
        }
    }

    /// Without a bitmap clones are slower but right, so that git's failure is not ours.
    async fn write_bitmap(
        &self,
        identifier: &Identifier,
        tips: &[Oid],
    ) -> Result<bool, RepackError> {
        let memory = self.memory_to_repack(identifier).await?;
        let lines: String = tips.iter().map(|oid| format!("{oid}\n")).collect();
        let tips = self.layout.quarantines();
        let tips = tips.join(format!("{}.tips", disk::unique()));
        fs::write(&tips, lines)?;
        // Nobody else writes it: a lock is that of a git that was killed.
        let dir = pack_dir(&self.objects(identifier));
        disk::remove_file(&dir.join("multi-pack-index.lock"))?;
        let mut command =
            self.git
                .command(["multi-pack-index", "write", "--bitmap", "--no-progress"]);
        command
            .arg(format!("--refs-snapshot={}", tips.display()))
            .env("GIT_DIR", self.layout.store(identifier));
        let finished = self.git.run(command, &memory).await;
        disk::remove_file(&tips)?;
        self.changed(identifier);
        let finished = finished?;
        if !finished.status.success() {
            let reason = complaint(&finished);
            tracing::warn!(%identifier, %reason, "failed to write bitmap");
        }
        Ok(finished.status.success())
    }

    /// Without a graph histories are slower but right. Its commits stay as long as the store: packs
    /// that go take the graph with them.
    async fn write_graph(
        &self,
        identifier: &Identifier,
        tips: &[Oid],
    ) -> Result<bool, RepackError> {
        if tips.is_empty() {
            return Ok(false);
        }
        let memory = self.memory_to_repack(identifier).await?;
        // Nobody else writes it: a lock is that of a git that was killed.
        disk::remove_file(&graph_file(&self.objects(identifier)).with_extension("lock"))?;
        let mut command = self.git.command([
            "commit-graph",
            "write",
            "--stdin-commits",
            "--changed-paths",
            "--no-progress",
        ]);
        command.env("GIT_DIR", self.layout.store(identifier));
        let lines: String = tips.iter().map(|oid| format!("{oid}\n")).collect();
        let input = std::iter::once(lines.into_bytes());
        let output = |_: &[u8]| {};
        let running = self
            .git
            .run_with(command, &memory, input, output, MAX_PACK_BYTES);
        let finished = running.await?;
        if !finished.status.success() {
            let reason = complaint(&finished);
            tracing::warn!(%identifier, %reason, "failed to write commit graph");
        }
        Ok(finished.status.success())
    }
}

pub(super) fn complaint(finished: &Finished) -> String {
    let line = finished.stderr.lines().next().unwrap_or_default();
    format!("{} ({})", line, finished.status)
}

pub(super) async fn blocking<T, F>(work: F) -> io::Result<T>
where
    T: Send + 'static,
    F: FnOnce() -> io::Result<T> + Send + 'static,
{
    let done = grip_tasks::spawn_blocking(work).await;
    done.map_err(io::Error::other)?
}

/// Where git keeps the graph of a store.
pub(super) fn graph_file(objects: &Path) -> PathBuf {
    objects.join("info/commit-graph")
}

/// One pack of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PackFile {
    /// The name of its files, without an extension.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    /// When its last objects came.
    pub(crate) modified: SystemTime,
}

/// The packs of one store, the smallest first.
#[derive(Debug, Default)]
pub(crate) struct PackList {
    pub(crate) packs: Vec<PackFile>,
    /// Bytes of packs that came after the bitmap was written; all of them if there is none.
    bytes_outside: u64,
    /// The same for the graph of commits.
    bytes_outside_graph: u64,
    pub(crate) has_loose: bool,
}

impl PackList {
    pub(crate) fn read(objects: &Path) -> io::Result<Self> {
        let dir = pack_dir(objects);
        let mut list = Self {
            has_loose: disk::entries(objects)?
                .iter()
                .any(|(name, _)| name.len() == 2),
            ..Self::default()
        };
        let entries = disk::entries(&dir)?;
        let is_bitmap =
            |name: &str| name.starts_with("multi-pack-index-") && name.ends_with(".bitmap");
        let modified = |name: &str| fs::metadata(dir.join(name)).and_then(|m| m.modified());
        let bitmap = entries.iter().find(|(name, _)| is_bitmap(name));
        let bitmap = bitmap.map(|(name, _)| modified(name)).transpose()?;
        let graph = fs::metadata(graph_file(objects)).and_then(|found| found.modified());
        let graph = graph.ok();
        for (index, _) in &entries {
            let Some(name) = index.strip_suffix(".idx") else {
                continue;
            };
            let pack = fs::metadata(dir.join(format!("{name}.pack")));
            let bytes = pack.as_ref().map_or(0, fs::Metadata::len);
            let is_newer = |than: SystemTime| modified(index).is_ok_and(|m| m > than);
            if bitmap.is_none_or(is_newer) {
                list.bytes_outside += bytes;
            }
            if graph.is_none_or(is_newer) {
                list.bytes_outside_graph += bytes;
            }
            list.packs.push(PackFile {
                name: name.to_owned(),
                bytes,
                modified: pack.and_then(|found| found.modified())?,
            });
        }
        list.packs
            .sort_by(|a, b| (a.bytes, &a.name).cmp(&(b.bytes, &b.name)));
        Ok(list)
    }

    /// How many of the smallest packs have to become one, so that each pack is at least twice as large
    /// as all smaller ones together.
    fn too_small(&self) -> usize {
        let (mut sum, mut end) = (0_u64, 0);
        for (n, pack) in self.packs.iter().enumerate() {
            if pack.bytes < sum.saturating_mul(2) {
                end = n + 1;
            }
            sum = sum.saturating_add(pack.bytes);
        }
        end
    }

    /// A tenth may be walked without; writing it after every push would cost more.
    fn wants_bitmap(&self) -> bool {
        let bytes: u64 = self.packs.iter().map(|pack| pack.bytes).sum();
        bytes >= BITMAP_MIN_BYTES && self.bytes_outside * 10 > bytes
    }

    /// The same for the graph.
    fn wants_graph(&self) -> bool {
        let bytes: u64 = self.packs.iter().map(|pack| pack.bytes).sum();
        bytes >= GRAPH_MIN_BYTES && self.bytes_outside_graph * 10 > bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(sizes: &[u64]) -> PackList {
        let pack = |bytes: &u64| PackFile {
            name: format!("pack-{bytes}"),
            bytes: *bytes,
            modified: SystemTime::UNIX_EPOCH,
        };
        PackList {
            packs: sizes.iter().map(pack).collect(),
            ..PackList::default()
        }
    }

    #[test]
    fn only_packs_that_are_too_small_are_written_again() {
        for (sizes, rolled) in [
            (&[][..], 0),
            (&[5], 0),
            (&[1, 1], 2),
            (&[1, 2, 6], 0),
            (&[1, 1, 1, 100], 3),
            (&[1, 1, 1, 5], 4),
            (&[1, 3, 8, 24, 24], 5),
        ] {
            assert_eq!(list(sizes).too_small(), rolled, "{sizes:?}");
        }
    }
}
