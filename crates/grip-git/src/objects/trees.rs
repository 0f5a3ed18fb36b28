//! Tree listings: all files below a directory.
//!
//! Invariant: work and memory have a bound, whatever the directories hold. A few small ones that
//! name each other several times stand for more files than there is room for.

use std::time::{Duration, Instant};

use gix_object::tree::EntryKind;
use grip_types::Oid;

use crate::repositories::RepoError;

use super::{
    ReadError, Reader,
    files::{Directory, Entry},
};

/// Where a listing ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TreeBounds {
    /// Files and directories, together; default 100,000.
    pub entries: usize,
    /// Directories within each other; default 128.
    pub depth: usize,
    /// Bytes of all paths together, those of directories too; default 16 MiB.
    pub path_bytes: usize,
    /// How long it may take, for objects can be made so that each is a lot of work; default 60 s.
    pub time: Duration,
}

impl Default for TreeBounds {
    fn default() -> Self {
        Self {
            entries: 100_000,
            depth: 128,
            path_bytes: 16 << 20,
            time: Duration::from_secs(60),
        }
    }
}

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FileKind {
    File,
    Executable,
    Symlink,
    /// A commit of another repository.
    Submodule,
}

/// A file below a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeEntry {
    /// From the directory that was listed; never empty, no part of it empty, `.` or `..`.
    pub path: Vec<u8>,
    pub kind: FileKind,
    pub oid: Oid,
    /// The file's bytes; 0 for a submodule, which is not here.
    pub size: u64,
}

/// Why there is no listing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TreeError {
    #[error(transparent)]
    Repo(#[from] RepoError),
    #[error("there is no directory {0:?} in the commit")]
    NoDirectory(String),
    #[error("there are more than {0} files and directories")]
    TooMany(usize),
    #[error("there are more than {0} directories within each other")]
    TooDeep(usize),
    #[error("all paths together have more than {0} bytes")]
    PathsTooLong(usize),
    #[error("listing the files takes more than {0:?}")]
    TooSlow(Duration),
}

/// Why a walk ended before its end.
pub(crate) enum Cut {
    Bound(TreeError),
    Read(ReadError),
}

impl From<ReadError> for Cut {
    fn from(error: ReadError) -> Self {
        Self::Read(error)
    }
}

impl Reader {
    /// The files below the directory `dir` of `tree`, by path; an empty `dir` is `tree` itself.
    pub(crate) fn list(
        &self,
        tree: &Oid,
        dir: &str,
        bounds: TreeBounds,
    ) -> Result<Vec<TreeEntry>, Cut> {
        let top = match dir {
            "" => Some(*tree),
            dir => self.entry(tree, dir)?.and_then(|entry| {
                let is_directory = entry.kind == EntryKind::Tree;
                is_directory.then_some(entry.oid)
            }),
        };
        let top = top.ok_or_else(|| Cut::Bound(TreeError::NoDirectory(dir.to_owned())))?;
        let mut walk = Walk::new(self, bounds);
        walk.run(top)?;
        walk.files.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(walk.files)
    }
}

/// A directory that is still to be looked at.
struct Pending {
    path: Vec<u8>,
    depth: usize,
    oid: Oid,
}

struct Walk<'a> {
    reader: &'a Reader,
    bounds: TreeBounds,
    began: Instant,
    entries: usize,
    path_bytes: usize,
    /// At most as many as entries were counted.
    pending: Vec<Pending>,
    files: Vec<TreeEntry>,
}

impl<'a> Walk<'a> {
    fn new(reader: &'a Reader, bounds: TreeBounds) -> Self {
        Self {
            reader,
            bounds,
            began: Instant::now(),
            entries: 0,
            path_bytes: 0,
            pending: Vec::new(),
            files: Vec::new(),
        }
    }

    /// One directory in memory at a time.
    fn run(&mut self, top: Oid) -> Result<(), Cut> {
        let directory = self.reader.directory(&top)?;
        self.visit(b"", 0, &directory)?;
        while let Some(next) = self.pending.pop() {
            let directory = self.reader.directory(&next.oid)?;
            self.visit(&next.path, next.depth, &directory)?;
        }
        Ok(())
    }

    fn visit(&mut self, prefix: &[u8], depth: usize, directory: &Directory) -> Result<(), Cut> {
        directory.each(|name, entry| {
            let path = match prefix {
                b"" => name.to_vec(),
                prefix => [prefix, b"/", name].concat(),
            };
            self.count(path.len())?;
            self.add(path, depth, entry)?;
            Ok(true)
        })
    }

    fn count(&mut self, path_bytes: usize) -> Result<(), Cut> {
        self.entries += 1;
        self.path_bytes += path_bytes;
        let crossed = if self.entries > self.bounds.entries {
            TreeError::TooMany(self.bounds.entries)
        } else if self.path_bytes > self.bounds.path_bytes {
            TreeError::PathsTooLong(self.bounds.path_bytes)
        } else if self.began.elapsed() > self.bounds.time {
            TreeError::TooSlow(self.bounds.time)
        } else {
            return Ok(());
        };
        Err(Cut::Bound(crossed))
    }

    fn add(&mut self, path: Vec<u8>, depth: usize, entry: Entry) -> Result<(), Cut> {
        let oid = entry.oid;
        let kind = match entry.kind {
            EntryKind::Blob => FileKind::File,
            EntryKind::BlobExecutable => FileKind::Executable,
            EntryKind::Link => FileKind::Symlink,
            EntryKind::Commit => FileKind::Submodule,
            EntryKind::Tree if depth >= self.bounds.depth => {
                return Err(Cut::Bound(TreeError::TooDeep(self.bounds.depth)));
            }
            EntryKind::Tree => {
                let depth = depth + 1;
                self.pending.push(Pending { path, depth, oid });
                return Ok(());
            }
        };
        let size = match kind {
            FileKind::Submodule => 0,
            _ => self.reader.blob_size(&oid)?,
        };
        self.files.push(TreeEntry {
            path,
            kind,
            oid,
            size,
        });
        Ok(())
    }
}
