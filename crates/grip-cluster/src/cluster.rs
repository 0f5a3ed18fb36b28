//! The tables of a cluster: who leads, the log, the nodes, and the keys that all of them have.

use grip_db::{Db, DbError, Value};
use grip_git::CacheUse;

use crate::Tip;

/// What listeners of the log are told.
pub(crate) const TOPIC: &str = "cluster.log";
/// Records read at once.
const PAGE: i64 = 64;

/// This node among the others of its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    pub cluster: String,
    /// The name of this node, as the database knows it.
    pub node: String,
    /// Where other nodes reach it.
    pub address: String,
}

/// A cluster as one of its nodes knows it. Cheap to clone.
#[derive(Clone)]
pub struct Cluster {
    db: Db,
    member: Member,
}

/// Why the cluster cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    #[error("the tables of the cluster cannot be used")]
    Database(#[from] DbError),
    #[error("another node leads the cluster")]
    NotLeading,
    #[error("the database does not know the cluster")]
    Unknown,
}

/// Who leads, and how far the log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub epoch: i64,
    pub leader: String,
    pub address: String,
    /// Milliseconds until another node may take over, by the database's clock; below zero once it may.
    pub left_ms: i64,
    /// The last record of the log.
    pub seq: i64,
    /// Of that record and all before it.
    pub digest: String,
    /// The last record that is in a snapshot alone.
    pub trimmed: i64,
}

grip_db::from_row!(State {
    epoch,
    leader,
    address,
    left_ms,
    seq,
    digest,
    trimmed,
});

impl State {
    /// Says whether a node leads.
    pub fn is_led(&self) -> bool {
        self.left_ms >= 0
    }

    /// The end of the log.
    pub fn tip(&self) -> Tip {
        Tip {
            seq: as_counted(self.seq),
            digest: self.digest.clone(),
        }
    }
}

/// A node as it was last heard of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeStatus {
    pub node: String,
    pub address: String,
    /// Up to where it has applied the log.
    pub seq: i64,
    pub seen_at: i64,
    /// Requests since it started that found all packs on its disk, and those that waited for some.
    pub cache_hits: i64,
    pub cache_misses: i64,
}

impl NodeStatus {
    pub fn cache_use(&self) -> CacheUse {
        CacheUse {
            hits: as_counted(self.cache_hits),
            misses: as_counted(self.cache_misses),
        }
    }
}

grip_db::from_row!(NodeStatus {
    node,
    address,
    seq,
    seen_at,
    cache_hits,
    cache_misses,
});

/// One change of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) seq: i64,
    pub(crate) kind: String,
    pub(crate) payload: Vec<u8>,
    /// Of this record and all before it; empty where it was written without.
    pub(crate) digest: String,
}

grip_db::from_row!(Record {
    seq,
    kind,
    payload,
    digest,
});

/// A record that is about to be appended.
pub(crate) struct NewRecord {
    pub(crate) epoch: i64,
    /// Counts the records of the epoch.
    pub(crate) number: i64,
    pub(crate) kind: &'static str,
    pub(crate) payload: Vec<u8>,
    pub(crate) digest: String,
}

/// Milliseconds since 1970 by the clock of the database: one clock says when a lease ends.
macro_rules! now_of {
    (sqlite) => {
        "CAST(unixepoch('subsec') * 1000 AS BIGINT)"
    };
    (postgres) => {
        "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT)"
    };
}

