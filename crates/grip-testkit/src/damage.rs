//! Kinds of damage to a repository on disk, and what a repair can make of each.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

use crate::{Node, Project, git};

/// One kind of damage.
#[derive(Clone, Copy, Debug)]
pub struct Damage {
    pub name: &'static str,
    pub repair: Repair,
    /// A start notices it, which looks at the ends of files alone.
    pub shows_at_start: bool,
    harm: fn(&Files) -> Result<()>,
}

impl Damage {
    /// Does it to the files of a repository.
    pub fn harm(&self, files: &Files) -> Result<()> {
        (self.harm)(files).with_context(|| format!("staging {}", self.name))
    }
}

/// What brings a damaged repository back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repair {
    /// Nobody: it is mended as soon as the repository is read, also by a check.
    WhenRead,
    /// Events say what was there; all objects are.
    ByEvents,
    /// Its objects have to be fetched from another server.
    ByFetch,
    /// A person: it is named, and nothing of it is touched.
    ByHand,
    /// Nobody: it is in nobody's way, and stays as it is.
    Needless,
}

/// Where a node keeps a repository.
#[derive(Clone, Debug)]
pub struct Files {
    /// Its refs, HEAD and configuration.
    pub repository: PathBuf,
    /// The objects of its identifier.
    pub objects: PathBuf,
    root: PathBuf,
}

impl Files {
    pub fn of(project: &Project, node: &Node) -> Self {
        Self::new(&node.data_dir(), &project.owner.npub(), &project.identifier)
    }

    /// The files of a repository below `/prs/`, which has its objects itself.
    pub fn of_contributor(data: &Path, npub: &str, name: &str) -> Self {
        let root = data.join("git");
        let repository = root.join(".prs").join(npub).join(format!("{name}.git"));
        Self {
            objects: repository.join("objects"),
            repository,
            root,
        }
    }

    /// The files of `npub`'s repository `name` in a data directory.
    pub fn new(data: &Path, npub: &str, name: &str) -> Self {
        let root = data.join("git");
        Self {
            repository: root.join(npub).join(format!("{name}.git")),
            objects: root.join(format!(".objects/{name}.git/objects")),
            root,
        }
    }

    fn packs(&self) -> PathBuf {
        self.objects.join("pack")
    }

    /// The first file of a pack with this extension.
    fn pack(&self, extension: &str) -> Result<PathBuf> {
        let entries = fs::read_dir(self.packs())?.collect::<Result<Vec<_>, _>>()?;
        let mut files = entries.iter().map(fs::DirEntry::path);
        let found = files.find(|path| path.extension().is_some_and(|it| it == extension));
        found.with_context(|| format!("no .{extension} file"))
    }

    /// Says whether the repository can read an object.
    pub async fn has(&self, oid: &str) -> Result<bool> {
        Ok(git::run(&self.repository, ["cat-file", "-e", oid])
            .await?
            .ok)
    }

    /// Every file of the repository and its store with its content, by path.
    pub fn contents(&self) -> Result<Vec<(PathBuf, Vec<u8>)>> {
        let mut all = Vec::new();
        collect(&self.repository, &mut all)?;
        if !self.objects.starts_with(&self.repository) {
            collect(&self.objects, &mut all)?;
        }
        all.sort();
        Ok(all)
    }
}

fn collect(dir: &Path, all: &mut Vec<(PathBuf, Vec<u8>)>) -> Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, all)?;
        } else {
            let content = fs::read(&path)?;
            all.push((path, content));
        }
    }
    Ok(())
}

fn make_writable(path: &Path) -> Result<()> {
    if path.exists() {
        fs::set_permissions(path, fs::Permissions::from_mode(0o640))?;
    }
    Ok(())
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    make_writable(path)?;
    Ok(fs::write(path, bytes)?)
}

fn cut(path: &Path, length: u64) -> Result<()> {
    make_writable(path)?;
    let file = fs::File::options().write(true).open(path)?;
    Ok(file.set_len(length)?)
}

fn append(path: &Path, bytes: &[u8]) -> Result<()> {
    make_writable(path)?;
    let mut file = fs::File::options().append(true).open(path)?;
    Ok(file.write_all(bytes)?)
}

/// Flips a bit this far into the file, in parts of a hundred.
fn flip(path: &Path, percent: usize) -> Result<()> {
    let mut bytes = fs::read(path)?;
    let at = bytes.len() * percent / 100;
    bytes[at] ^= 0x10;
    write(path, &bytes)
}

fn remove(path: PathBuf) -> Result<()> {
    Ok(fs::remove_file(path)?)
}

fn remove_dir(path: &Path) -> Result<()> {
    Ok(fs::remove_dir_all(path)?)
}

const SHA256: &[u8] = b"[core]\n\trepositoryformatversion = 1\n\tbare = true\n\
                        [extensions]\n\tobjectformat = sha256\n";
