//! The checksum database: a transparency log of the sums that module versions were first served
//! with, as the go command checks them (golang.org/x/mod/sumdb).
//!
//! The log lives in the database, and all that is appended at once is one transaction, which holds
//! the row of the log's right edge until its commit: instances that share a database append one
//! after another. Whole tiles are also kept as files, which are only believed if they fit.
//!
//! Invariants:
//! - A record is signed for only after its commit, and never changes its number or its text.
//! - A version has one record. Whatever its tag leads to later, its sums stay those.
//! - No head is signed that contradicts one this node has signed before.

mod append;
mod moves;
mod open;
mod record;
mod request;
mod restricted;
mod signed_head;
mod sql;
mod tile_files;
mod tiles;
mod verify;

use std::{path::PathBuf, sync::Arc};

use grip_db::{Db, DbError};
use grip_tasks::TaskGroup;
use grip_tlog::{Hash, InvalidFrontier, InvalidHash, Signer, TreeHead};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::{
    moves::MovedVersion,
    open::{OpenError, OpenOptions},
    record::{Record, Sums},
    request::SumDbRequest,
    verify::{Finding, Verified},
};
pub(crate) use self::{moves::note_moves, record::NewRecord};
use tile_files::TileFiles;

/// The topic that is notified when the log has grown.
pub const TOPIC: &str = "sumdb";

/// A checksum database. Clones are the same one.
#[derive(Clone)]
pub struct SumDb {
    inner: Arc<Inner>,
}

struct Inner {
    db: Db,
    signer: Signer,
    tiles: TileFiles,
    /// The latest head that was signed, as a note.
    signed: Mutex<Option<(TreeHead, Arc<str>)>>,
    /// The file that remembers it, and the size of the log when it was written last.
    signed_file: PathBuf,
    kept_size: Arc<Mutex<Option<u64>>>,
    group: TaskGroup,
}

/// Why the log cannot be read or appended to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SumDbError {
    #[error("the checksum database cannot be read")]
    Database(#[from] DbError),
    #[error("the checksum database is damaged: {0}")]
    Damaged(String),
    #[error("the checksum database is signed with the key {0}, and not with the one of this node")]
    OtherKey(String),
    #[error("the signed head cannot be kept")]
    Io(#[from] std::io::Error),
}

/// How the log is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct SumDbStatus {
    pub name: String,
    /// For GOSUMDB.
    pub verifier: String,
    pub records: u64,
    pub root: String,
    /// Listed versions whose tags lead to something else than what was logged.
    pub moved: i64,
}

impl SumDb {
    pub fn name(&self) -> &str {
        self.inner.signer.verifier().name()
    }

    /// The key by which the go command checks signatures, for GOSUMDB.
    pub fn verifier(&self) -> String {
        self.inner.signer.verifier().to_string()
    }

    /// How far the log has come. One tiny query.
    pub async fn head(&self) -> Result<TreeHead, SumDbError> {
        let (size, root): (i64, String) = self.inner.db.fetch_one(&sql::sql::HEAD, &[]).await?;
        Ok(TreeHead {
            size: unsigned(size)?,
            hash: root.parse()?,
        })
    }

    pub async fn status(&self) -> Result<SumDbStatus, SumDbError> {
        let head = self.head().await?;
        let (moved,): (i64,) = self.inner.db.fetch_one(&sql::sql::COUNT_MOVES, &[]).await?;
        Ok(SumDbStatus {
            name: self.name().to_owned(),
            verifier: self.verifier(),
            records: head.size,
            root: head.hash.to_string(),
            moved,
        })
    }
}

impl From<InvalidHash> for SumDbError {
    fn from(invalid: InvalidHash) -> Self {
        Self::Damaged(invalid.to_string())
    }
}

impl From<InvalidFrontier> for SumDbError {
    fn from(invalid: InvalidFrontier) -> Self {
        Self::Damaged(invalid.to_string())
    }
}

fn unsigned(number: i64) -> Result<u64, SumDbError> {
    let negative = |_| SumDbError::Damaged(format!("{number} is no number of records"));
    u64::try_from(number).map_err(negative)
}

/// A number as the database holds it; beyond its range nothing is kept.
fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn hashes(texts: Vec<(String,)>) -> Result<Vec<Hash>, SumDbError> {
    let parsed = texts.into_iter().map(|(text,)| text.parse());
    Ok(parsed.collect::<Result<_, InvalidHash>>()?)
}

/// All statements, for the test that prepares them on both engines.
#[cfg(test)]
pub(crate) static STATEMENTS: &[&grip_db::Statement] = sql::sql::ALL;

#[cfg(test)]
mod tests;
