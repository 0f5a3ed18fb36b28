//! Objects of an identifier: their kinds, commits, tags, files and trees.
//!
//! All of it blocks, and all of it has a bound on the memory it takes. An object that is missing
//! is an error of its own wherever something else in the store says that it should be there, so
//! that nobody takes a gap for a file that was never written.

use std::{io, time::Duration};

use grip_types::{Identifier, Oid};

use crate::{
    disk,
    objects::{
        Changes, CommitDetails, CommitFacts, Cut, FileAt, Listing, ObjectKind, PathEntry,
        ReadError, Reader, TagFacts, TreeBounds, TreeEntry, TreeError,
    },
};

use super::{RepoError, Repositories, unreachable_objects};
use crate::packs::DamagedPack;

/// Looks at a store whose packs change; each change is a repack or a push.
const MAX_LOOKS: usize = 5;
/// Digits of an abbreviated id that are enough to ask for it.
const MIN_PREFIX: usize = 7;

impl Repositories {
    /// What each object is; `None` for those that are not in the identifier's store.
    pub fn kinds(
        &self,
        identifier: &Identifier,
        oids: &[Oid],
    ) -> Result<Vec<Option<ObjectKind>>, RepoError> {
        let kinds = self.inner.packs.kinds(identifier, oids);
        kinds.map_err(|source| unreachable_objects(identifier, source))
    }

    /// Bytes of the packs of an identifier; 0 if they cannot be read. Blocking.
    pub fn object_bytes(&self, identifier: &Identifier) -> u64 {
        let size = self.inner.packs.size(identifier);
        size.map_or(0, |size| size.bytes)
    }

    /// The damaged packs of an identifier, as far as their ends show it. Blocking.
    pub fn damaged_packs(&self, identifier: &Identifier) -> Result<Vec<DamagedPack>, RepoError> {
        let _turn = self.inner.lock(identifier);
        let damaged = self.inner.packs.damaged(identifier);
        damaged.map_err(|source| unreachable_objects(identifier, source))
    }

    /// Has a store for an identifier, whole but for its objects. Blocking.
    pub fn ensure_store(&self, identifier: &Identifier) -> Result<(), RepoError> {
        let _turn = self.inner.lock(identifier);
        let made = self.inner.packs.ensure(identifier);
        made.map_err(|source| unreachable_objects(identifier, source))
    }

    /// Moves damaged packs out of the store, so that their objects count as missing. Blocking.
    pub fn set_aside(
        &self,
        identifier: &Identifier,
        packs: &[DamagedPack],
    ) -> Result<(), RepoError> {
        let _turn = self.inner.lock(identifier);
        let moved = self.inner.packs.set_aside(identifier, packs);
        moved.map_err(|source| unreachable_objects(identifier, source))
    }

    /// The commit that `oid` is or, as an annotated tag, leads to.
    ///
    /// `None` if it is not here, and if it is or leads to something else.
    pub fn commit(
        &self,
        identifier: &Identifier,
        oid: &Oid,
    ) -> Result<Option<CommitFacts>, RepoError> {
        let found = self.read(identifier, |reader| reader.commit(oid));
        none_if_absent(identifier, oid, found)
    }

    /// What a tag says whose ref names `oid`, a commit or an annotated tag; `None` as in
    /// [`Repositories::commit`].
    pub fn tagged(
        &self,
        identifier: &Identifier,
        oid: &Oid,
    ) -> Result<Option<TagFacts>, RepoError> {
        let found = self.read(identifier, |reader| reader.tagged(oid));
        none_if_absent(identifier, oid, found)
    }

    /// The one commit whose id begins with `prefix`: 7 to 40 lower-case hex digits.
    ///
    /// `None` if there are several or none, and if `prefix` is no such text. Other objects that
    /// begin the same do not count.
    pub fn expand(&self, identifier: &Identifier, prefix: &str) -> Result<Option<Oid>, RepoError> {
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let fits = (MIN_PREFIX..=40).contains(&prefix.len()) && prefix.bytes().all(is_hex);
        if !fits {
            return Ok(None);
        }
        let look = |reader: &Reader| reader.expand(prefix);
        match self
            .inner
            .packs
            .look(identifier, MAX_LOOKS, look, Option::is_none)
        {
            Err(error) if disk::is_absent(&error) => Ok(None),
            found => found.map_err(|source| unreachable_objects(identifier, source)),
        }
    }

    /// The file at `path` in a commit, if it has at most `max_bytes`; its size is asked first.
    ///
    /// Symbolic links are not followed. A commit that is not here is an error.
    pub fn file(
        &self,
        identifier: &Identifier,
        commit: &Oid,
        path: &str,
        max_bytes: u64,
    ) -> Result<FileAt, RepoError> {
        let found = self.read(identifier, |reader| {
            reader.file(&reader.tree_of(commit)?, path, max_bytes)
        });
        found.map_err(|failure| failure.of(commit).into_error(identifier))
    }

    /// The contents of a blob, whole, if it has at most `max_bytes`; its size is asked first.
    ///
    /// Never [`FileAt::Missing`]: a blob that is not here is an error, as is what is no blob.
    pub fn blob(
        &self,
        identifier: &Identifier,
        oid: &Oid,
        max_bytes: u64,
    ) -> Result<FileAt, RepoError> {
        let found = self.read(identifier, |reader| reader.blob(oid, max_bytes));
        found.map_err(|failure| failure.of(oid).into_error(identifier))
    }