const REFTABLE: &[u8] = b"[core]\n\trepositoryformatversion = 1\n\tbare = true\n\
                          [extensions]\n\trefstorage = reftable\n";
/// A repository of stock git, which has its objects itself.
const STOCK: &[u8] = b"[core]\n\tbare = true\n";

const fn kind(name: &'static str, repair: Repair, harm: fn(&Files) -> Result<()>) -> Damage {
    Damage {
        name,
        repair,
        shows_at_start: true,
        harm,
    }
}

/// A kind that only reading everything can find.
const fn hidden(name: &'static str, repair: Repair, harm: fn(&Files) -> Result<()>) -> Damage {
    Damage {
        shows_at_start: false,
        ..kind(name, repair, harm)
    }
}

/// Everything that can be done to a repository, one kind a line.
#[rustfmt::skip]
pub const DAMAGE: &[Damage] = &[
    kind("pack missing", Repair::ByFetch, |f| remove(f.pack("pack")?)),
    kind("pack and index missing", Repair::ByFetch, |f| { remove(f.pack("pack")?)?; remove(f.pack("idx")?) }),
    kind("pack cut short", Repair::ByFetch, |f| cut(&f.pack("pack")?, 40)),
    kind("pack empty", Repair::ByFetch, |f| cut(&f.pack("pack")?, 0)),
    kind("pack is no pack", Repair::ByFetch, |f| write(&f.pack("pack")?, &[7; 4096])),
    hidden("bit flipped in a pack", Repair::ByFetch, |f| flip(&f.pack("pack")?, 50)),
    hidden("bit flipped in the checksum of a pack", Repair::ByFetch, |f| flip(&f.pack("pack")?, 99)),
    kind("index missing", Repair::ByFetch, |f| remove(f.pack("idx")?)),
    kind("index cut short", Repair::ByFetch, |f| cut(&f.pack("idx")?, 100)),
    kind("index empty", Repair::ByFetch, |f| cut(&f.pack("idx")?, 0)),
    kind("index of another pack", Repair::ByFetch, |f| write(&f.pack("idx")?, &[7; 4096])),
    kind("directory in the place of a pack", Repair::ByEvents, |f| Ok(fs::create_dir_all(f.packs().join("pack-1.pack"))?)),
    kind("all packs missing", Repair::ByFetch, |f| remove_dir(&f.packs())),
    kind("store missing", Repair::ByFetch, |f| remove_dir(f.objects.parent().context("a store")?)),
    kind("store without objects", Repair::ByFetch, |f| remove_dir(&f.objects)),
    kind("packed-refs garbled", Repair::ByEvents, |f| write(&f.repository.join("packed-refs"), b"\x00\x01garbage\n")),
    kind("packed-refs missing", Repair::ByEvents, |f| remove(f.repository.join("packed-refs"))),
    kind("packed-refs empty", Repair::ByEvents, |f| cut(&f.repository.join("packed-refs"), 0)),
    kind("packed-refs with a ref to nothing", Repair::ByEvents, |f| append(&f.repository.join("packed-refs"), format!("{} refs/heads/zz\n", "1".repeat(40)).as_bytes())),
    kind("HEAD missing", Repair::ByEvents, |f| remove(f.repository.join("HEAD"))),
    kind("HEAD garbled", Repair::ByEvents, |f| write(&f.repository.join("HEAD"), b"nonsense")),
    kind("HEAD empty", Repair::ByEvents, |f| cut(&f.repository.join("HEAD"), 0)),
    kind("repository missing", Repair::ByEvents, |f| remove_dir(&f.repository)),
    kind("alternates missing", Repair::WhenRead, |f| remove(f.repository.join("objects/info/alternates"))),
    // Refs are replaced by renames, under locks in memory; git's own locks are removed before it writes.
    kind("locks of git that was killed", Repair::Needless, |f| {
        let own = ["packed-refs.lock", "HEAD.lock", "config.lock"].map(|name| f.repository.join(name));
        own.iter().try_for_each(|path| write(path, b""))?;
        write(&f.packs().join("multi-pack-index.lock"), b"")
    }),
    kind("object format of another kind", Repair::ByHand, |f| write(&f.repository.join("config"), SHA256)),
    kind("refs kept in another way", Repair::ByHand, |f| write(&f.repository.join("config"), REFTABLE)),
    kind("foreign alternates", Repair::ByHand, |f| {
        write(&f.repository.join("config"), STOCK)?;
        write(&f.repository.join("objects/info/alternates"), b"/elsewhere/objects\n")
    }),
    kind("symbolic link in its place", Repair::ByHand, |f| {
        let aside = tempfile::Builder::new().prefix("aside-").tempdir_in(&f.root)?.keep();
        fs::rename(&f.repository, aside.join("moved"))?;
        Ok(symlink(aside.join("moved"), &f.repository)?)
    }),
];
