//! Snapshots of the log, and its trimming.
//!
//! ```text
//!  snapshot ──────────▶ │ records after it ───▶ end
//!  one object of the    │ cluster_log
//!  store of packs       │
//! ```
//!
//! A snapshot is a log made short: the changes in it lead an empty copy to where the log had led at one
//! record. What events there are is read from the store of the leader; repositories and packs are those
//! of the snapshot before it, and of the records since. Records up to the newest snapshot go once every
//! node that was heard of recently has applied them; a node that comes back after that begins with the
//! snapshot, as a new one does.

mod adopt;
pub(crate) mod file;
pub(crate) mod make;
mod take_over;

use grip_git::PackFile;

pub use self::{
    adopt::SingleNode,
    make::{SnapshotError, SnapshotOptions, Snapshots},
};
use crate::{Cluster, ClusterError, Tip, cluster::as_counted, pack_store::FileName};

/// The extension of a snapshot in the store of packs; nothing depends on it.
const EXTENSION: &str = "snapshot";

/// A snapshot that all nodes find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The last record that is in it.
    pub seq: i64,
    /// Of that record and all before it.
    pub digest: String,
    /// Names it in the store of packs.
    pub object: String,
    pub size_bytes: i64,
}

grip_db::from_row!(Snapshot {
    seq,
    digest,
    object,
    size_bytes,
});

impl Snapshot {
    /// Where a copy is that has taken it over.
    pub fn tip(&self) -> Tip {
        Tip {
            seq: as_counted(self.seq),
            digest: self.digest.clone(),
        }
    }

    pub(crate) fn file(&self) -> PackFile {
        let (digest, generation) = match FileName::parse(&self.object) {
            Some(name) => (name.digest(), name.generation),
            None => (self.object.clone(), 0),
        };
        PackFile {
            extension: EXTENSION.to_owned(),
            size_bytes: as_counted(self.size_bytes),
            digest,
            generation,
        }
    }
}

grip_db::statements! {
    pub(crate) mod sql {
        SNAPSHOTS = "SELECT seq, digest, object, size_bytes FROM cluster_snapshots \
                     WHERE cluster = $1 ORDER BY seq DESC";
        RECORD = "INSERT INTO cluster_snapshots (cluster, seq, digest, object, size_bytes, made_at) \
                  SELECT name, CAST($3 AS BIGINT), CAST($4 AS TEXT), CAST($5 AS TEXT), \
                         CAST($6 AS BIGINT), CAST($7 AS BIGINT) \
                  FROM clusters WHERE name = $1 AND epoch = $2 \
                  ON CONFLICT (cluster, seq) DO NOTHING";
        // A log that has no record yet begins after all that is in its first snapshot.
        BEGIN_WITH = "UPDATE clusters SET seq = $2, digest = $3, trimmed = $2 \
                      WHERE name = $1 AND seq = 0";
        FORGET = "DELETE FROM cluster_snapshots WHERE cluster = $1 AND seq = $2";
        // How far the nodes have got that were heard of since then.
        APPLIED = "SELECT min(seq) AS seq FROM cluster_nodes WHERE cluster = $1 AND seen_at >= $2";
        TRIM = "UPDATE clusters SET trimmed = $3 WHERE name = $1 AND epoch = $2 AND trimmed < $3";
        CUT = "DELETE FROM cluster_log WHERE cluster = $1 AND seq <= $2";
    }
}

impl Cluster {
    /// How far the nodes have got that were heard of since then; none if there is none.
    pub(crate) async fn applied_since(&self, since: i64) -> Result<Option<i64>, ClusterError> {
        let living = [self.member().cluster.as_str().into(), since.into()];
        let (applied,) = self.db().fetch_one(&sql::APPLIED, &living).await?;
        Ok(applied)
    }

    /// The snapshots that may be taken over, the newest first.
    pub async fn snapshots(&self) -> Result<Vec<Snapshot>, ClusterError> {
        let name = [self.member().cluster.as_str().into()];
        Ok(self.db().fetch_all(&sql::SNAPSHOTS, &name).await?)
    }
}
