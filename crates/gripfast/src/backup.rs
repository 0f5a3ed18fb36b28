//! Backups: a directory of blocks by content, and a list of files for each backup.
//!
//! ```text
//! <directory>/
//! ├── gripfast-backup            the format
//! ├── blocks/ab/abcd…            up to 4 MiB of a file, named by BLAKE3; each once
//! └── backups/<time>.json        files of one backup: path, mode, size, blocks
//! ```
//!
//! Packs are immutable and named by their content, so those of an earlier backup are not read again;
//! pages of the event store that did not change are blocks that are there already. Rows of a database
//! server are cut where rows end, at places that their content says, so that one more row moves no block
//! but its own. A backup is its list,
//! which is written last: whatever ends the work before leaves blocks that the next one finds. A block
//! that no list names is read before it is trusted, since it may be half written.
//!
//! Nothing in a backup knows its host name or path: it can be restored to others.

mod blocks;
mod make;
mod objects;
mod restore;
mod sources;

use std::{
    collections::HashMap,
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, bail};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

use self::blocks::{Blocks, Cut, Digest};
pub(crate) use self::{
    make::{Made, make},
    objects::BackupPack,
    restore::{Restored, RowsRestored, Target, check_finished, restore},
    sources::{frozen, stopped},
};

/// What `gripfast-backup` says.
const FORMAT: &str = "gripfast backup 1\n";
const FORMAT_FILE: &str = "gripfast-backup";
/// Beginnings of the names of directories that a backup needs while it is made.
const PASSING: [&str; 2] = [".rows-", ".verify-"];
/// Where rows of a database server are in a backup.
const ROWS: &str = "database/";
/// Files that tell a node from others, the surest first.
const KEYS: [&str; 3] = ["relay.key", "node.key", "node.name"];

/// A directory of backups.
#[derive(Debug)]
pub(crate) struct Directory {
    root: PathBuf,
    blocks: Blocks,
}

/// What one backup consists of.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Snapshot {
    /// Unix seconds.
    pub(crate) made_at: u64,
    /// The version that made it.
    pub(crate) gripfast: String,
    /// The name of the node at that time; it may have another one later.
    pub(crate) url: String,
    /// The database was a server, and the version that made it left that out.
    #[serde(default)]
    pub(crate) is_without_database: bool,
    pub(crate) files: Vec<FileEntry>,
}

/// A file, or a directory that is empty.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct FileEntry {
    /// Below the data directory of a node whose settings say nothing of places.
    pub(crate) path: String,
    pub(crate) mode: u32,
    pub(crate) size: u64,
    /// None for a directory.
    pub(crate) blocks: Option<Vec<Digest>>,
}

impl Snapshot {
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.size).sum()
    }

    pub(crate) fn made_at(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(self.made_at)
    }

    /// Whether both are of one node: it keeps its keys when it gets another name, or is restored
    /// elsewhere.
    fn is_of_same_node(&self, other: &Self) -> bool {
        let same = |key: &&str| Some(self.blocks_of(key)? == other.blocks_of(key)?);
        let same = KEYS.iter().find_map(same);
        same.unwrap_or_else(|| self.url == other.url)
    }

    fn blocks_of(&self, path: &str) -> Option<&Vec<Digest>> {
        let file = self.files.iter().find(|file| file.path == path)?;
        file.blocks.as_ref()
    }

    fn digests(&self) -> impl Iterator<Item = &Digest> {
        self.files
            .iter()
            .flat_map(|file| file.blocks.iter().flatten())
    }
}

impl Directory {
    /// Opens a directory that has backups.
    pub(crate) fn open(root: &Path) -> anyhow::Result<Self> {
        let shown = root.display();
        match fs::read_to_string(root.join(FORMAT_FILE)) {
            Ok(text) if text == FORMAT => {}
            Ok(_) => {
                bail!("the backups in {shown} are of a format that this version does not know")
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                bail!("there are no backups in {shown}")
            }
            Err(error) => return Err(error).with_context(|| format!("cannot read {shown}")),
        }
        Ok(Self {
            root: root.to_owned(),
            blocks: Blocks::new(root.join("blocks")),
        })
    }

    /// Opens a directory, or makes one of an empty or missing directory.
    pub(crate) fn open_or_make(root: &Path) -> anyhow::Result<Self> {
        let shown = root.display();
        let failed = || format!("cannot write to {shown}");
        fs::create_dir_all(root).with_context(failed)?;
        if !root.join(FORMAT_FILE).exists() {
            let is_empty = fs::read_dir(root).with_context(failed)?.next().is_none();
            if !is_empty {
                bail!("{shown} has something else in it than backups: name an empty directory");
            }
            for directory in ["blocks", "backups"] {
                fs::create_dir(root.join(directory)).with_context(failed)?;
            }
            // Last, so that it is only there in a directory that is complete.
            fs::write(root.join(FORMAT_FILE), FORMAT).with_context(failed)?;
        }
        Self::open(root)
    }

    /// The names of all backups, the oldest first.
    pub(crate) fn names(&self) -> anyhow::Result<Vec<String>> {
        let entries = fs::read_dir(self.lists()).context("cannot list the backups")?;
        let mut names = Vec::new();
        for entry in entries {
            let name = entry?.file_name().to_string_lossy().into_owned();
            names.extend(name.strip_suffix(".json").map(str::to_owned));
        }
        names.sort();
        Ok(names)
    }

