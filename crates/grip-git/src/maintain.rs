//! Keeping the number of packs small, and clones fast.
//!
//! Safe while pushes and fetches are under way, without any lock: a geometric repack writes one
//! new pack from several, and removes only those. Packs that are promoted meanwhile are not among
//! them, no object is dropped, reachable or not, and whoever reads a pack that goes away finds its
//! objects in the new one.

use std::{collections::BTreeSet, collections::HashSet, fs, io, path::Path};

use grip_types::{Identifier, Oid};
use parking_lot::Mutex;

use crate::{
    disk, layout,
    layout::RepoPath,
    process::{self, Finished},
    repositories::{RepoError, Repositories},
};

/// Bytes of packs below which a clone needs no bitmap to start quickly.
const BITMAP_MIN_BYTES: u64 = 8 << 20;

/// What [`Repositories::maintain`] did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Maintenance {
    pub packs_before: usize,
    pub packs_after: usize,
    /// The index over all packs, with its bitmap, was written anew.
    pub bitmap_written: bool,
}

/// Why maintenance failed; the objects are as they were.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MaintainError {
    #[error("the objects of {0} are being maintained already")]
    Busy(Identifier),
    #[error("git could not repack: {0}")]
    Repack(String),
    #[error("the store could not be read")]
    Io(#[from] io::Error),
}

/// The answer of `git fsck`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fsck {
    pub is_clean: bool,
    /// What it said, cut to its first lines.
    pub report: String,
}

/// The identifiers being maintained: as many as there are callers.
#[derive(Default)]
pub(crate) struct Claims(Mutex<HashSet<Identifier>>);

pub(crate) struct Claim<'a> {
    claims: &'a Claims,
    identifier: &'a Identifier,
}

impl Claims {
    pub(crate) fn take<'a>(&'a self, identifier: &'a Identifier) -> Option<Claim<'a>> {
        let is_new = self.0.lock().insert(identifier.clone());
        is_new.then_some(Claim {
            claims: self,
            identifier,
        })
    }

    pub(crate) fn has(&self, identifier: &Identifier) -> bool {
        self.0.lock().contains(identifier)
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.claims.0.lock().remove(self.identifier);
    }
}

impl Repositories {
    /// Rolls packs up if there are many, and keeps the bitmap that makes clones quick.
    ///
    /// Idempotent, and cheap where there is nothing to do. Cancel safe: git is killed and its
    /// temporary files go at the next start.
    pub async fn maintain(&self, identifier: &Identifier) -> Result<Maintenance, MaintainError> {
        let claim = self.inner.maintained.take(identifier);
        let _claim = claim.ok_or_else(|| MaintainError::Busy(identifier.clone()))?;
        let store = self.inner.layout.store(identifier);
        let objects = store.join("objects");
        if !disk::is_real_dir(&objects)? {
            return Ok(Maintenance::default());
        }
        let before = Packs::read(&objects)?;
        let mut done = Maintenance {
            packs_before: before.names.len(),
            packs_after: before.names.len(),
            bitmap_written: false,
        };
        let mut after = before;
        if after.names.len() > self.inner.options.max_packs || after.has_loose {
            self.repack(identifier, &store).await?;
            after = Packs::read(&objects)?;
            done.packs_after = after.names.len();
        }
        if after.wants_bitmap() {
            done.bitmap_written = self.write_bitmap(identifier, &store).await?;
        }
        Ok(done)
    }

    async fn repack(&self, identifier: &Identifier, store: &Path) -> Result<(), MaintainError> {
        let mut command = self.inner.git.command([
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
        command.env("GIT_DIR", store);
        let finished = process::run(command).await;
        self.inner.packs_changed(identifier);
        let finished = finished?;
        if finished.status.success() {
            Ok(())
        } else {
            Err(MaintainError::Repack(complaint(&finished)))
        }
    }

    /// Without a bitmap clones are slower but right, so that git's failure is not ours.
    async fn write_bitmap(&self, identifier: &Identifier, store: &Path) -> io::Result<bool> {
        let tips = self.write_tips(identifier)?;
        let mut command =
            self.inner
                .git
                .command(["multi-pack-index", "write", "--bitmap", "--no-progress"]);
        command
            .arg(format!("--refs-snapshot={}", tips.display()))
            .env("GIT_DIR", store);
        let finished = process::run(command).await;
        disk::remove_file(&tips)?;
        self.inner.packs_changed(identifier);
        let finished = finished?;
        if !finished.status.success() {
            let reason = complaint(&finished);
            tracing::warn!(%identifier, %reason, "no bitmap written");
        }
        Ok(finished.status.success())
    }

    /// The commits that clones will start from: the store itself has no refs.
    fn write_tips(&self, identifier: &Identifier) -> io::Result<std::path::PathBuf> {
        let mut tips: BTreeSet<Oid> = BTreeSet::new();
        for refs in self.refs_of_all(identifier)? {
            tips.extend(refs.iter().map(|r| r.peeled.unwrap_or(r.oid)));
        }
        let lines: String = tips.iter().map(|oid| format!("{oid}\n")).collect();
        let path = self.inner.layout.quarantines();
        let path = path.join(format!("{}.tips", disk::unique()));
        fs::write(&path, lines)?;
        Ok(path)
    }

    /// Runs `git fsck` over a repository and the objects it shares.
    pub async fn fsck(&self, repo: &RepoPath) -> Result<Fsck, RepoError> {
        self.refs(repo)?;
        let mut command =
            self.inner
                .git
                .command(["fsck", "--full", "--no-dangling", "--no-progress"]);
        command.env("GIT_DIR", self.inner.layout.repository(repo));
        let finished = process::run(command)
            .await
            .map_err(|source| RepoError::Io {
                repo: repo.clone(),
                source,
            })?;
        let report = format!("{}{}", finished.stdout, finished.stderr);
        Ok(Fsck {
            is_clean: finished.status.success(),
            report,
        })
    }
}

fn complaint(finished: &Finished) -> String {
    let line = finished.stderr.lines().next().unwrap_or_default();
    format!("{} ({})", line, finished.status)
}

/// What lies in an object directory.
struct Packs {
    names: Vec<String>,
    bytes: u64,
    /// Bytes of packs that came after the bitmap was written; all of them if there is none.
    bytes_outside: u64,
    has_loose: bool,
}

impl Packs {
    fn read(objects: &Path) -> io::Result<Self> {
        let dir = layout::packs(objects);
        let mut packs = Self {
            names: Vec::new(),
            bytes: 0,
            bytes_outside: 0,
            has_loose: disk::entries(objects)?
                .iter()
                .any(|(name, _)| name.len() == 2),
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
            let pack = format!("{stem}.pack");
            let len = fs::metadata(dir.join(&pack)).map_or(0, |m| m.len());
            packs.bytes += len;
            if bitmap.is_none_or(|bitmap| modified(name).is_ok_and(|m| m > bitmap)) {
                packs.bytes_outside += len;
            }
            packs.names.push(stem.to_owned());
        }
        Ok(packs)
    }

    /// A tenth may be walked without; writing anew after every push would cost more.
    fn wants_bitmap(&self) -> bool {
        self.bytes >= BITMAP_MIN_BYTES && self.bytes_outside * 10 > self.bytes
    }
}
