//! Module zips by Go's rules (golang.org/x/mod/zip and cmd/go), in two steps.
//!
//! [`Selection::check`] decides from a listing of the repository which files belong into the zip of
//! a module, or why there can be none. [`Selection::write_to`] then writes the zip as it gets the
//! bytes of one file after another, and holds no more of them than a buffer.
//!
//! Invariant: what is written is a zip that Go takes, or the writer says that it is none. The same
//! listing and the same bytes make the same zip.

mod archive;
mod names;
mod selection;
mod vendored;
mod write;

pub use selection::{File, Selection};
pub use write::WriteError;

use crate::{Flaw, ModulePath, Shown, Version};

/// The most that all files together, and the zip itself, may have.
pub const MAX_BYTES: u64 = 500 << 20;
/// The most that the go.mod of the module may have.
pub const MAX_GO_MOD_BYTES: u64 = 16 << 20;
/// The most that the LICENSE of the module may have.
pub const MAX_LICENSE_BYTES: u64 = 16 << 20;
/// Ours, not Go's: the longest path of a file in a module. No system opens a longer one.
pub const MAX_PATH_BYTES: usize = 4096;
/// Ours, not Go's: the most files and directories in a module.
pub const MAX_NAMES: usize = 500_000;

/// One file of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry<'a> {
    /// From the root of the repository.
    pub path: &'a [u8],
    pub kind: Kind,
    pub size: u64,
}

/// What is at a path of a repository.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    File,
    Symlink,
    /// A directory or a submodule: no file, and so not there to Go.
    Other,
}

/// Why there is no zip of a module.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ZipError {
    #[error("{path} cannot have the version {version}")]
    Version { path: ModulePath, version: Version },
    #[error("{path} is no path of a file in a module: {flaw}")]
    Path { path: Shown, flaw: Flaw },
    #[error(
        "{path} is no plain relative path: it starts with a slash, or an element is empty or dots"
    )]
    NotClean { path: Shown },
    #[error("{path} is not written as go.mod, in small letters")]
    GoModCase { path: Shown },
    #[error("{path} differs only in case from another path")]
    Collision { path: Shown },
    #[error("{path} is both a file and a directory")]
    FileAndDirectory { path: Shown },
    #[error("{path} is listed twice")]
    Twice { path: Shown },
    #[error("{path} is larger than {} MiB", .max_bytes >> 20)]
    FileTooLarge { path: Shown, max_bytes: u64 },
    #[error("the module is larger than {} MiB", MAX_BYTES >> 20)]
    TooLarge,
    #[error("the module has more than {MAX_NAMES} files and directories")]
    TooManyNames,
}
