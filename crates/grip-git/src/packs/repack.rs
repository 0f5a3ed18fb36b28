//! Repacking: few packs for each identifier, and a bitmap for quick clones.
//!
//! Safe while pushes and fetches are under way, without any lock: a geometric repack writes one
//! new pack from several, and removes only those. Packs that are promoted meanwhile are not among
//! them, no object is dropped, reachable or not, and a reader whose pack goes away finds its
//! objects in the new one.

use std::{fs, io, path::Path};

use grip_types::{Identifier, Oid};

use crate::{
    disk,
    process::{self, Finished},
};

use super::{Packs, pack_dir};

/// Bytes of packs below which a clone needs no bitmap to start quickly.
const BITMAP_MIN_BYTES: u64 = 8 << 20;

/// What [`Repositories::repack`] did.
///
/// [`Repositories::repack`]: crate::Repositories::repack
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Repacked {
    pub packs_before: usize,
    pub packs_after: usize,
    /// The index over all packs was written again, with its bitmap.
    pub bitmap_written: bool,
}

/// Why a repack failed; the objects are as they were.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepackError {
    #[error("the objects of {0} are being repacked already")]
    Busy(Identifier),
    #[error("git could not repack: {0}")]
    Git(String),
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
        &self,
        identifier: &Identifier,
        max_packs: usize,
        tips: impl FnOnce() -> io::Result<Vec<Oid>>,
    ) -> Result<Repacked, RepackError> {
        let permit = self.repacking.try_take(identifier, 1);
        let _permit = permit.ok_or_else(|| RepackError::Busy(identifier.clone()))?;
        let objects = self.objects(identifier);
        if !disk::is_real_dir(&objects)? {
            return Ok(Repacked::default());
        }
        let mut found = PackList::read(&objects)?;
        let mut done = Repacked {
            packs_before: found.count,
            ..Repacked::default()
        };
        if found.count > max_packs || found.has_loose {
            self.repack_geometric(identifier).await?;
            found = PackList::read(&objects)?;
        }
        done.packs_after = found.count;
        if found.wants_bitmap() {
            done.bitmap_written = self.write_bitmap(identifier, &tips()?).await?;
        }
        Ok(done)
    }

    async fn repack_geometric(&self, identifier: &Identifier) -> Result<(), RepackError> {
        let mut command = self.git.command([
            "-c",
            "core.fsync=pack,pack-metadata",
            "-c",
            "repack.writeBitmaps=false",
            "repack",
            "--geometric=2",
            "-d",
            "-n",
            "-q",
        ]);
        command.env("GIT_DIR", self.layout.store(identifier));
        let finished = process::run(command).await;
        self.changed(identifier);
        let finished = finished?;
        if finished.status.success() {
            Ok(())
        } else {
            Err(RepackError::Git(complaint(&finished)))
        }
    }

    /// Without a bitmap clones are slower but right, so that git's failure is not ours.
    async fn write_bitmap(&self, identifier: &Identifier, tips: &[Oid]) -> io::Result<bool> {
        let lines: String = tips.iter().map(|oid| format!("{oid}\n")).collect();
        let tips = self.layout.quarantines();
        let tips = tips.join(format!("{}.tips", disk::unique()));
        fs::write(&tips, lines)?;
        let mut command =
            self.git
                .command(["multi-pack-index", "write", "--bitmap", "--no-progress"]);
        command
            .arg(format!("--refs-snapshot={}", tips.display()))
            .env("GIT_DIR", self.layout.store(identifier));
        let finished = process::run(command).await;
        disk::remove_file(&tips)?;
        self.changed(identifier);
        let finished = finished?;
        if !finished.status.success() {
            let reason = complaint(&finished);
            tracing::warn!(%identifier, %reason, "failed to write bitmap");
        }
        Ok(finished.status.success())
    }
}

fn complaint(finished: &Finished) -> String {
    let line = finished.stderr.lines().next().unwrap_or_default();
    format!("{} ({})", line, finished.status)
}

/// The packs of one store.
#[derive(Default)]
struct PackList {
    count: usize,
    bytes: u64,
    /// Bytes of packs that came after the bitmap was written; all of them if there is none.
    bytes_outside: u64,
    has_loose: bool,
}

impl PackList {
    fn read(objects: &Path) -> io::Result<Self> {
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
        for (name, _) in &entries {
            let Some(stem) = name.strip_suffix(".idx") else {
                continue;
            };
            let len = fs::metadata(dir.join(format!("{stem}.pack"))).map_or(0, |m| m.len());
            list.bytes += len;
            if bitmap.is_none_or(|bitmap| modified(name).is_ok_and(|m| m > bitmap)) {
                list.bytes_outside += len;
            }
            list.count += 1;
        }
        Ok(list)
    }

    /// A tenth may be walked without; writing it after every push would cost more.
    fn wants_bitmap(&self) -> bool {
        self.bytes >= BITMAP_MIN_BYTES && self.bytes_outside * 10 > self.bytes
    }
}
