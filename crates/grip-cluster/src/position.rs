//! Position of a copy in the log of its cluster, kept beside what it describes.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use grip_types::Identifier;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::Tip;

/// Its name in the data directory.
const FILE: &str = "cluster.json";

/// Why it is not known where a copy has got to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PositionError {
    #[error("{} cannot be read or written", .path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error("{} is not what a node writes", .path.display())]
    Malformed {
        path: PathBuf,
        source: serde_json::Error,
    },
    #[error("{} is of the cluster {found:?}", .path.display())]
    Foreign { path: PathBuf, found: String },
}

/// How far a data directory has followed its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    pub tip: Tip,
    /// Set as long as it is not a whole copy of anything.
    pub joining: Option<Joining>,
}

/// A snapshot that is being taken over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joining {
    /// Names it in the store of packs.
    pub snapshot: String,
    /// Nothing is left of what was here before.
    pub is_emptied: bool,
}

#[derive(Serialize, Deserialize)]
struct Written {
    cluster: String,
    #[serde(flatten)]
    tip: Tip,
    /// Stores that are to go, and were read when they were.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    removals: BTreeSet<Identifier>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    joining: Option<Joining>,
}

/// The file that says up to which record everything is in this data directory. It may say less than is
/// true, never more.
pub struct Position {
    path: PathBuf,
    cluster: String,
    /// Bounded by the stores on disk.
    removals: Mutex<BTreeSet<Identifier>>,
}

impl Position {
    pub fn new(data_dir: &Path, cluster: &str) -> Self {
        Self {
            path: data_dir.join(FILE),
            cluster: cluster.to_owned(),
            removals: Mutex::default(),
        }
    }

    /// Stores that are still to be removed.
    pub(crate) fn removals(&self) -> BTreeSet<Identifier> {
        self.removals.lock().clone()
    }

    /// Has a store removed later; kept with the next position.
    pub(crate) fn note_removal(&self, identifier: &Identifier) {
        self.removals.lock().insert(identifier.clone());
    }

    /// Leaves a store as it is: it is gone, or used again.
    pub(crate) fn forget_removal(&self, identifier: &Identifier) {
        self.removals.lock().remove(identifier);
    }

    /// The data directory.
    pub fn directory(&self) -> &Path {
        self.path.parent().unwrap_or(Path::new("."))
    }

    /// Says whether a data directory is a copy of some cluster. Blocks.
    pub fn is_noted_in(data_dir: &Path) -> bool {
        data_dir.join(FILE).exists()
    }

    /// Reads it; none where there is no file. Blocks.
    pub fn read(&self) -> Result<Option<Noted>, PositionError> {
        let path = || self.path.clone();
        let text = match fs::read(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => {
                return Err(PositionError::Io {
                    path: path(),
                    source,
                });
            }
        };
        let written: Written =
            serde_json::from_slice(&text).map_err(|source| PositionError::Malformed {
                path: path(),
                source,
            })?;
        if written.cluster != self.cluster {
            let found = written.cluster;
            return Err(PositionError::Foreign {
                path: path(),
                found,
            });
        }
        *self.removals.lock() = written.removals;
        Ok(Some(Noted {
            tip: written.tip,
            joining: written.joining,
        }))
    }

    /// Replaces the file. Blocks; durable on return.
    pub fn write(&self, tip: &Tip) -> Result<(), PositionError> {
        self.put(&Written {
            cluster: self.cluster.clone(),
            tip: tip.clone(),
            removals: self.removals(),
            joining: None,
        })
    }

    /// Notes that a snapshot is being taken over; ends with the next position. Blocks; durable on return.
    pub fn begin_joining(&self, joining: Joining) -> Result<(), PositionError> {
        self.removals.lock().clear();
        self.put(&Written {
            cluster: self.cluster.clone(),
            tip: Tip::default(),
            removals: BTreeSet::new(),
            joining: Some(joining),
        })
    }

    /// Makes the directory a copy of nothing. Blocks.
    pub fn remove(&self) -> Result<(), PositionError> {
        fs::remove_file(&self.path).map_err(|source| PositionError::Io {
            path: self.path.clone(),
            source,
        })
    }

    fn put(&self, written: &Written) -> Result<(), PositionError> {
        let text = serde_json::to_vec(written);
        let text = text.map_err(|source| PositionError::Malformed {
            path: self.path.clone(),
            source,
        })?;
        self.replace(&text).map_err(|source| PositionError::Io {
            path: self.path.clone(),
            source,
        })
    }

    fn replace(&self, text: &[u8]) -> io::Result<()> {
        let half = self.path.with_extension("half");
        let mut file = File::create(&half)?;
        file.write_all(text)?;
        file.sync_all()?;
        fs::rename(&half, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_over_is_noted_until_it_is_whole() {
        let dir = tempfile::tempdir().unwrap();
        let position = Position::new(dir.path(), "harbour");
        let joining = Joining {
            snapshot: "aa".to_owned(),
            is_emptied: false,
        };
        position.begin_joining(joining.clone()).unwrap();
        let noted = position.read().unwrap().expect("it was written");
        assert_eq!((noted.tip.seq, noted.joining), (0, Some(joining)));
        position.write(&Tip::default()).unwrap();
        let noted = position.read().unwrap().expect("it was written");
        assert_eq!(noted.joining, None);
    }

    #[test]
    fn a_position_is_of_one_cluster() {
        let dir = tempfile::tempdir().unwrap();
        let position = Position::new(dir.path(), "harbour");
        assert_eq!(position.read().unwrap(), None);
        let tip = |seq| Tip {
            seq,
            digest: "aa".to_owned(),
        };
        position.write(&tip(7)).unwrap();
        position.write(&tip(8)).unwrap();
        let at = |noted: Option<Noted>| noted.map(|noted| noted.tip);
        assert_eq!(at(position.read().unwrap()), Some(tip(8)));
        let other = Position::new(dir.path(), "lighthouse").read();
        assert!(matches!(other, Err(PositionError::Foreign { found, .. }) if found == "harbour"));
        // Before there were digests.
        fs::write(dir.path().join(FILE), r#"{"cluster":"harbour","seq":9}"#).unwrap();
        assert_eq!(at(position.read().unwrap()).map(|tip| tip.seq), Some(9));
        fs::write(dir.path().join(FILE), "{").unwrap();
        assert!(matches!(
            position.read(),
            Err(PositionError::Malformed { .. })
        ));
    }
}