    pub(crate) fn read(&self, name: &str) -> anyhow::Result<Snapshot> {
        if name.contains(['/', '\0']) || name.starts_with('.') {
            bail!("`{name}` is no name of a backup; `gripfast backup --list` lists them");
        }
        let path = self.lists().join(format!("{name}.json"));
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => bail!(
                "there is no backup {name} in {}; `gripfast backup --list` lists them",
                self.root.display()
            ),
            text => text.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let snapshot: Snapshot = serde_json::from_str(&text)
            .with_context(|| format!("the list {} cannot be read", path.display()))?;
        for file in &snapshot.files {
            if !is_below(&file.path) {
                bail!("the list {} names the path {:?}", path.display(), file.path);
            }
        }
        Ok(snapshot)
    }

    /// The newest backup, with its name.
    pub(crate) fn newest(&self) -> anyhow::Result<Option<(String, Snapshot)>> {
        let Some(name) = self.names()?.pop() else {
            return Ok(None);
        };
        let snapshot = self.read(&name)?;
        Ok(Some((name, snapshot)))
    }

    /// Writes a list once all of its blocks are on the disk; returns its name.
    fn write(&self, snapshot: &Snapshot) -> anyhow::Result<String> {
        sync_file_system(&self.root)?;
        let time = humantime::format_rfc3339_seconds(snapshot.made_at()).to_string();
        let time = time.replace(':', "");
        let is_free = |name: &String| !self.lists().join(format!("{name}.json")).exists();
        let further = (2..).map(|n| format!("{time}-{n}"));
        let mut names = std::iter::once(time.clone()).chain(further);
        let name = names.find(is_free).expect("there is always one more");
        let path = self.lists().join(format!("{name}.json"));
        let half = path.with_extension("half");
        fs::write(&half, serde_json::to_vec(snapshot)?)?;
        fs::File::open(&half)?.sync_all()?;
        fs::rename(&half, &path)?;
        fs::File::open(self.lists())?.sync_all()?;
        Ok(name)
    }

    /// Removes all backups of one node but the newest `keep`, and the blocks that no other one names;
    /// returns how many backups went. Those of other nodes in the same directory stay.
    pub(crate) fn prune(&self, keep: usize, of: &Snapshot) -> anyhow::Result<usize> {
        let (mut own, mut needed) = (Vec::new(), HashMap::new());
        for name in self.names()? {
            let snapshot = self.read(&name)?;
            if snapshot.is_of_same_node(of) {
                own.push(name);
            } else {
                needed.extend(snapshot.digests().map(|digest| (*digest, ())));
            }
        }
        let kept = own.split_off(own.len().saturating_sub(keep));
        for name in &own {
            fs::remove_file(self.lists().join(format!("{name}.json")))?;
        }
        fs::File::open(self.lists())?.sync_all()?;
        for name in &kept {
            needed.extend(self.read(name)?.digests().map(|digest| (*digest, ())));
        }
        self.blocks.retain(|digest| needed.contains_key(digest))?;
        Ok(own.len())
    }

    /// The right to write here, for one at a time: [`Self::prune`] removes blocks that no list names,
    /// such as those of a backup under way. What one that was killed left beside its blocks goes.
    pub(crate) fn lock(&self) -> anyhow::Result<fs::File> {
        let file = fs::File::open(self.root.join(FORMAT_FILE))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            bail!("another backup to {} is under way", self.root.display());
        }
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if PASSING.iter().any(|begin| name.starts_with(begin)) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(file)
    }

    /// A directory for rows of the database, removed on drop.
    pub(crate) fn rows_dir(&self) -> anyhow::Result<TempDir> {
        self.passing_dir(PASSING[0])
    }

    /// A directory to restore a backup to, removed on drop.
    pub(crate) fn verify_dir(&self) -> anyhow::Result<TempDir> {
        self.passing_dir(PASSING[1])
    }

    fn passing_dir(&self, begin: &str) -> anyhow::Result<TempDir> {
        let made = tempfile::Builder::new()
            .prefix(begin)
            .tempdir_in(&self.root);
        made.with_context(|| format!("cannot write to {}", self.root.display()))
    }

    fn lists(&self) -> PathBuf {
        self.root.join("backups")
    }
}

/// Where the file of a backup is parted into blocks.
fn cut(path: &str) -> Cut {
    if path.starts_with(ROWS) {
        Cut::Lines
    } else {
        Cut::Even
    }
}

/// Whether a path stays below where it is joined to.
fn is_below(path: &str) -> bool {
    let is_plain = |part: &str| !matches!(part, "" | "." | "..") && !part.contains('\0');
    path.split('/').all(is_plain)
}

fn sync_file_system(path: &Path) -> io::Result<()> {
    let directory = fs::File::open(path)?;
    rustix::fs::syncfs(&directory)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_backup_at_a_time_is_written_to_a_place() {
        let dir = tempfile::tempdir().unwrap();
        let one = Directory::open_or_make(dir.path()).unwrap();
        let alone = one.lock().unwrap();
        let other = Directory::open(dir.path()).unwrap();
        let error = other.lock().unwrap_err().to_string();
        assert!(error.contains("is under way"), "{error}");
        // Killed: what it needed meanwhile is left behind.
        let left = one.verify_dir().unwrap().keep();
        drop(alone);
        assert!(other.lock().is_ok());
        assert!(!left.exists());
    }
}