    /// Every file below the directory `dir` of a commit, by path; an empty `dir` is all of it.
    ///
    /// Directories are counted and looked into but not listed.
    pub fn tree(
        &self,
        identifier: &Identifier,
        commit: &Oid,
        dir: &str,
        bounds: TreeBounds,
    ) -> Result<Vec<TreeEntry>, TreeError> {
        let found = self.read(identifier, |reader| list(reader, commit, dir, bounds));
        found.map_err(|failure| failure.of(commit).into_error(identifier))?
    }

    /// A commit with its message; `None` if it is not here or something else.
    pub fn details(
        &self,
        identifier: &Identifier,
        oid: &Oid,
    ) -> Result<Option<CommitDetails>, RepoError> {
        let found = self.read(identifier, |reader| reader.details(oid));
        none_if_absent(identifier, oid, found)
    }

    /// The commits that `tips` lead to, newest first: `max` of them at most, and no more than are
    /// found in `time`.
    pub fn ancestors(
        &self,
        identifier: &Identifier,
        tips: &[Oid],
        max: usize,
        time: Duration,
    ) -> Result<Vec<Oid>, RepoError> {
        let found = self.read(identifier, |reader| reader.ancestors(tips, max, time));
        found.map_err(|failure| failure.into_error(identifier))
    }

    /// What `path` is in a commit; the empty path is its top directory. A commit that is not here
    /// is an error.
    pub fn path_entry(
        &self,
        identifier: &Identifier,
        commit: &Oid,
        path: &str,
    ) -> Result<Option<PathEntry>, RepoError> {
        let found = self.read(identifier, |reader| reader.path_entry(commit, path));
        found.map_err(|failure| failure.of(commit).into_error(identifier))
    }

    /// The first `max` entries of a directory by its id, directories first.
    pub fn listing(
        &self,
        identifier: &Identifier,
        tree: &Oid,
        max: usize,
    ) -> Result<Listing, RepoError> {
        let found = self.read(identifier, |reader| reader.listing(tree, max));
        found.map_err(|failure| failure.of(tree).into_error(identifier))
    }

    /// The files that differ between two commits, by path. `max` bounds how many files and
    /// directories are looked at; without a `before`, all files are new.
    pub fn changes(
        &self,
        identifier: &Identifier,
        before: Option<&Oid>,
        after: &Oid,
        max: usize,
    ) -> Result<Changes, RepoError> {
        let found = self.read(identifier, |reader| reader.changes(before, after, max));
        found.map_err(|failure| failure.of(after).into_error(identifier))
    }

    fn read<T>(
        &self,
        identifier: &Identifier,
        read: impl Fn(&Reader) -> Result<T, ReadError>,
    ) -> Result<T, Failure> {
        let is_doubtful =
            |read: &Result<T, ReadError>| read.as_ref().is_err_and(|error| error.is_doubtful());
        let packs = &self.inner.packs;
        let found = packs.look(identifier, MAX_LOOKS, read, is_doubtful);
        found.map_err(Failure::Store)?.map_err(Failure::Object)
    }
}

/// Lists a directory of a commit; a bound that was crossed is no failure to read.
pub(crate) fn list(
    reader: &Reader,
    commit: &Oid,
    dir: &str,
    bounds: TreeBounds,
) -> Result<Result<Vec<TreeEntry>, TreeError>, ReadError> {
    match reader.list(&reader.tree_of(commit)?, dir, bounds) {
        Ok(files) => Ok(Ok(files)),
        Err(Cut::Bound(crossed)) => Ok(Err(crossed)),
        Err(Cut::Read(error)) => Err(error),
    }
}

/// Why nothing was read.
pub(crate) enum Failure {
    Store(io::Error),
    Object(ReadError),
}

impl Failure {
    /// Where there is no store at all, `oid` is not in it.
    fn of(self, oid: &Oid) -> Self {
        match self {
            Self::Store(error) if disk::is_absent(&error) => Self::Object(ReadError::Missing(*oid)),
            other => other,
        }
    }

    pub(crate) fn into_error(self, identifier: &Identifier) -> RepoError {
        let unusable = |oid, reason| RepoError::Unusable {
            identifier: identifier.clone(),
            oid,
            reason,
        };
        match self {
            Self::Store(source) => unreachable_objects(identifier, source),
            Self::Object(ReadError::Missing(oid)) => RepoError::Missing {
                identifier: identifier.clone(),
                oid,
            },
            Self::Object(ReadError::Unusable(oid, reason)) => unusable(oid, reason),
            Self::Object(ReadError::TooLarge(oid, size)) => {
                unusable(oid, format!("its {size} bytes are too many"))
            }
        }
    }
}

fn none_if_absent<T>(
    identifier: &Identifier,
    oid: &Oid,
    found: Result<Option<T>, Failure>,
) -> Result<Option<T>, RepoError> {
    match found.map_err(|failure| failure.of(oid)) {
        Err(Failure::Object(ReadError::Missing(missing))) if missing == *oid => Ok(None),
        found => found.map_err(|failure| failure.into_error(identifier)),
    }
}
