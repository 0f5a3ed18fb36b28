//! A database for one test.

use std::path::PathBuf;

use tempfile::TempDir;

use crate::Db;

/// A fresh database in a directory of its own, which goes with it.
pub struct TestDatabase {
    directory: TempDir,
    db: Db,
}

impl TestDatabase {
    /// Panics if it cannot be made: a test has nothing better to do.
    pub async fn new() -> Self {
        let directory = TempDir::new().expect("a test needs a temporary directory");
        let db = Db::open(&path(&directory)).await;
        let db = db.expect("a fresh database opens");
        Self { directory, db }
    }

    pub fn db(&self) -> &Db {
        &self.db
    }

    pub fn path(&self) -> PathBuf {
        path(&self.directory)
    }

    /// Opens the file a second time, as the next start of the node would.
    pub async fn reopen(self) -> Self {
        self.db.close().await;
        let db = Db::open(&path(&self.directory)).await;
        Self {
            db: db.expect("a closed database opens again"),
            directory: self.directory,
        }
    }
}

fn path(directory: &TempDir) -> PathBuf {
    directory.path().join("gripfast.db")
}
