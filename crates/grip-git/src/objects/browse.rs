//! Commits, directories and changes as people read them.
//!
//! Invariant: every walk ends at a bound of its caller, whatever the objects name.

use std::{
    ops::ControlFlow,
    time::{Duration, Instant},
};

use gix_diff::tree::{Recorder, Visit, recorder, visit};
use gix_object::{TreeRefIter, bstr::BStr};
use gix_traverse::commit::{
    Simple,
    simple::{CommitTimeOrder, Sorting},
};
use grip_types::Oid;

use super::{ObjectKind, ReadError, Reader, commits::time_ms, gix_id};

/// Largest commit shown.
const MAX_COMMIT_BYTES: u64 = 1 << 20;
/// How long two commits are compared: directories may be deep and large.
const MAX_COMPARE_TIME: Duration = Duration::from_secs(2);
/// Commits between two looks at the clock.
const CLOCK_EVERY: usize = 256;

/// A commit with all that its author wrote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitDetails {
    pub oid: Oid,
    pub tree: Oid,
    pub parents: Vec<Oid>,
    pub author: Person,
    pub committer: Person,
    /// Bytes that are no UTF-8 are replaced.
    pub message: String,
}

impl CommitDetails {
    /// The first line of the message.
    pub fn subject(&self) -> &str {
        self.message.lines().next().unwrap_or_default()
    }

    /// The message without its first line.
    pub fn body(&self) -> &str {
        let body = self.message.split_once('\n').map_or("", |(_, body)| body);
        body.trim_matches('\n')
    }
}

/// Somebody as a commit names him, and when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Person {
    pub name: String,
    pub email: String,
    /// Milliseconds since 1970; 0 for what is no time.
    pub at_ms: i64,
}

/// What an entry of a directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    Directory,
    File,
    Executable,
    Symlink,
    /// A commit of another repository.
    Submodule,
}

impl EntryKind {
    /// Whether its object is a blob.
    pub fn is_blob(self) -> bool {
        matches!(self, Self::File | Self::Executable | Self::Symlink)
    }
}

impl From<gix_object::tree::EntryKind> for EntryKind {
    fn from(kind: gix_object::tree::EntryKind) -> Self {
        use gix_object::tree::EntryKind as Gix;
        match kind {
            Gix::Tree => Self::Directory,
            Gix::Blob => Self::File,
            Gix::BlobExecutable => Self::Executable,
            Gix::Link => Self::Symlink,
            Gix::Commit => Self::Submodule,
        }
    }
}

/// The object that a path of a commit leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathEntry {
    pub kind: EntryKind,
    pub oid: Oid,
}

/// One line of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    pub name: Vec<u8>,
    pub kind: EntryKind,
    pub oid: Oid,
    /// Of a file, where it could be read.
    pub size: Option<u64>,
}

/// The first entries of a directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    pub entries: Vec<DirectoryEntry>,
    /// Listed or not.
    pub total: usize,
}

/// One side of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    pub kind: EntryKind,
    pub oid: Oid,
}

/// A path that differs between two commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub path: Vec<u8>,
    pub before: Option<Version>,
    pub after: Option<Version>,
}

/// The paths that differ between two commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    pub changes: Vec<Change>,
    /// There are more than were asked for.
    pub is_cut: bool,
}

impl Reader {
    /// The commit that `oid` is; `None` for any other object.
    pub(crate) fn details(&self, oid: &Oid) -> Result<Option<CommitDetails>, ReadError> {
        let Some(facts) = self.commit(oid)?.filter(|facts| facts.oid == *oid) else {
            return Ok(None);
        };
        let text = self.contents(oid, ObjectKind::Commit, MAX_COMMIT_BYTES)?;
        let end = text.windows(2).position(|pair| pair == b"\n\n");
        let message = end.map_or(&b""[..], |end| &text[end + 2..]);
        Ok(Some(CommitDetails {
            oid: *oid,
            tree: facts.tree,
            parents: facts.parents,
            author: person(&text, b"author "),
            committer: person(&text, b"committer "),
            message: String::from_utf8_lossy(message).trim_end().to_owned(),
        }))
    }

    /// The commits that `tips` lead to, newest first: `max` of them at most, and no more than are
    /// found in `time`.
    pub(crate) fn ancestors(
        &self,
        tips: &[Oid],
        max: usize,
        time: Duration,
    ) -> Result<Vec<Oid>, ReadError> {
        let Some(first) = tips.first() else {
            return Ok(Vec::new());
        };
        let began = Instant::now();
        let ids = tips.iter().filter_map(gix_id);
        let order = Sorting::ByCommitTime(CommitTimeOrder::NewestFirst);
        let walk = Simple::new(ids, &self.handle).sorting(order);
        let walk = walk.map_err(|error| ReadError::unusable(first, error))?;
        let mut found = Vec::new();
        for commit in walk.take(max) {
            let commit = commit.map_err(|error| ReadError::unusable(first, error))?;
            found.extend(Oid::from_bytes(commit.id.as_bytes()));
            if found.len().is_multiple_of(CLOCK_EVERY) && began.elapsed() > time {
                break;
            }
        }
        Ok(found)
    }

