//! Contents of objects, and of files by their path in a commit.

use gix_object::{Find as _, TreeRefIter, tree::EntryKind};
use grip_types::Oid;

use super::{ObjectKind, Reader, gix_id};

/// Largest directory read: hundreds of thousands of entries.
const MAX_TREE_BYTES: u64 = 32 << 20;
/// Bytes of all directories on the way to a path: each may be large, and there may be thousands.
const MAX_PATH_BYTES: usize = 128 << 20;

/// What a path leads to in a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileAt {
    /// The commit has nothing of that name.
    Missing,
    /// A directory, a symbolic link or a submodule.
    NotAFile,
    /// It has this many bytes: more than asked for, or more than can be put together in memory.
    TooLarge(u64),
    Bytes(Vec<u8>),
}

/// Why an object cannot be had.
#[derive(Debug)]
pub(crate) enum ReadError {
    Missing(Oid),
    TooLarge(Oid, u64),
    /// Damaged, malformed or not what it should be.
    Unusable(Oid, String),
}

impl ReadError {
    /// Says whether packs that go away while they are looked at may be the reason.
    pub(crate) fn is_doubtful(&self) -> bool {
        !matches!(self, Self::TooLarge(..))
    }

    pub(crate) fn unusable(oid: &Oid, reason: impl ToString) -> Self {
        Self::Unusable(*oid, reason.to_string())
    }
}

impl Reader {
    /// The kind and size of an object that should be here.
    pub(crate) fn look(&self, oid: &Oid) -> Result<(ObjectKind, u64), ReadError> {
        let id = gix_id(oid).ok_or(ReadError::Missing(*oid))?;
        let header = gix_odb::Header::try_header(&self.handle, &id)
            .map_err(|error| ReadError::unusable(oid, error))?
            .ok_or(ReadError::Missing(*oid))?;
        Ok((header.kind().into(), header.size()))
    }

    /// The contents of an object of this kind; its size is asked before a byte of it is read.
    pub(crate) fn contents(
        &self,
        oid: &Oid,
        kind: ObjectKind,
        max_bytes: u64,
    ) -> Result<Vec<u8>, ReadError> {
        let (is, size) = self.look(oid)?;
        if is != kind {
            return Err(unlike(oid, is, kind));
        }
        if size > max_bytes {
            return Err(ReadError::TooLarge(*oid, size));
        }
        let id = gix_id(oid).ok_or(ReadError::Missing(*oid))?;
        let mut buffer = Vec::new();
        match self.handle.try_find(&id, &mut buffer) {
            Ok(Some(_)) => {
                // Deltas take more room than what they make.
                buffer.shrink_to_fit();
                Ok(buffer)
            }
            Ok(None) => Err(ReadError::Missing(*oid)),
            Err(error) if error.is_resource_exhausted() => Err(ReadError::TooLarge(*oid, size)),
            Err(error) => Err(ReadError::unusable(oid, error)),
        }
    }

    /// The entries of one directory, in the order they are stored.
    pub(crate) fn directory(&self, oid: &Oid) -> Result<Directory, ReadError> {
        let tree = self.contents(oid, ObjectKind::Tree, MAX_TREE_BYTES);
        let contents = tree.map_err(|error| match error {
            ReadError::TooLarge(oid, size) => {
                ReadError::unusable(&oid, format!("a directory of {size} bytes is too large"))
            }
            other => other,
        })?;
        Ok(Directory {
            oid: *oid,
            contents,
        })
    }

    /// The bytes of a blob.
    pub(crate) fn blob_size(&self, oid: &Oid) -> Result<u64, ReadError> {
        match self.look(oid)? {
            (ObjectKind::Blob, size) => Ok(size),
            (other, _) => Err(unlike(oid, other, ObjectKind::Blob)),
        }
    }

    /// The contents of a blob.
    pub(crate) fn blob(&self, oid: &Oid, max_bytes: u64) -> Result<FileAt, ReadError> {
        match self.contents(oid, ObjectKind::Blob, max_bytes) {
            Ok(bytes) => Ok(FileAt::Bytes(bytes)),
            Err(ReadError::TooLarge(_, size)) => Ok(FileAt::TooLarge(size)),
            Err(error) => Err(error),
        }
    }

    /// What `path` leads to from the directory `tree`; symbolic links lead nowhere.
    pub(crate) fn file(&self, tree: &Oid, path: &str, max_bytes: u64) -> Result<FileAt, ReadError> {
        let Some(found) = self.entry(tree, path)? else {
            return Ok(FileAt::Missing);
        };
        match found.kind {
            EntryKind::Blob | EntryKind::BlobExecutable => self.blob(&found.oid, max_bytes),
            EntryKind::Tree | EntryKind::Link | EntryKind::Commit => Ok(FileAt::NotAFile),
        }
    }

    /// What a directory's entry `path`, however deep, is.
    pub(crate) fn entry(&self, tree: &Oid, path: &str) -> Result<Option<Entry>, ReadError> {
        let mut at = Entry {
            kind: EntryKind::Tree,
            oid: *tree,
        };
        let mut read = 0;
        for name in path.split('/') {
            if at.kind != EntryKind::Tree {
                return Ok(None);
            }
            let directory = self.directory(&at.oid)?;
            read += directory.contents.len();
            if read > MAX_PATH_BYTES {
                let reason = "the directories on the way to the path are too large".to_owned();
                return Err(ReadError::unusable(&at.oid, reason));
            }
            match directory.find(name.as_bytes())? {
                Some(found) => at = found,
                None => return Ok(None),
            }
        }
        Ok(Some(at))
    }
}

fn unlike(oid: &Oid, is: ObjectKind, should_be: ObjectKind) -> ReadError {
    let reason = format!("it is a {is:?} where a {should_be:?} should be");
    ReadError::unusable(oid, reason.to_lowercase())
}

/// One thing in a directory.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) kind: EntryKind,
    pub(crate) oid: Oid,
}

/// A directory as it is stored.
pub(crate) struct Directory {
    oid: Oid,
    pub(super) contents: Vec<u8>,
}

impl Directory {
    fn find(&self, name: &[u8]) -> Result<Option<Entry>, ReadError> {
        let mut found = None;
        self.each(|at, entry| {
            found = (at == name).then_some(entry);
            Ok::<_, ReadError>(found.is_none())
        })?;
        Ok(found)
    }

    /// Hands every entry with its name to `see`, as long as it wants more.
    ///
    /// Names that would lead to another place than one below the directory are an error.
    pub(crate) fn each<E: From<ReadError>>(
        &self,
        mut see: impl FnMut(&[u8], Entry) -> Result<bool, E>,
    ) -> Result<(), E> {
        for entry in TreeRefIter::from_bytes(&self.contents, gix_hash::Kind::Sha1) {
            let entry = entry.map_err(|_| self.malformed("a directory that ends too early"))?;
            let name: &[u8] = entry.filename.as_ref();
            if matches!(name, b"" | b"." | b"..") || name.contains(&b'/') {
                return Err(self
                    .malformed("a directory with a name that is none")
                    .into());
            }
            let oid = Oid::from_bytes(entry.oid.as_bytes());
            let oid = oid.map_err(|_| self.malformed("a directory with a broken id"))?;
            let kind = entry.mode.kind();
            if !see(name, Entry { kind, oid })? {
                break;
            }
        }
        Ok(())
    }

    fn malformed(&self, reason: &str) -> ReadError {
        ReadError::unusable(&self.oid, reason)
    }
}
