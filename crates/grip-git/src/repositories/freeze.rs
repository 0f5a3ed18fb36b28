//! The tree of one moment: hard links to all files, for a backup to read while the node goes on.
//!
//! Files here are never written in place: packs are immutable, refs are replaced whole. So a link is a
//! copy that costs nothing, and what is repacked or removed meanwhile stays in the tree.
//!
//! Refs are linked before objects: whatever a ref names was durable before the ref was, so the tree has
//! it. An index over several packs is left out, since it may name packs that went meanwhile; it is
//! written again by maintenance.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, SystemTime},
};

use grip_tasks::{Permit, fault};
use grip_types::{Identifier, RepoAddr};
use rustix::fs::{FlockOperation, flock};

use super::{Inner, Repositories};
use crate::{disk, layout, packs};

/// How often a directory is read again because something in it went while it was linked.
const MAX_LOOKS: usize = 20;

/// How long a tree stays that nobody reads: the command that asked for it was killed.
const ABANDONED: Duration = Duration::from_secs(3600);

/// A tree of links.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frozen {
    /// Laid out as the root of the repositories is.
    pub git: PathBuf,
    pub files: u64,
}

/// How far a freeze is.
#[derive(Debug, Default)]
pub struct FreezeProgress {
    /// Files that were linked.
    pub files: AtomicU64,
    /// Repositories and stores of objects of which all files were linked.
    pub trees: AtomicU64,
    /// How many there are; 0 before they are counted.
    pub total_trees: AtomicU64,
}

/// No object goes while it lives.
#[must_use = "objects may go as soon as it is dropped"]
pub struct KeptObjects {
    _permits: Vec<Permit<Identifier>>,
}

impl Repositories {
    /// Where a frozen tree lies, and what belongs to it.
    pub fn frozen_path(&self) -> PathBuf {
        self.inner.layout.frozen()
    }

    /// Keeps the objects of all repositories that are there now for as long as the result lives. Taken
    /// before the events are copied that speak of them. Blocking.
    pub fn keep_objects(&self) -> io::Result<KeptObjects> {
        let packs = &self.inner.packs;
        let identifiers = packs.identifiers()?;
        let mut permits = Vec::new();
        for identifier in &identifiers {
            // Neither whole stores nor unreachable objects are collected meanwhile.
            let _turn = self.inner.lock(identifier);
            permits.extend([packs.borrow(identifier), packs.receive(identifier)]);
        }
        Ok(KeptObjects { _permits: permits })
    }

    /// Links every file of every repository into a tree of its own, which takes the place of an
    /// earlier one. `progress` counts them as they come. Blocking, for a moment for each repository.
    pub fn freeze(&self, _kept: &KeptObjects, progress: &FreezeProgress) -> io::Result<Frozen> {
        let inner = &self.inner;
        let git = inner.layout.frozen().join("git");
        remove_tree(&git)?;
        fs::create_dir_all(&git)?;
        let mut linking = Linking {
            root: &inner.layout.root,
            to: &git,
            files: &progress.files,
        };
        let mut repositories = inner.list()?;
        repositories.extend(inner.contributors_on_disk()?);
        let count = (repositories.len() + inner.packs.identifiers()?.len()) as u64;
        progress.total_trees.store(count, Relaxed);
        for repo in repositories {
            let _turn = inner.lock(&repo.identifier);
            linking.tree(&inner.layout.repository(&repo))?;
            linking.tree(&inner.staged_records(&repo))?;
            fault::point("backup.repository_linked");
            progress.trees.fetch_add(1, Relaxed);
        }
        linking.tree(&inner.layout.root.join(".archive"))?;
        linking.tree(&inner.layout.root.join(".damaged"))?;
        for identifier in inner.packs.identifiers()? {
            inner.packs.warm(&identifier)?;
            linking.tree(&inner.layout.store(&identifier))?;
            progress.trees.fetch_add(1, Relaxed);
        }
        let files = progress.files.load(Relaxed);
        *inner.frozen_at.lock() = Some(SystemTime::now());
        Ok(Frozen { git, files })
    }

    /// Removes the frozen tree, if there is one. Blocking.
    pub fn thaw(&self) -> io::Result<()> {
        self.inner.thaw()
    }

    /// Removes a frozen tree that has been complete for an hour, unless somebody reads it, who has a shared
    /// lock on [`Repositories::frozen_path`]; says whether it did. Blocking.
    pub fn thaw_abandoned(&self, now: SystemTime) -> io::Result<bool> {
        let inner = &self.inner;
        // The next layout begins after this.
        let mut frozen_at = inner.frozen_at.lock();
        let age = frozen_at.and_then(|at| now.duration_since(at).ok());
        if age.is_none_or(|age| age < ABANDONED) {
            return Ok(false);
        }
        let place = match File::open(inner.layout.frozen()) {
            Err(error) if disk::is_absent(&error) => {
                *frozen_at = None;
                return Ok(false);
            }
            opened => opened?,
        };
        if flock(&place, FlockOperation::NonBlockingLockExclusive).is_err() {
            return Ok(false);
        }
        remove_tree(&inner.layout.frozen())?;
        *frozen_at = None;
        Ok(true)
    }
}

impl Inner {
    pub(super) fn thaw(&self) -> io::Result<()> {
        let mut frozen_at = self.frozen_at.lock();
        *frozen_at = None;
        remove_tree(&self.layout.frozen())
    }

    fn staged_records(&self, repo: &RepoAddr) -> PathBuf {
        let mut staged = self.layout.root.join(".staged");
        if repo.is_contributor() {
            staged.push(layout::CONTRIBUTORS);
        }
        let of_owner = staged.join(repo.npub());
        of_owner.join(layout::directory(&repo.identifier))
    }
}

fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if !disk::is_absent(&error) => Err(error),
        _ => Ok(()),
    }
}

struct Linking<'a> {
    root: &'a Path,
    to: &'a Path,
    files: &'a AtomicU64,
}

impl Linking<'_> {
    /// Links all that is below a directory; nothing if that is not there.
    fn tree(&mut self, from: &Path) -> io::Result<()> {
        for _ in 0..MAX_LOOKS {
            match self.try_tree(from) {
                // A pack was rolled up: what replaced it was there before it went. All of it again, lest
                // an index stays without its pack.
                Err(error) if disk::is_absent(&error) => {
                    let below = from.strip_prefix(self.root).map_err(io::Error::other)?;
                    fs::remove_dir_all(self.to.join(below))?;
                }
                done => return done,
            }
        }
        Err(io::Error::other(format!(
            "{} changes faster than it can be read",
            from.display()
        )))
    }

    fn try_tree(&mut self, from: &Path) -> io::Result<()> {
        let entries = disk::entries(from)?;
        if entries.is_empty() {
            return Ok(());
        }
        let below = from.strip_prefix(self.root).map_err(io::Error::other)?;
        let to = self.to.join(below);
        fs::create_dir_all(&to)?;
        for (name, kind) in entries {
            let (from, to) = (from.join(&name), to.join(&name));
            if kind.is_dir() {
                // Also an empty one: git wants `refs` and `objects`.
                fs::create_dir_all(&to)?;
                self.try_tree(&from)?;
            } else if kind.is_file() && !is_left_out(&name) {
                self.link(&from, &to)?;
            }
        }
        Ok(())
    }

    fn link(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        match fs::hard_link(from, to) {
            Ok(()) => drop(self.files.fetch_add(1, Relaxed)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) if disk::is_absent(&error) => return Err(error),
            // A file system without links, or one whose links are used up.
            Err(_) => {
                fs::copy(from, to)?;
                self.files.fetch_add(1, Relaxed);
            }
        }
        Ok(())
    }
}

/// Whether a file is half written, or can be made again from the others.
fn is_left_out(name: &str) -> bool {
    let is_half = name.ends_with(".new") || name.ends_with(".lock") || name.starts_with("tmp_");
    // Lists of packs of a cluster are written in place, and a copy that is restored is alone.
    let is_list = packs::LISTS.contains(&name);
    is_half || is_list || name.starts_with("multi-pack-index") || name.ends_with(".bitmap")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Options;

    #[test]
    fn a_frozen_tree_keeps_what_is_replaced_or_removed_later() {
        let dir = tempfile::tempdir().unwrap();
        let repositories = Repositories::open(Options::new(dir.path())).unwrap();
        let owner =
            RepoAddr::parse_npub("npub10xlxvlhemja6c4dqv22uapctqupfhlxm9h8z3k2e72q4k9hcz7vqpkge6d")
                .unwrap();
        let repo = RepoAddr::new(owner, Identifier::parse("tides").unwrap());
        repositories.create(&repo).unwrap();
        let pack = dir.path().join(".objects/tides.git/objects/pack");
        fs::write(pack.join("pack-1.pack"), "one").unwrap();
        fs::write(pack.join("multi-pack-index"), "names pack-1").unwrap();
        let kept = repositories.keep_objects().unwrap();
        let frozen = repositories
            .freeze(&kept, &FreezeProgress::default())
            .unwrap();
        fs::remove_file(pack.join("pack-1.pack")).unwrap();
        let head = frozen.git.join(repo.path()).join("HEAD");
        let before = fs::read(&head).unwrap();
        disk::replace(&dir.path().join(repo.path()).join("HEAD"), b"other").unwrap();
        assert_eq!(fs::read(&head).unwrap(), before);
        let packs = frozen.git.join(".objects/tides.git/objects/pack");
        assert_eq!(fs::read(packs.join("pack-1.pack")).unwrap(), b"one");
        assert!(!packs.join("multi-pack-index").exists());
        assert!(frozen.git.join(repo.path()).join("refs").is_dir());
        // The next one knows nothing of the last, and neither does the next start.
        let again = repositories
            .freeze(&kept, &FreezeProgress::default())
            .unwrap();
        assert!(
            !again
                .git
                .join(".objects/tides.git/objects/pack/pack-1.pack")
                .exists()
        );
        drop((repositories, kept));
        let opened = Repositories::open(Options::new(dir.path())).unwrap();
        assert!(!opened.frozen_path().exists());
    }

    #[test]
    fn a_tree_goes_after_an_hour_in_which_nobody_reads_it() {
        let dir = tempfile::tempdir().unwrap();
        let repositories = Repositories::open(Options::new(dir.path())).unwrap();
        let kept = repositories.keep_objects().unwrap();
        let freeze = || repositories.freeze(&kept, &FreezeProgress::default());
        let place = repositories.frozen_path();
        let thaw = |minutes: u64| {
            let now = SystemTime::now() + Duration::from_secs(minutes * 60);
            repositories.thaw_abandoned(now).unwrap()
        };
        assert!(!thaw(61), "there is none");
        freeze().unwrap();
        assert!(!thaw(59) && place.exists());
        let reader = File::open(&place).unwrap();
        flock(&reader, FlockOperation::LockShared).unwrap();
        assert!(!thaw(61) && place.exists());
        drop(reader);
        assert!(thaw(61) && !place.exists());
        assert!(!thaw(61), "it is gone");
        // One that is being laid out is nobody's yet.
        fs::create_dir_all(&place).unwrap();
        assert!(!thaw(61) && place.exists());
        freeze().unwrap();
        repositories.thaw().unwrap();
        assert!(!thaw(61));
    }
}
