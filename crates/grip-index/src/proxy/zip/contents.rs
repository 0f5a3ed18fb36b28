//! Files of a module zip.

use std::{
    io::{self, Read},
    sync::Arc,
};

use bytes::{Buf, Bytes, buf::Reader};
use grip_git::{FileAt, FileKind, RepoError, TreeBounds, TreeEntry, TreeError};
use grip_go::{
    Module,
    zip::{Entry, Kind, MAX_LICENSE_BYTES},
};
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
};

use super::super::ProxyError;
use super::MAX_FILE_BYTES;
use crate::{GoMod, commit_files::CommitFiles};

const LICENSE: &[u8] = b"LICENSE";

/// What is in the directory of a module.
pub(super) struct Contents<'a> {
    commit: &'a dyn CommitFiles,
    memory: &'a Arc<Semaphore>,
    /// The text of its go.mod; empty if it has none.
    pub(super) go_mod: Bytes,
    files: Vec<TreeEntry>,
    /// Go adds the LICENSE of the repository to modules that have none of their own.
    license: Option<License>,
}

enum License {
    Text(Bytes),
    /// Too large to be read, which is for the selection to say.
    TooLarge(u64),
}

impl<'a> Contents<'a> {
    /// Lists the directory of a module. Blocks.
    pub(super) fn list(
        commit: &'a dyn CommitFiles,
        module: &Module,
        memory: &'a Arc<Semaphore>,
    ) -> Result<Self, ProxyError> {
        let what = format!("{}@{}", module.path, module.version);
        let of_repository = |error| ProxyError::of_repository(&what, error);
        let go_mod = match commit.go_mod(&module.dir) {
            Ok(GoMod::Text(text)) => text,
            Ok(GoMod::TooLarge | GoMod::Absent) => Bytes::new(),
            Err(error) => return Err(of_repository(error)),
        };
        let files = commit.tree(&module.dir, TreeBounds::default());
        let files = files.map_err(|error| ProxyError::of_listing(&what, error))?;
        let is_license =
            |file: &TreeEntry| file.path == LICENSE && file.kind != FileKind::Submodule;
        let has_license = module.dir.is_empty() || files.iter().any(is_license);
        let license = if has_license {
            None
        } else {
            root_license(commit).map_err(|error| match error {
                LicenseError::Repository(error) => of_repository(error),
                LicenseError::Listing(error) => ProxyError::of_listing(&what, error),
            })?
        };
        Ok(Self {
            commit,
            memory,
            go_mod,
            files,
            license,
        })
    }

    /// The listing, from the module's directory on; the license of the repository comes last.
    pub(super) fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let files = self.files.iter().map(|file| Entry {
            path: &file.path,
            kind: kind(file.kind),
            size: file.size,
        });
        let license = self.license.iter().map(|license| Entry {
            path: LICENSE,
            kind: Kind::File,
            size: match license {
                License::Text(text) => text.len() as u64,
                License::TooLarge(size) => *size,
            },
        });
        files.chain(license)
    }

    /// The bytes of an entry. Waits for its share of the memory. Blocks.
    pub(super) fn open(&self, entry: usize) -> io::Result<Contained> {
        let Some(file) = self.files.get(entry) else {
            return match &self.license {
                Some(License::Text(text)) => Ok(Contained::new(text.clone(), None)),
                _ => Err(io::ErrorKind::NotFound.into()),
            };
        };
        let share = self.share(file.size)?;
        let found = self.commit.blob(&file.oid, MAX_FILE_BYTES);
        match found.map_err(io::Error::other)? {
            FileAt::Bytes(bytes) => Ok(Contained::new(bytes.into(), share)),
            _ => Err(io::Error::other(
                "the file takes too much memory to put together",
            )),
        }
    }

    fn share(&self, size: u64) -> io::Result<Option<OwnedSemaphorePermit>> {
        let mib = u32::try_from(size >> 20).map_err(io::Error::other)?;
        if mib == 0 {
            return Ok(None);
        }
        let memory = Arc::clone(self.memory);
        let taken = Handle::current().block_on(memory.acquire_many_owned(mib));
        taken.map(Some).map_err(io::Error::other)
    }
}

fn kind(kind: FileKind) -> Kind {
    match kind {
        FileKind::File | FileKind::Executable => Kind::File,
        FileKind::Symlink => Kind::Symlink,
        FileKind::Submodule => Kind::Other,
    }
}

enum LicenseError {
    Repository(RepoError),
    Listing(TreeError),
}

/// The license at the root of the repository. A symbolic link is the text of its target to Go.
fn root_license(commit: &dyn CommitFiles) -> Result<Option<License>, LicenseError> {
    let read = |found| match found {
        FileAt::Bytes(bytes) => Some(License::Text(bytes.into())),
        FileAt::TooLarge(size) => Some(License::TooLarge(size)),
        FileAt::Missing | FileAt::NotAFile => None,
    };
    let found = commit.file("LICENSE", MAX_LICENSE_BYTES);
    match found.map_err(LicenseError::Repository)? {
        FileAt::NotAFile => {}
        found => return Ok(read(found)),
    }
    let all = commit.tree("", TreeBounds::default());
    let all = all.map_err(LicenseError::Listing)?;
    let is_link = |file: &&TreeEntry| file.path == LICENSE && file.kind == FileKind::Symlink;
    let Some(link) = all.iter().find(is_link) else {
        return Ok(None);
    };
    let found = commit.blob(&link.oid, MAX_LICENSE_BYTES);
    Ok(read(found.map_err(LicenseError::Repository)?))
}

/// The bytes of one file, with its share of the memory.
pub(super) struct Contained {
    bytes: Reader<Bytes>,
    _share: Option<OwnedSemaphorePermit>,
}

impl Contained {
    fn new(bytes: Bytes, share: Option<OwnedSemaphorePermit>) -> Self {
        let bytes = bytes.reader();
        Self {
            bytes,
            _share: share,
        }
    }
}

impl Read for Contained {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.bytes.read(buffer)
    }
}
