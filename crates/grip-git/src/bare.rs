//! Skeleton of a bare repository: its directories, configuration and HEAD.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use grip_tasks::fault;
use grip_types::RefName;

use crate::disk;

const DIRS: [&str; 3] = ["objects/info", "objects/pack", "refs"];

/// The configuration of every repository here; another server's is replaced by it.
///
/// It is written last: a repository with exactly this text is complete.
pub(crate) const CONFIG: &str = "\
[core]
\trepositoryformatversion = 0
\tfilemode = true
\tbare = true
\thooksPath = /dev/null
\tlogAllRefUpdates = false
\tbigFileThreshold = 32m
[gc]
\tauto = 0
[maintenance]
\tauto = false
[uploadpack]
\tallowTipSHA1InWant = true
\tallowReachableSHA1InWant = true
\tallowAnySHA1InWant = true
\tallowFilter = true
[receive]
\tautogc = false
\tdenyDeletes = false
\tdenyNonFastForwards = false
\tdenyCurrentBranch = ignore
\tadvertisePushOptions = true
";

/// What HEAD says in a new repository.
pub(crate) const FIRST_HEAD: &str = "ref: refs/heads/main\n";

pub(crate) fn head_file(target: &RefName) -> String {
    format!("ref: {target}\n")
}

pub(crate) fn parse_head(contents: &[u8]) -> Option<RefName> {
    let text = std::str::from_utf8(contents).ok()?;
    let target = text.strip_prefix("ref:")?.trim();
    RefName::parse(target).ok().filter(RefName::is_head)
}

/// Makes a bare repository: whole in the quarantine first, then moved into place in one step.
pub(crate) fn create(quarantine: &Path, target: &Path, alternates: Option<&str>) -> io::Result<()> {
    Draft::make(quarantine, alternates)?.put(target)
}

/// A bare repository in the quarantine, whole and durable, that has no place yet.
///
/// All writes that the disk has to be waited for are done when it is made; to put it in its place is
/// one step. A failure or a crash leaves a directory that the next start removes.
pub(crate) struct Draft {
    path: PathBuf,
}

impl Draft {
    pub(crate) fn make(quarantine: &Path, alternates: Option<&str>) -> io::Result<Self> {
        let path = quarantine.join(disk::unique());
        let objects = path.join("objects");
        for dir in DIRS {
            fs::create_dir_all(path.join(dir))?;
        }
        if let Some(alternates) = alternates {
            let path = objects.join("info/alternates");
            disk::write_synced(&path, alternates.as_bytes())?;
        }
        disk::write_synced(&path.join("HEAD"), FIRST_HEAD.as_bytes())?;
        disk::write_synced(&path.join("config"), CONFIG.as_bytes())?;
        disk::sync_dir(&objects.join("info"))?;
        disk::sync_dir(&objects)?;
        disk::sync_dir(&path)?;
        fault::point("git.draft.made");
        Ok(Self { path })
    }

    /// Where it lies.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Moves it to `target`; it stays where it is if that fails.
    pub(crate) fn put(&self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)?;
        disk::sync_parent(target)
    }
}

/// Completes a bare repository without refs that has another configuration.
pub(crate) fn repair(root: &Path, target: &Path) -> io::Result<()> {
    for dir in DIRS {
        if !disk::is_real_dir(&target.join(dir))? {
            disk::make_dirs(root, &target.join(dir))?;
        }
    }
    if disk::read(&target.join("config"))?.as_deref() != Some(CONFIG.as_bytes()) {
        disk::replace(&target.join("HEAD"), FIRST_HEAD.as_bytes())?;
        disk::replace(&target.join("config"), CONFIG.as_bytes())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn a_draft_takes_its_place_with_one_wait_for_the_disk() {
        let root = TempDir::new().unwrap();
        let waits = || disk::SYNCS.get();
        let draft = Draft::make(root.path(), Some("../x\n")).unwrap();
        assert_eq!(waits(), 6);
        let target = root.path().join("x.git");
        draft.put(&target).unwrap();
        assert_eq!(waits(), 7);
        assert_eq!(fs::read(target.join("config")).unwrap(), CONFIG.as_bytes());
        assert!(!draft.path().exists());
    }
}
