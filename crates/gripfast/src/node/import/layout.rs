//! Repositories as ngit-grasp lays them out: complete ones (1.x, 2.x), or views over families of
//! shared objects (3.x).

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use grip_nostr::{PublicKey, RepoAddr};
use grip_types::Identifier;

/// Levels of directories that are copied; git needs fewer.
const MAX_DEPTH: usize = 16;
/// Longest file of refs that is read.
const MAX_REFS_BYTES: u64 = 256 << 20;

/// What a repository is made of here, beside objects and refs: the start takes it over as one of
/// another server.
const CONFIG: &str = "[core]\n\trepositoryformatversion = 0\n\tbare = true\n";

/// Where repositories are made below the root, one after another; what is in it counts for nothing.
pub(super) const HALF: &str = ".import";

/// The layout of a directory of repositories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    Complete,
    Families,
}

/// One owner's repository.
#[derive(Debug)]
pub(super) struct View {
    pub(super) addr: RepoAddr,
    path: PathBuf,
    /// Objects that it shares with others of its name.
    family: Option<PathBuf>,
}

/// Finds out which version wrote a directory (L-1).
pub(super) fn detect(git: &Path) -> anyhow::Result<Layout> {
    if !git.is_dir() {
        bail!("{} is no directory of repositories", git.display());
    }
    let own = git.join(".grasp");
    match fs::read_to_string(own.join("storage-version")) {
        Ok(version) if version.trim() == "1" => Ok(Layout::Families),
        Ok(version) => bail!(
            "{} has storage version {:?}, and only 1 is known here",
            git.display(),
            version.trim()
        ),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !own.exists() => {
            Ok(Layout::Complete)
        }
        Err(error) => Err(error).with_context(|| format!("cannot read {}", own.display())),
    }
}

/// Fails where the repositories of this node would lie in a directory of 3.x: their objects are
/// elsewhere, so they cannot be taken over where they are.
pub(crate) fn check_own(git: &Path) -> anyhow::Result<()> {
    if git.join(".grasp").exists() {
        bail!(
            "{} holds repositories as ngit-grasp 3 keeps them: name another one (git_data_path), and \
             move in with `gripfast import-ngit-grasp`",
            git.display()
        );
    }
    Ok(())
}

impl Layout {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Complete => "1.x or 2.x",
            Self::Families => "3.x",
        }
    }

    /// Every repository, in the order of owners and names; and why others are left out.
    pub(super) fn views(self, git: &Path) -> anyhow::Result<(Vec<View>, Vec<String>)> {
        let (mut views, mut strange) = (Vec::new(), Vec::new());
        for owner in directories(git)? {
            let Some(key) = RepoAddr::parse_npub(&owner) else {
                continue;
            };
            for name in directories(&git.join(&owner))? {
                let Some(identifier) = identifier(&name) else {
                    strange.push(format!("{owner}/{name}: is no repository"));
                    continue;
                };
                let path = git.join(&owner).join(&name);
                if is_sha256(&path) {
                    strange.push(format!(
                        "{owner}/{name}: SHA-256 repositories are not served"
                    ));
                    continue;
                }
                views.push(View {
                    addr: RepoAddr::new(key, identifier),
                    path,
                    family: self.family(git, &name),
                });
            }
        }
        Ok((views, strange))
    }

    /// The contributor repositories (GRASP-06), in the order of keys and names; and why others are left
    /// out.
    pub(super) fn contributors(self, git: &Path) -> anyhow::Result<(Vec<View>, Vec<String>)> {
        let (mut views, mut strange) = (Vec::new(), Vec::new());
        let root = git.join("prs");
        if !root.is_dir() {
            return Ok((views, strange));
        }
        for signer in directories(&root)? {
            let key = PublicKey::from_hex(&signer).ok();
            for name in directories(&root.join(&signer))? {
                let path = root.join(&signer).join(&name);
                match (key, identifier(&name)) {
                    _ if is_sha256(&path) => strange.push(format!(
                        "prs/{signer}/{name}: SHA-256 repositories are not served"
                    )),
                    (Some(key), Some(identifier)) => views.push(View {
                        addr: RepoAddr::contributor(key, identifier),
                        path,
                        family: self.family(git, &name),
                    }),
                    _ => strange.push(format!("prs/{signer}/{name}: is no repository")),
                }
            }
        }
        Ok((views, strange))
    }

    /// The repository with the objects of all that have a directory of this name.
    pub(super) fn family(self, git: &Path, name: &str) -> Option<PathBuf> {
        let families = git.join(".grasp/families/sha1");
        (self == Self::Families).then(|| families.join(name))
    }
}

impl View {
    /// Its place below the directory of repositories here.
    pub(super) fn place(&self) -> PathBuf {
        self.addr.path().into()
    }