    /// What `path` is in a commit; the empty path is its top directory.
    pub(crate) fn path_entry(
        &self,
        commit: &Oid,
        path: &str,
    ) -> Result<Option<PathEntry>, ReadError> {
        let tree = self.tree_of(commit)?;
        if path.is_empty() {
            let kind = EntryKind::Directory;
            return Ok(Some(PathEntry { kind, oid: tree }));
        }
        let found = self.entry(&tree, path)?;
        Ok(found.map(|found| PathEntry {
            kind: found.kind.into(),
            oid: found.oid,
        }))
    }

    /// The entries of a directory, directories first; the sizes of those listed are looked up.
    pub(crate) fn listing(&self, tree: &Oid, max: usize) -> Result<Listing, ReadError> {
        let directory = self.directory(tree)?;
        let (mut directories, mut files, mut total) = (Vec::new(), Vec::new(), 0);
        directory.each(|name, entry| {
            total += 1;
            let kind = EntryKind::from(entry.kind);
            let list = if kind == EntryKind::Directory {
                &mut directories
            } else {
                &mut files
            };
            if list.len() < max {
                list.push(DirectoryEntry {
                    name: name.to_owned(),
                    kind,
                    oid: entry.oid,
                    size: None,
                });
            }
            Ok::<_, ReadError>(true)
        })?;
        directories.append(&mut files);
        directories.truncate(max);
        for entry in &mut directories {
            if entry.kind.is_blob() {
                entry.size = self.header(&entry.oid).map(|(_, size)| size);
            }
        }
        Ok(Listing {
            entries: directories,
            total,
        })
    }

    /// The paths that differ between two commits, up to `max` of them; without a `before`, all are
    /// new.
    pub(crate) fn changes(
        &self,
        before: Option<&Oid>,
        after: &Oid,
        max: usize,
    ) -> Result<Changes, ReadError> {
        let tree = |commit: &Oid| {
            let tree = self.tree_of(commit)?;
            self.directory(&tree).map(|directory| directory.contents)
        };
        let before = before.map(tree).transpose()?.unwrap_or_default();
        let after_tree = tree(after)?;
        let iter = |bytes| TreeRefIter::from_bytes(bytes, gix_hash::Kind::Sha1);
        let mut delegate = Bounded {
            recorder: Recorder::default(),
            left: max,
            until: Instant::now() + MAX_COMPARE_TIME,
        };
        let state = gix_diff::tree::State::default();
        let compared = gix_diff::tree(
            iter(&before),
            iter(&after_tree),
            state,
            &self.handle,
            &mut delegate,
        );
        let is_cut = match compared {
            Ok(()) => false,
            Err(gix_diff::tree::Error::Cancelled) => true,
            Err(error) => return Err(ReadError::unusable(after, error)),
        };
        let records = delegate.recorder.records.into_iter();
        let mut changes: Vec<_> = records.filter_map(change).collect();
        changes.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(Changes { changes, is_cut })
    }
}

/// Records changes until there are too many, directories included, or it takes too long.
struct Bounded {
    recorder: Recorder,
    left: usize,
    until: Instant,
}

impl Visit for Bounded {
    fn pop_front_tracked_path_and_set_current(&mut self) {
        self.recorder.pop_front_tracked_path_and_set_current();
    }

    fn push_back_tracked_path_component(&mut self, component: &BStr) {
        self.recorder.push_back_tracked_path_component(component);
    }

    fn push_path_component(&mut self, component: &BStr) {
        self.recorder.push_path_component(component);
    }

    fn pop_path_component(&mut self) {
        self.recorder.pop_path_component();
    }

    fn visit(&mut self, change: visit::Change) -> visit::Action {
        if self.left == 0 || Instant::now() > self.until {
            return ControlFlow::Break(());
        }
        self.left -= 1;
        self.recorder.visit(change)
    }
}

/// A change of a file; those of directories are left out.
fn change(record: recorder::Change) -> Option<Change> {
    let version = |mode: gix_object::tree::EntryMode, oid: gix_hash::ObjectId| {
        let kind = EntryKind::from(mode.kind());
        let oid = Oid::from_bytes(oid.as_bytes()).ok()?;
        (kind != EntryKind::Directory).then_some(Version { kind, oid })
    };
    let (path, before, after) = match record {
        recorder::Change::Addition {
            entry_mode,
            oid,
            path,
            ..
        } => (path, None, version(entry_mode, oid)),
        recorder::Change::Deletion {
            entry_mode,
            oid,
            path,
            ..
        } => (path, version(entry_mode, oid), None),
        recorder::Change::Modification {
            previous_entry_mode,
            previous_oid,
            entry_mode,
            oid,
            path,
        } => (
            path,
            version(previous_entry_mode, previous_oid),
            version(entry_mode, oid),
        ),
    };
    (before.is_some() || after.is_some()).then(|| Change {
        path: path.into(),
        before,
        after,
    })
}

/// The name, address and time of a header line; what is malformed is left empty.
fn person(object: &[u8], field: &[u8]) -> Person {
    let mut headers = object
        .split(|byte| *byte == b'\n')
        .take_while(|line| !line.is_empty());
    let Some(line) = headers.find_map(|line| line.strip_prefix(field)) else {
        return Person::default();
    };
    let open = line.iter().position(|byte| *byte == b'<');
    let close = line.iter().rposition(|byte| *byte == b'>');
    let (name, email) = match (open, close) {
        (Some(open), Some(close)) if open < close => (&line[..open], &line[open + 1..close]),
        _ => (line, &b""[..]),
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    Person {
        name: text(name),
        email: text(email),
        at_ms: time_ms(object, field).unwrap_or(0),
    }
}
