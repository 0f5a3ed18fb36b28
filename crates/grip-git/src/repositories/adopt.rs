//! Start-up of the root: completion of what a crash cut short, and adoption of the repositories that
//! another server left.
//!
//! Every step can be repeated: the alternates file comes first, so that objects are found wherever
//! they are, and the configuration last, so that its text says that all is done.

use std::{collections::BTreeMap, fs, io, path::Path};

use grip_types::{Oid, RefName, RepoAddr};

use crate::{
    bare::{CONFIG, FIRST_HEAD, head_file, parse_head},
    disk, layout,
    objects::{Objects, Reader},
    refs::{self, Ref},
};

use super::Inner;

/// Levels of directories below `refs/` that are looked at.
const MAX_REF_DEPTH: usize = 32;

/// Why a repository of another server is left alone.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdoptError {
    #[error("it is of another format (sha256 or reftable)")]
    Format,
    #[error("it borrows objects from elsewhere (objects/info/alternates)")]
    Alternates,
    #[error("{0} is not a directory of its own")]
    NotADirectory(&'static str),
    #[error("its packed-refs cannot be read: {0}")]
    PackedRefs(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Inner {
    /// Prepares everything below the root; only for the start, when nobody else is at work here.
    pub(super) fn prepare_root(&self) -> io::Result<()> {
        let layout = &self.layout;
        for dir in [
            layout.stores(),
            layout.quarantines(),
            layout.root.join(".archive"),
        ] {
            disk::make_dirs(&layout.root, &dir)?;
        }
        for (name, kind) in disk::entries(&layout.quarantines())? {
            let path = layout.quarantines().join(name);
            if kind.is_dir() {
                fs::remove_dir_all(path)?;
            } else {
                fs::remove_file(path)?;
            }
        }
        self.thaw()?;
        self.rename_raw_names()?;
        let mut all_adopted = true;
        for repo in self.list()? {
            let path = layout.repository(&repo);
            disk::remove_files(&path, |name| {
                name.starts_with('.') && name.ends_with(".new")
            })?;
            if let Err(reason) = self.adopt(&repo, &path) {
                tracing::warn!(%repo, %reason, "repository left as it is");
                all_adopted = false;
            }
        }
        if let Err(error) = self.repair_archive() {
            tracing::warn!(%error, "failed to look through the archive");
        }
        self.packs.clean(all_adopted)?;
        self.restore_staged()?;
        self.remove_idle_owners()?;
        self.remove_idle()
    }

    /// Gives repositories whose directories have a space or an umlaut their encoded name.
    fn rename_raw_names(&self) -> io::Result<()> {
        for (npub, kind) in disk::entries(&self.layout.root)? {
            if !kind.is_dir() || !layout::is_npub(&npub) {
                continue;
            }
            let owner = self.layout.owner(&npub);
            for (name, kind) in disk::entries(&owner)? {
                let Some(identifier) = layout::identifier_of(&name).filter(|_| kind.is_dir())
                else {
                    continue;
                };
                let encoded = layout::directory(&identifier);
                if encoded == name {
                    continue;
                }
                if disk::is_real_dir(&owner.join(&encoded))? {
                    tracing::warn!(%npub, %name, "{encoded} is there as well: left as it is");
                    continue;
                }
                fs::rename(owner.join(&name), owner.join(&encoded))?;
                disk::sync_dir(&owner)?;
            }
        }
        Ok(())
    }

    /// Makes a repository one of ours if it is not; the caller holds the lock, if there are others.
    pub(super) fn adopt(&self, repo: &RepoAddr, path: &Path) -> Result<(), AdoptError> {
        let config = disk::read(&path.join("config"))?;
        if config.as_deref() == Some(CONFIG.as_bytes()) {
            return self.restore_alternates(repo, path);
        }
        refuse_other_formats(config.as_deref().unwrap_or_default())?;
        for dir in ["objects", "objects/info", "objects/pack", "refs"] {
            disk::make_dirs(&self.layout.root, &path.join(dir))
                .map_err(|_| AdoptError::NotADirectory(dir))?;
        }
        tracing::info!(%repo, "taking over repository");
        self.packs.ensure(&repo.identifier)?;
        let objects = path.join("objects");
        write_alternates(&objects, &layout::alternates(&repo.identifier))?;
        let staged = self.staged_packs(repo)?;
        self.packs.import(&repo.identifier, &objects, &staged)?;
        // The repository's own: refs may rest on what is staged in it.
        fold_refs(path, &Objects::open(objects)?.patient_reader())?;
        fix_head(path)?;
        disk::replace(&path.join("config"), CONFIG.as_bytes())?;
        Ok(())
    }

    /// Has a repository of ours borrow from its store again: without that git finds no object in it.
    fn restore_alternates(&self, repo: &RepoAddr, path: &Path) -> Result<(), AdoptError> {
        let info = "objects/info";
        if !path.join(info).join("alternates").exists() {
            tracing::warn!(%repo, "restoring objects/info/alternates");
            disk::make_dirs(&self.layout.root, &path.join(info))
                .map_err(|_| AdoptError::NotADirectory(info))?;
        }
        write_alternates(&path.join("objects"), &layout::alternates(&repo.identifier))
    }
}

fn refuse_other_formats(config: &[u8]) -> Result<(), AdoptError> {
    let text = String::from_utf8_lossy(config).to_ascii_lowercase();
    let other = text.lines().any(|line| {
        let line: String = line.split_whitespace().collect();
        line.starts_with("objectformat=sha256") || line.starts_with("refstorage=reftable")
    });
    if other {
        Err(AdoptError::Format)
    } else {
        Ok(())
    }
}

fn write_alternates(objects: &Path, ours: &str) -> Result<(), AdoptError> {
    let path = objects.join("info/alternates");
    match disk::read(&path)? {
        Some(found) if found == ours.as_bytes() => Ok(()),
        Some(found) if !found.trim_ascii().is_empty() => Err(AdoptError::Alternates),
        _ => Ok(disk::replace(&path, ours.as_bytes())?),
    }
}

/// Writes loose and packed refs into one file, then removes the loose ones.
fn fold_refs(path: &Path, reader: &Reader) -> Result<(), AdoptError> {
    let packed = disk::read(&path.join("packed-refs"))?.unwrap_or_default();
    let packed = refs::parse(&packed).map_err(|e| AdoptError::PackedRefs(e.to_string()))?;
    let mut all: BTreeMap<RefName, Oid> = packed.into_iter().map(|r| (r.name, r.oid)).collect();
    read_loose(&path.join("refs"), "refs", 0, &mut all)?;
    let mut kept = Vec::with_capacity(all.len());
    for (name, oid) in all {
        match reader.peel(&oid) {
            Ok(peeled) => kept.push(Ref { name, oid, peeled }),
            Err(reason) => tracing::warn!(%name, %reason, "ref of another server dropped"),
        }
    }
    disk::replace(&path.join("packed-refs"), &refs::write(&kept))?;
    for leftover in ["refs", "logs"] {
        if disk::is_real_dir(&path.join(leftover))? {
            fs::remove_dir_all(path.join(leftover))?;
        }
    }
    disk::make_dirs(path, &path.join("refs"))?;
    Ok(())
}

/// Symbolic links, symbolic refs and broken files are passed over.
fn read_loose(
    dir: &Path,
    prefix: &str,
    depth: usize,
    all: &mut BTreeMap<RefName, Oid>,
) -> io::Result<()> {
    for (name, kind) in disk::entries(dir)? {
        let (path, name) = (dir.join(&name), format!("{prefix}/{name}"));
        if kind.is_dir() && depth < MAX_REF_DEPTH {
            read_loose(&path, &name, depth + 1, all)?;
        } else if kind.is_file() {
            let contents = disk::read(&path)?.unwrap_or_default();
            let oid = Oid::from_hex(contents.trim_ascii());
            match (RefName::parse(&name), oid) {
                (Ok(name), Ok(oid)) => drop(all.insert(name, oid)),
                _ => tracing::warn!(%name, "file is no ref: dropped"),
            }
        }
    }
    Ok(())
}

fn fix_head(path: &Path) -> io::Result<()> {
    let head = path.join("HEAD");
    let target = disk::read(&head)?.and_then(|contents| parse_head(&contents));
    let text = target.map_or_else(|| FIRST_HEAD.to_owned(), |target| head_file(&target));
    disk::replace(&head, text.as_bytes())
}