    /// Copies it below `root` in one step; says whether there was anything to do.
    pub(super) fn copy(&self, root: &Path) -> anyhow::Result<bool> {
        let to = root.join(self.place());
        if to.exists() {
            return Ok(false);
        }
        // A half copy of a run that was cut off is made again.
        let half = root.join(HALF);
        clear(&half)?;
        complete(&half)?;
        let objects = half.join("objects");
        let head = fs::read(self.path.join("HEAD")).unwrap_or_default();
        fs::write(half.join("HEAD"), head)?;
        if let Some(family) = &self.family {
            take_objects(&family.join("objects"), &objects)?;
        }
        take_objects(&self.path.join("objects"), &objects)?;
        fs::write(half.join("packed-refs"), self.packed_refs()?)?;
        let owner = to.parent().context("a repository lies below its owner")?;
        fs::create_dir_all(owner)?;
        fs::rename(&half, &to)?;
        Ok(true)
    }

    /// Branches, tags and `refs/nostr` by name.
    pub(super) fn refs(&self) -> anyhow::Result<BTreeMap<String, String>> {
        let mut refs = BTreeMap::new();
        let packed = read_bounded(&self.path.join("packed-refs"))?;
        for line in packed.lines().filter(|line| !line.starts_with(['#', '^'])) {
            if let Some((oid, name)) = line.split_once(' ') {
                refs.insert(name.to_owned(), oid.to_owned());
            }
        }
        loose_refs(&self.path.join("refs"), "refs", 0, &mut refs)?;
        let is_kept = |name: &str| {
            ["refs/heads/", "refs/tags/", "refs/nostr/"]
                .iter()
                .any(|start| name.starts_with(start))
        };
        refs.retain(|name, _| is_kept(name));
        Ok(refs)
    }

    /// Where its objects are, as absolute paths.
    pub(super) fn objects(&self) -> anyhow::Result<Vec<PathBuf>> {
        let places = [Some(&self.path), self.family.as_ref()];
        let places = places.into_iter().flatten().map(|it| it.join("objects"));
        let there = places.filter(|place| place.is_dir());
        there.map(|it| Ok(fs::canonicalize(it)?)).collect()
    }

    fn packed_refs(&self) -> anyhow::Result<String> {
        let lines = self.refs()?.into_iter();
        Ok(lines.map(|(name, oid)| format!("{oid} {name}\n")).collect())
    }
}

/// Gives a repository what it needs beside objects, refs and HEAD.
pub(super) fn complete(path: &Path) -> anyhow::Result<()> {
    for directory in ["objects/info", "objects/pack", "refs"] {
        fs::create_dir_all(path.join(directory))?;
    }
    Ok(fs::write(path.join("config"), CONFIG)?)
}

/// Removes a directory with all that is in it, if it is there.
pub(super) fn clear(path: &Path) -> anyhow::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// The identifier of a directory: ngit-grasp escapes nothing in names of files.
fn identifier(directory: &str) -> Option<Identifier> {
    Identifier::parse(directory.strip_suffix(".git")?).ok()
}

pub(super) fn is_sha256(repository: &Path) -> bool {
    let config = fs::read_to_string(repository.join("config")).unwrap_or_default();
    let config: String = config.to_ascii_lowercase().split_whitespace().collect();
    config.contains("objectformat=sha256")
}

/// Names of the directories in one, in their order; links are none.
pub(super) fn directories(path: &Path) -> anyhow::Result<Vec<String>> {
    let entries = fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir()
            && let Ok(name) = entry.file_name().into_string()
        {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// Links or copies packs and loose objects; objects never change, so both servers may have them.
pub(super) fn take_objects(from: &Path, to: &Path) -> anyhow::Result<()> {
    if !from.is_dir() {
        return Ok(());
    }
    let is_loose = |name: &str| name.len() == 2 && name.bytes().all(|b| b.is_ascii_hexdigit());
    for directory in directories(from)? {
        if directory != "pack" && !is_loose(&directory) {
            continue;
        }
        fs::create_dir_all(to.join(&directory))?;
        for entry in fs::read_dir(from.join(&directory))? {
            let entry = entry?;
            if !entry.file_type()?.is_file() {
                continue;
            }
            let place = to.join(&directory).join(entry.file_name());
            match fs::hard_link(entry.path(), &place) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                // On another file system.
                Err(_) => drop(fs::copy(entry.path(), &place)?),
            }
        }
    }
    Ok(())
}

fn loose_refs(
    path: &Path,
    name: &str,
    depth: usize,
    refs: &mut BTreeMap<String, String>,
) -> anyhow::Result<()> {
    if depth > MAX_DEPTH || !path.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        let Ok(last) = entry.file_name().into_string() else {
            continue;
        };
        let (below, kind) = (format!("{name}/{last}"), entry.file_type()?);
        if kind.is_dir() {
            loose_refs(&entry.path(), &below, depth + 1, refs)?;
        } else if kind.is_file() {
            let oid = read_bounded(&entry.path())?;
            let oid = oid.trim();
            if oid.len() == 40 && oid.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                refs.insert(below, oid.to_owned());
            }
        }
    }
    Ok(())
}

/// The text of a file; empty where there is none.
fn read_bounded(path: &Path) -> anyhow::Result<String> {
    match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error.into()),
        Ok(file) if file.len() > MAX_REFS_BYTES => bail!("{} is too long", path.display()),
        Ok(_) => Ok(String::from_utf8_lossy(&fs::read(path)?).into_owned()),
    }
}
