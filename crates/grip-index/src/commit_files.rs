//! Files of one commit: in a repository of this node, or just fetched from another host. All of it
//! blocks.

use grip_git::{FileAt, RepoError, Repositories, Snapshot, TreeBounds, TreeEntry, TreeError};
use grip_go::go_mod;
use grip_types::{Identifier, Oid};

use crate::GoMod;

/// The files of one commit.
pub(crate) trait CommitFiles {
    /// As [`Repositories::file`].
    fn file(&self, path: &str, max_bytes: u64) -> Result<FileAt, RepoError>;

    /// As [`Repositories::blob`].
    fn blob(&self, oid: &Oid, max_bytes: u64) -> Result<FileAt, RepoError>;

    /// As [`Repositories::tree`].
    fn tree(&self, dir: &str, bounds: TreeBounds) -> Result<Vec<TreeEntry>, TreeError>;

    /// The `go.mod` in a directory.
    ///
    /// Go reads a symbolic link as a file with the target as text, which is never a module line; a
    /// directory of that name is nothing to it.
    fn go_mod(&self, dir: &str) -> Result<GoMod, RepoError> {
        let path = match dir {
            "" => "go.mod".to_owned(),
            dir => format!("{dir}/go.mod"),
        };
        Ok(match self.file(&path, go_mod::MAX_BYTES as u64)? {
            FileAt::Bytes(bytes) => GoMod::Text(bytes.into()),
            FileAt::TooLarge(_) => GoMod::TooLarge,
            FileAt::Missing => GoMod::Absent,
            FileAt::NotAFile if self.is_directory(&path) => GoMod::Absent,
            FileAt::NotAFile => GoMod::Text(bytes::Bytes::new()),
        })
    }

    fn is_directory(&self, path: &str) -> bool {
        let bounds = TreeBounds {
            entries: 1,
            ..TreeBounds::default()
        };
        let listed = self.tree(path, bounds);
        !matches!(listed, Err(TreeError::NoDirectory(_) | TreeError::Repo(_)))
    }
}

/// A commit in the store of an identifier.
pub(crate) struct StoredCommit<'a> {
    pub(crate) repositories: &'a Repositories,
    pub(crate) identifier: &'a Identifier,
    pub(crate) commit: &'a Oid,
}

impl CommitFiles for StoredCommit<'_> {
    fn file(&self, path: &str, max_bytes: u64) -> Result<FileAt, RepoError> {
        let repositories = self.repositories;
        repositories.file(self.identifier, self.commit, path, max_bytes)
    }

    fn blob(&self, oid: &Oid, max_bytes: u64) -> Result<FileAt, RepoError> {
        self.repositories.blob(self.identifier, oid, max_bytes)
    }

    fn tree(&self, dir: &str, bounds: TreeBounds) -> Result<Vec<TreeEntry>, TreeError> {
        let repositories = self.repositories;
        repositories.tree(self.identifier, self.commit, dir, bounds)
    }
}

impl CommitFiles for Snapshot {
    fn file(&self, path: &str, max_bytes: u64) -> Result<FileAt, RepoError> {
        self.file(path, max_bytes)
    }

    fn blob(&self, oid: &Oid, max_bytes: u64) -> Result<FileAt, RepoError> {
        self.blob(oid, max_bytes)
    }

    fn tree(&self, dir: &str, bounds: TreeBounds) -> Result<Vec<TreeEntry>, TreeError> {
        self.tree(dir, bounds)
    }
}
