//! Making repositories: whole in the quarantine first, then moved into place in one step.

use std::{fs, io, path::Path};

use grip_types::{Identifier, RefName};

use crate::{
    disk,
    layout::{self, RepoPath},
};

use super::{Inner, RepoError, unreachable_repo};

/// The configuration of every repository here; another server's is replaced by it.
///
/// It is written last: a repository with exactly this text is complete.
pub(super) const CONFIG: &str = "\
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
pub(super) const FIRST_HEAD: &str = "ref: refs/heads/main\n";

pub(super) fn head_file(target: &RefName) -> String {
    format!("ref: {target}\n")
}

pub(super) fn parse_head(contents: &[u8]) -> Option<RefName> {
    let text = std::str::from_utf8(contents).ok()?;
    let target = text.strip_prefix("ref:")?.trim();
    RefName::parse(target).ok().filter(RefName::is_head)
}

impl Inner {
    /// The caller holds the lock.
    pub(super) fn create(&self, repo: &RepoPath) -> Result<(), RepoError> {
        match self.find(repo)? {
            Some(_) => self.load(repo).map(drop),
            None => self
                .create_absent(repo)
                .map_err(|source| unreachable_repo(repo, source)),
        }
    }

    fn create_absent(&self, repo: &RepoPath) -> io::Result<()> {
        self.ensure_store(&repo.identifier)?;
        let alternates = layout::alternates(&repo.identifier);
        let target = self.layout.repository(repo);
        disk::make_dirs(&self.layout.root, &self.layout.owner(&repo.npub))?;
        self.build(&target, Some(&alternates))
    }

    /// Makes the object store of an identifier; the caller holds the lock.
    pub(crate) fn ensure_store(&self, identifier: &Identifier) -> io::Result<()> {
        let target = self.layout.store(identifier);
        if !disk::is_real_dir(&target)? {
            return self.build(&target, None);
        }
        if disk::read(&target.join("config"))?.as_deref() != Some(CONFIG.as_bytes()) {
            for dir in ["objects/info", "objects/pack", "refs"] {
                disk::make_dirs(&self.layout.root, &target.join(dir))?;
            }
            disk::replace(&target.join("HEAD"), FIRST_HEAD.as_bytes())?;
            disk::replace(&target.join("config"), CONFIG.as_bytes())?;
        }
        Ok(())
    }

    fn build(&self, target: &Path, alternates: Option<&str>) -> io::Result<()> {
        let draft = self.layout.quarantines().join(disk::unique());
        let objects = draft.join("objects");
        for dir in ["objects/info", "objects/pack", "refs"] {
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
}