grip_db::statements! {
    pub(crate) mod sql {
        MAKE = "INSERT INTO clusters (name, epoch, leader, address, expires_at, seq, appended) \
                VALUES ($1, 0, '', '', 0, 0, 0) ON CONFLICT (name) DO NOTHING";
        STATE = {
            sqlite: concat!(
                "SELECT epoch, leader, address, expires_at - ", now_of!(sqlite), " AS left_ms, \
                 seq, digest, trimmed FROM clusters WHERE name = $1"
            ),
            postgres: concat!(
                "SELECT epoch, leader, address, expires_at - ", now_of!(postgres), " AS left_ms, \
                 seq, digest, trimmed FROM clusters WHERE name = $1"
            ),
        };
        ACQUIRE = {
            sqlite: concat!(
                "UPDATE clusters SET epoch = epoch + 1, leader = $2, address = $3, expires_at = ",
                now_of!(sqlite), " + $4, appended = 0, generation = generation + 1 \
                 WHERE name = $1 AND (expires_at < ",
                now_of!(sqlite), " OR leader = $2) RETURNING epoch, generation"
            ),
            postgres: concat!(
                "UPDATE clusters SET epoch = epoch + 1, leader = $2, address = $3, expires_at = ",
                now_of!(postgres), " + $4, appended = 0, generation = generation + 1 \
                 WHERE name = $1 AND (expires_at < ",
                now_of!(postgres), " OR leader = $2) RETURNING epoch, generation"
            ),
        };
        RENEW = {
            sqlite: concat!(
                "UPDATE clusters SET expires_at = ", now_of!(sqlite), " + $3 \
                 WHERE name = $1 AND epoch = $2"
            ),
            postgres: concat!(
                "UPDATE clusters SET expires_at = ", now_of!(postgres), " + $3 \
                 WHERE name = $1 AND epoch = $2"
            ),
        };
        RELEASE = "UPDATE clusters SET expires_at = 0 WHERE name = $1 AND epoch = $2";
        RESIGN = "UPDATE clusters SET expires_at = 0 WHERE name = $1 AND leader = $2";
        // Sessions of a leader whose time is over: one that was paused may hold locks. Those that
        // began later are of its next life, which follows.
        EVICT = {
            sqlite: "SELECT 0 WHERE $1 = $2",
            postgres: "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                       WHERE datname = current_database() AND pid <> pg_backend_pid() \
                       AND application_name IN (left('gripfast ' || $1, 63), \
                                                left('gripfast ' || $2, 63)) \
                       AND backend_start < (SELECT to_timestamp(expires_at / 1000.0) \
                                            FROM clusters WHERE name = $1)",
        };
        COUNT = "UPDATE clusters SET seq = seq + 1, appended = $3, digest = $4 \
                 WHERE name = $1 AND epoch = $2 AND appended = $3 - 1 RETURNING seq";
        APPEND = "INSERT INTO cluster_log (cluster, seq, epoch, number, kind, payload, digest) \
                  VALUES ($1, $2, $3, $4, $5, $6, $7)";
        APPENDED = "SELECT seq FROM cluster_log WHERE cluster = $1 AND epoch = $2 AND number = $3";
        READ = "SELECT seq, kind, payload, digest FROM cluster_log WHERE cluster = $1 AND seq > $2 \
                ORDER BY seq LIMIT $3";
        SEEN = "INSERT INTO cluster_nodes \
                (cluster, node, address, seq, seen_at, cache_hits, cache_misses) \
                VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (cluster, node) DO UPDATE \
                SET address = excluded.address, seq = excluded.seq, seen_at = excluded.seen_at, \
                cache_hits = excluded.cache_hits, cache_misses = excluded.cache_misses";
        NODES = "SELECT node, address, seq, seen_at, cache_hits, cache_misses FROM cluster_nodes \
                 WHERE cluster = $1 ORDER BY node";
        KEYS = "SELECT file, content FROM cluster_keys WHERE cluster = $1 ORDER BY file";
        KEEP_KEY = "INSERT INTO cluster_keys (cluster, file, content) VALUES ($1, $2, $3) \
                    ON CONFLICT (cluster, file) DO NOTHING";
    }
}

impl Cluster {
    /// Makes the cluster known to the database, unless it is.
    pub async fn open(db: Db, member: Member) -> Result<Self, ClusterError> {
        let name = member.cluster.as_str().into();
        db.execute(&sql::MAKE, &[name]).await?;
        Ok(Self::at(db, member))
    }

    /// A cluster that the database may know, to look at.
    pub fn at(db: Db, member: Member) -> Self {
        Self { db, member }
    }

    pub fn member(&self) -> &Member {
        &self.member
    }

    pub fn db(&self) -> &Db {
        &self.db
    }

    /// How it is at this moment; none if the database does not know it.
    pub async fn state(&self) -> Result<Option<State>, ClusterError> {
        let name = [self.member.cluster.as_str().into()];
        Ok(self.db.fetch_optional(&sql::STATE, &name).await?)
    }

