//! Kinds of damage to a data directory, as a table.

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

/// What becomes of a damaged repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// It is as before: nothing was lost, or events say it all.
    Whole,
    /// It is not served, and named; its data is looked for and makes it whole.
    Fetched,
    /// It is not served, and named, until a person has looked at it.
    Named,
}

/// Does the damage.
pub type Harm = fn(&Paths) -> io::Result<()>;

/// Where the files of one repository are.
#[derive(Clone, Debug)]
pub struct Paths {
    /// The repository.
    pub repo: PathBuf,
    /// The packs of its identifier.
    pub packs: PathBuf,
    /// Where all repositories are.
    pub root: PathBuf,
}

const SHA256: &[u8] = b"[core]\n\trepositoryformatversion = 1\n\tbare = true\n\
    [extensions]\n\tobjectformat = sha256\n";
const REFTABLE: &[u8] = b"[core]\n\trepositoryformatversion = 1\n\tbare = true\n\
    [extensions]\n\trefstorage = reftable\n";
/// A repository of stock git, which has its objects itself.
const STOCK: &[u8] = b"[core]\n\tbare = true\n";

/// Kinds of damage, each with what becomes of a repository that suffers it.
pub const DAMAGE: [(&str, Harm, Ends); 24] = [
    (
        "pack missing",
        |p| fs::remove_file(p.pack("pack")?),
        Ends::Fetched,
    ),
    (
        "pack cut short",
        |p| cut(&p.pack("pack")?, 40),
        Ends::Fetched,
    ),
    ("pack empty", |p| cut(&p.pack("pack")?, 0), Ends::Fetched),
    (
        "pack is no pack",
        |p| write(&p.pack("pack")?, &[7; 4096]),
        Ends::Fetched,
    ),
    (
        "index missing",
        |p| fs::remove_file(p.pack("idx")?),
        Ends::Fetched,
    ),
    (
        "index cut short",
        |p| cut(&p.pack("idx")?, 100),
        Ends::Fetched,
    ),
    ("index empty", |p| cut(&p.pack("idx")?, 0), Ends::Fetched),
    (
        "index of another pack",
        |p| write(&p.pack("idx")?, &[7; 4096]),
        Ends::Fetched,
    ),
    (
        "all packs missing",
        |p| fs::remove_dir_all(&p.packs),
        Ends::Fetched,
    ),
    (
        "store without objects",
        |p| fs::remove_dir_all(p.store().join("objects")),
        Ends::Fetched,
    ),
    (
        "store missing",
        |p| fs::remove_dir_all(p.store()),
        Ends::Fetched,
    ),
    (
        "packed-refs garbled",
        |p| write(&p.repo.join("packed-refs"), b"\x00\x01garbage\n"),
        Ends::Whole,
    ),
    (
        "packed-refs missing",
        |p| fs::remove_file(p.repo.join("packed-refs")),
        Ends::Whole,
    ),
    (
        "packed-refs empty",
        |p| cut(&p.repo.join("packed-refs"), 0),
        Ends::Whole,
    ),
    (
        "packed-refs names a missing object",
        |p| {
            let line = format!("{} refs/heads/zz\n", "1".repeat(40));
            append(&p.repo.join("packed-refs"), line.as_bytes())
        },
        Ends::Whole,
    ),
    (
        "HEAD missing",
        |p| fs::remove_file(p.repo.join("HEAD")),
        Ends::Whole,
    ),
    (
        "HEAD garbled",
        |p| write(&p.repo.join("HEAD"), b"nonsense"),
        Ends::Whole,
    ),
    ("HEAD empty", |p| cut(&p.repo.join("HEAD"), 0), Ends::Whole),
    (
        "repository missing",
        |p| fs::remove_dir_all(&p.repo),
        Ends::Whole,
    ),
    (
        "alternates missing",
        |p| fs::remove_file(p.repo.join("objects/info/alternates")),
        Ends::Whole,
    ),
    (
        "sha256",
        |p| write(&p.repo.join("config"), SHA256),
        Ends::Named,
    ),
    (
        "reftable",
        |p| write(&p.repo.join("config"), REFTABLE),
        Ends::Named,
    ),
    (
        "foreign alternates",
        |p| {
            write(&p.repo.join("config"), STOCK)?;
            let alternates = p.repo.join("objects/info/alternates");
            write(&alternates, b"/elsewhere/objects\n")
        },
        Ends::Named,
    ),
    (
        "symbolic link in its place",
        |p| {
            let aside = p.root.join("aside");
            fs::rename(&p.repo, &aside)?;
            symlink(&aside, &p.repo)
        },
        Ends::Named,
    ),
];

impl Paths {
    /// The files of `npub`'s repository `name` in a data directory.
    pub fn new(data: &Path, npub: &str, name: &str) -> Self {
        let root = data.join("git");
        Self {
            repo: root.join(npub).join(format!("{name}.git")),
            packs: root.join(format!(".objects/{name}.git/objects/pack")),
            root,
        }
    }

    fn store(&self) -> &Path {
        let objects = self.packs.parent().and_then(Path::parent);
        objects.expect("packs are in a store")
    }

    /// Some file of a pack.
    fn pack(&self, extension: &str) -> io::Result<PathBuf> {
        for entry in fs::read_dir(&self.packs)? {
            let path = entry?.path();
            if path.extension().is_some_and(|it| it == extension) {
                return Ok(path);
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }
}

fn cut(path: &Path, to: u64) -> io::Result<()> {
    make_writable(path)?;
    fs::OpenOptions::new().write(true).open(path)?.set_len(to)
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if path.exists() {
        make_writable(path)?;
    }
    fs::write(path, bytes)
}

fn append(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = fs::OpenOptions::new().append(true).open(path)?;
    file.write_all(bytes)
}

#[expect(
    clippy::permissions_set_readonly_false,
    reason = "packs are read-only files of a test"
)]
fn make_writable(path: &Path) -> io::Result<()> {
    let mut permissions = fs::metadata(path)?.permissions();
    permissions.set_readonly(false);
    fs::set_permissions(path, permissions)
}
