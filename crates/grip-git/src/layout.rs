//! Directories below the root.
//!
//! ```text
//! <npub>/<encoded identifier>.git/     one owner's refs: HEAD, config, packed-refs
//! .objects/<encoded identifier>.git/   the objects of an identifier, for all its owners
//! .prs/<npub>/<…>.git/                 tips of one contributor's pull requests, with their objects
//! .prs/.empty.git/                     where git takes in what rests on nothing that is here
//! .staged/<npub>/<…>.git/<pack>        records of uploads that no event names, see `staged_uploads`;
//!                                      of contributor repositories below `.staged/.prs/`
//! .quarantine/<n>/                     incoming packs and half-made repositories, emptied at open
//! .archive/<npub>/<stamp>/<…>.git      withdrawn repositories
//! .damaged/<…>.git/                    packs that were set aside because they cannot be read
//! .frozen/                             the tree of one moment, for a backup; emptied at open
//! ```

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use grip_types::{Identifier, RepoAddr};

use crate::disk;

/// The directory of contributor repositories, and of their records.
pub(crate) const CONTRIBUTORS: &str = ".prs";

/// Says whether a directory is named as an owner is: plain lower-case text.
pub(crate) fn is_npub(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    name.starts_with("npub1") && name.len() <= 100 && name.bytes().all(plain)
}

/// The directories beside those of owners.
const OWN: [&str; 7] = [
    ".objects",
    CONTRIBUTORS,
    ".staged",
    ".quarantine",
    ".archive",
    ".damaged",
    ".frozen",
];

/// Removes all repositories and what belongs to them below `root`, and nothing else. Nobody may use them
/// meanwhile; what a crash leaves is removed by the next call. Blocks.
pub fn remove_all(root: &Path) -> io::Result<()> {
    for (name, kind) in disk::entries(root)? {
        if kind.is_dir() && (is_npub(&name) || OWN.contains(&name.as_str())) {
            fs::remove_dir_all(root.join(name))?;
        }
    }
    Ok(())
}

#[derive(Clone, Debug)]
pub(crate) struct Layout {
    pub(crate) root: PathBuf,
}

impl Layout {
    pub(crate) fn owner(&self, npub: &str) -> PathBuf {
        self.root.join(npub)
    }

    /// The directory of all repositories that `repo` shares its owner with.
    pub(crate) fn owner_of(&self, repo: &RepoAddr) -> PathBuf {
        if repo.is_contributor() {
            self.contributors().join(repo.npub())
        } else {
            self.owner(&repo.npub())
        }
    }

    pub(crate) fn repository(&self, repo: &RepoAddr) -> PathBuf {
        self.owner_of(repo).join(directory(&repo.identifier))
    }

    pub(crate) fn contributors(&self) -> PathBuf {
        self.root.join(CONTRIBUTORS)
    }

    /// A bare repository that never has an object.
    pub(crate) fn empty(&self) -> PathBuf {
        self.contributors().join(".empty.git")
    }

    pub(crate) fn stores(&self) -> PathBuf {
        self.root.join(".objects")
    }

    /// A bare repository without refs, so that git's own commands work in it.
    pub(crate) fn store(&self, identifier: &Identifier) -> PathBuf {
        self.stores().join(directory(identifier))
    }

    pub(crate) fn quarantines(&self) -> PathBuf {
        self.root.join(".quarantine")
    }

    /// Packs of an identifier that were set aside.
    pub(crate) fn damaged(&self, identifier: &Identifier) -> PathBuf {
        self.root.join(".damaged").join(directory(identifier))
    }

    pub(crate) fn frozen(&self) -> PathBuf {
        self.root.join(".frozen")
    }

    pub(crate) fn archive(&self, npub: &str) -> PathBuf {
        self.root.join(".archive").join(npub)
    }
}

pub(crate) fn directory(identifier: &Identifier) -> String {
    format!("{}.git", identifier.encoded())
}

/// The identifier a directory name stands for, encoded or (as others write it) raw.
pub(crate) fn identifier_of(directory: &str) -> Option<Identifier> {
    let stem = directory.strip_suffix(".git")?;
    Identifier::from_encoded(stem)
        .or_else(|_| Identifier::parse(stem))
        .ok()
}

/// What `objects/info/alternates` of a repository says: relative, so that the root can be moved.
pub(crate) fn alternates(identifier: &Identifier) -> String {
    format!("../../../.objects/{}/objects\n", directory(identifier))
}

/// The same of an archived one, which lies two directories deeper.
pub(crate) fn archived_alternates(identifier: &Identifier) -> String {
    format!("../../{}", alternates(identifier))
}
