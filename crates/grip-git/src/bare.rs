//! Skeleton of a bare repository: its directories, configuration and HEAD.

use std::{fs, io, path::Path};

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
    let draft = quarantine.join(disk::unique());
    let objects = draft.join("objects");
    for dir in DIRS {
        fs::create_dir_all(draft.join(dir))?;
    }
    if let Some(alternates) = alternates {
        let path = objects.join("info/alternates");
        disk::write_synced(&path, alternates.as_bytes())?;
    }
    disk::write_synced(&draft.join("HEAD"), FIRST_HEAD.as_bytes())?;
    disk::write_synced(&draft.join("config"), CONFIG.as_bytes())?;
    disk::sync_dir(&objects.join("info"))?;
    disk::sync_dir(&objects)?;
    disk::sync_dir(&draft)?;
    fs::rename(&draft, target)?;
    disk::sync_parent(target)
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