    /// The same of one that was opened.
    pub(crate) async fn known_state(&self) -> Result<State, ClusterError> {
        self.state().await?.ok_or(ClusterError::Unknown)
    }

    /// Every node that was ever heard of, by name.
    pub async fn nodes(&self) -> Result<Vec<NodeStatus>, ClusterError> {
        let name = [self.member.cluster.as_str().into()];
        Ok(self.db.fetch_all(&sql::NODES, &name).await?)
    }

    /// Says that this node lives, how far it has followed the log, and how its disk serves clients.
    pub(crate) async fn report(&self, seq: u64, cache: CacheUse) -> Result<(), ClusterError> {
        let Member {
            cluster,
            node,
            address,
        } = &self.member;
        let values = [
            cluster.into(),
            node.into(),
            address.into(),
            as_stored(seq).into(),
            self.db.now_ms().into(),
            as_stored(cache.hits).into(),
            as_stored(cache.misses).into(),
        ];
        self.db.execute(&sql::SEEN, &values).await?;
        Ok(())
    }

    /// Gives up a lead that this node may have, for another one to take it at once.
    pub async fn resign(&self) -> Result<(), ClusterError> {
        let Member { cluster, node, .. } = &self.member;
        let values = [cluster.into(), node.into()];
        self.db.execute(&sql::RESIGN, &values).await?;
        Ok(())
    }

    /// The contents of the files that all nodes have, by name.
    pub async fn keys(&self) -> Result<Vec<(String, String)>, ClusterError> {
        let name = [self.member.cluster.as_str().into()];
        Ok(self.db.fetch_all(&sql::KEYS, &name).await?)
    }

    /// Has every node keep a file of this content, unless they have one of this name.
    pub async fn keep_key(&self, file: &str, content: &str) -> Result<(), ClusterError> {
        let values = [
            self.member.cluster.as_str().into(),
            file.into(),
            content.into(),
        ];
        self.db.execute(&sql::KEEP_KEY, &values).await?;
        Ok(())
    }

    /// The next records after `seq`, in their order; none if there are none yet.
    ///
    /// Nothing can appear between two of them later: the row that counts them is locked from the
    /// count to the commit.
    pub(crate) async fn read(&self, seq: u64) -> Result<Vec<Record>, ClusterError> {
        let values = [
            self.member.cluster.as_str().into(),
            as_stored(seq).into(),
            PAGE.into(),
        ];
        Ok(self.db.fetch_all(&sql::READ, &values).await?)
    }

    /// Appends a record and says where it is in the log; where it is since a first try, if that went
    /// through after all. None if another epoch has begun.
    pub(crate) async fn append(&self, record: &NewRecord) -> Result<Option<i64>, DbError> {
        let NewRecord { epoch, number, .. } = *record;
        let named: [Value; 3] = [
            self.member.cluster.as_str().into(),
            epoch.into(),
            number.into(),
        ];
        let digest: Value = record.digest.as_str().into();
        let content = [
            record.kind.into(),
            record.payload.clone().into(),
            digest.clone(),
        ];
        let appending = self.db.write(move |mut db| {
            Box::pin(async move {
                let counting = [&named[..], &[digest]].concat();
                let counted: Option<(i64,)> = db.fetch_optional(&sql::COUNT, &counting).await?;
                let Some((seq,)) = counted else {
                    let before: Option<(i64,)> = db.fetch_optional(&sql::APPENDED, &named).await?;
                    return Ok(before.map(|(seq,)| seq));
                };
                let [cluster, epoch, number] = named;
                let [kind, payload, digest] = content;
                let record = [cluster, seq.into(), epoch, number, kind, payload, digest];
                db.execute(&sql::APPEND, &record).await?;
                db.notify(TOPIC).await?;
                Ok(Some(seq))
            })
        });
        appending.await
    }
}

/// Numbers of the log are counted by the database, which has signed ones.
pub(crate) fn as_stored(seq: u64) -> i64 {
    i64::try_from(seq).unwrap_or(i64::MAX)
}

pub(crate) fn as_counted(seq: i64) -> u64 {
    u64::try_from(seq).unwrap_or_default()
}

#[cfg(test)]
pub(crate) mod tests;
