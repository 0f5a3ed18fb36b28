//! Opening of the checksum database of a node.

use std::{fs, io, path::PathBuf, sync::Arc};

use grip_db::Db;
use grip_tasks::TaskGroup;
use grip_tlog::{InvalidKey, Signer, Verifier};
use parking_lot::Mutex;

use super::{Inner, SumDb, SumDbError, sql::sql, tile_files::TileFiles};

/// What a checksum database is made of.
pub struct OpenOptions {
    pub db: Db,
    /// Its name, if the settings give one: a host name, as the go command wants it.
    pub name: Option<String>,
    /// Its name if nothing else gives one.
    pub default_name: String,
    /// The secret that heads are signed with.
    pub seed: [u8; 32],
    /// The directory of whole tiles, and of the latest signed head.
    pub directory: PathBuf,
    pub group: TaskGroup,
}

/// Why there is no checksum database.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    #[error("{name:?} is no name of a checksum database")]
    Name { name: String, source: InvalidKey },
    #[error(
        "the log in the database is signed with another key, {0}: copy `sumdb.key` from the node \
         that has begun it"
    )]
    OtherKey(String),
    #[error("the checksum database is called {found}, not {wanted}: clients know it by that name")]
    OtherName { found: String, wanted: String },
    #[error(
        "the log has {found} records and does not begin with the {signed} that this node has signed \
         for: the database was set back, and clients would take it for an attack. Restore a database \
         that has them, or begin a new log with a new `sumdb.key`"
    )]
    SetBack { signed: u64, found: u64 },
    #[error("{} cannot be made", path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Log(#[from] SumDbError),
}

impl SumDb {
    /// Opens the log of this database, and names it if nobody has yet.
    pub async fn open(options: OpenOptions) -> Result<Self, OpenError> {
        let (db, seed) = (options.db, options.seed);
        let begun: (Option<String>,) = db
            .fetch_one(&sql::VERIFIER, &[])
            .await
            .map_err(SumDbError::from)?;
        let begun = begun.0.map(|key| {
            let parsed: Result<Verifier, InvalidKey> = key.parse();
            parsed.map_err(|invalid| SumDbError::Damaged(invalid.to_string()))
        });
        let begun = begun.transpose()?;
        let name = match (&begun, options.name) {
            (Some(begun), Some(wanted)) if begun.name() != wanted => {
                let found = begun.name().to_owned();
                return Err(OpenError::OtherName { found, wanted });
            }
            (Some(begun), _) => begun.name().to_owned(),
            (None, Some(wanted)) => wanted,
            (None, None) => options.default_name,
        };
        let signer = Signer::new(&name, &seed);
        let signer = signer.map_err(|source| OpenError::Name { name, source })?;
        if let Some(begun) = begun.filter(|begun| begun != signer.verifier()) {
            return Err(OpenError::OtherKey(begun.to_string()));
        }
        let directory = options.directory;
        fs::create_dir_all(&directory).map_err(|source| OpenError::Directory {
            path: directory.clone(),
            source,
        })?;
        let opened = Self {
            inner: Arc::new(Inner {
                tiles: TileFiles::below(directory.join("tile")),
                signed: Mutex::new(None),
                signed_file: directory.join("latest"),
                kept_size: Arc::default(),
                group: options.group,
                signer,
                db,
            }),
        };
        opened.begin().await?;
        if let Some(signed) = opened.check_signed().await? {
            return Err(OpenError::SetBack {
                signed: signed.size,
                found: opened.head().await?.size,
            });
        }
        Ok(opened)
    }

    /// Puts our key on a log that has none; of two that do so at once the first counts.
    async fn begin(&self) -> Result<(), OpenError> {
        let own = self.verifier();
        let db = &self.inner.db;
        let set = db.execute(&sql::SET_VERIFIER, &[own.as_str().into()]).await;
        set.map_err(SumDbError::from)?;
        let found = db.fetch_one(&sql::VERIFIER, &[]).await;
        let (found,): (String,) = found.map_err(SumDbError::from)?;
        if found == own {
            Ok(())
        } else {
            Err(OpenError::OtherKey(found))
        }
    }
}
