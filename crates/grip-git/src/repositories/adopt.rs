//! Opening the root: finishing what a crash cut short, and taking over what another server left.
//!
//! Every step can be repeated: the alternates file comes first, so that objects are found wherever
//! they are, and the configuration last, so that its text says that all is done.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
};

use grip_types::{Oid, RefName};

use crate::{
    disk,
    layout::{self, RepoPath},
    objects::Objects,
    refs::{self, Ref},
};

use super::{
    Inner,
    create::{CONFIG, FIRST_HEAD, head_file, parse_head},
};

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
        self.rename_raw_names()?;
        let mut all_adopted = true;
        for repo in self.list()? {
            let path = layout.repository(&repo);
            remove_temporary(&path, |name| {
                name.starts_with('.') && name.ends_with(".new")
            })?;
            if let Err(reason) = self.adopt(&repo, &path) {
                tracing::warn!(%repo, %reason, "repository left as it is");
                all_adopted = false;
            }
        }
        for (name, kind) in disk::entries(&layout.stores())? {
            if kind.is_dir() {
                let packs = layout.stores().join(name).join("objects/pack");
                clean_packs(&packs, all_adopted)?;
            }
        }
        Ok(())
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
    pub(super) fn adopt(&self, repo: &RepoPath, path: &Path) -> Result<(), AdoptError> {
        let config = disk::read(&path.join("config"))?;
        if config.as_deref() == Some(CONFIG.as_bytes()) {
            return Ok(());
        }
        refuse_other_formats(config.as_deref().unwrap_or_default())?;
        for dir in ["objects", "objects/info", "objects/pack", "refs"] {
            disk::make_dirs(&self.layout.root, &path.join(dir))
                .map_err(|_| AdoptError::NotADirectory(dir))?;
        }
        tracing::info!(%repo, "taking over repository");
        self.ensure_store(&repo.identifier)?;
        let store = self.layout.store(&repo.identifier).join("objects");
        let objects = path.join("objects");
        write_alternates(&objects, &layout::alternates(&repo.identifier))?;
        move_packs(&layout::packs(&objects), &layout::packs(&store))?;
        move_loose(&objects, &store)?;
        disk::sync_file_system(&self.layout.root)?;
        self.packs_changed(&repo.identifier);
        fold_refs(path, store)?;
        fix_head(path)?;
        disk::replace(&path.join("config"), CONFIG.as_bytes())?;
        Ok(())
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

/// Moves packs, each index last: a pack is seen when its index is.
fn move_packs(from: &Path, to: &Path) -> io::Result<()> {
    let files: BTreeSet<String> = disk::entries(from)?
        .into_iter()
        .filter_map(|(name, kind)| kind.is_file().then_some(name))
        .collect();
    let stems = files.iter().filter_map(|name| name.strip_suffix(".idx"));
    for stem in stems.filter(|stem| stem.starts_with("pack-")) {
        let file = |extension: &str| format!("{stem}.{extension}");
        let is_there = to.join(file("idx")).exists() && to.join(file("pack")).exists();
        for name in ["pack", "rev", "idx"].map(file) {
            if is_there {
                disk::remove_file(&from.join(&name))?;
            } else if files.contains(&name) {
                fs::rename(from.join(&name), to.join(&name))?;
            }
        }
    }
    // Helpers of packs that are gone: a bitmap or list of packs would now be wrong.
    for (name, _) in disk::entries(from)? {
        let stale = [".bitmap", ".keep", ".mtimes", ".promisor"];
        if name.starts_with("multi-pack-index") || stale.iter().any(|end| name.ends_with(end)) {
            disk::remove_file(&from.join(name))?;
        }
    }
    Ok(())
}

fn move_loose(from: &Path, to: &Path) -> io::Result<()> {
    for (fan_out, kind) in disk::entries(from)? {
        let is_hex = |name: &str| name.bytes().all(|b| b.is_ascii_hexdigit());
        if fan_out.len() != 2 || !is_hex(&fan_out) || !kind.is_dir() {
            continue;
        }
        let (source, target) = (from.join(&fan_out), to.join(&fan_out));
        for (name, kind) in disk::entries(&source)? {
            if name.len() != 38 || !is_hex(&name) || !kind.is_file() {
                continue;
            }
            fs::create_dir_all(&target)?;
            fs::rename(source.join(&name), target.join(&name))?;
        }
        // Fails if something else is in there, which then stays.
        let _ = fs::remove_dir(&source);
    }
    disk::remove_file(&from.join("info/commit-graph"))
}

/// Writes loose and packed refs into one file, then removes the loose ones.
fn fold_refs(path: &Path, store: std::path::PathBuf) -> Result<(), AdoptError> {
    let packed = disk::read(&path.join("packed-refs"))?.unwrap_or_default();
    let packed = refs::parse(&packed).map_err(|e| AdoptError::PackedRefs(e.to_string()))?;
    let mut all: BTreeMap<RefName, Oid> = packed.into_iter().map(|r| (r.name, r.oid)).collect();
    read_loose(&path.join("refs"), "refs", 0, &mut all)?;
    let reader = Objects::open(store, 0)?.reader();
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

fn remove_temporary(dir: &Path, is_temporary: impl Fn(&str) -> bool) -> io::Result<()> {
    for (name, kind) in disk::entries(dir)? {
        if kind.is_file() && is_temporary(&name) {
            fs::remove_file(dir.join(name))?;
        }
    }
    Ok(())
}

/// Removes what a killed repack or a cut promotion left behind.
///
/// Half of a pack is the first step of a promotion or of a take-over; the latter is finished by
/// now, unless a repository could not be taken over.
fn clean_packs(packs: &Path, all_adopted: bool) -> io::Result<()> {
    let lacks = |name: &str, own: &str, other: &str| {
        let stem = name
            .strip_suffix(own)
            .filter(|stem| stem.starts_with("pack-"));
        stem.is_some_and(|stem| !packs.join(format!("{stem}{other}")).exists())
    };
    remove_temporary(packs, |name| {
        let is_half = lacks(name, ".pack", ".idx")
            || lacks(name, ".rev", ".idx")
            || lacks(name, ".idx", ".pack");
        name.starts_with("tmp_") || name.starts_with(".tmp-") || (is_half && all_adopted)
    })
}
