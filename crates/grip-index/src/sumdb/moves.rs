//! Versions whose tags lead to something else than what was logged.
//!
//! A move is noted in the transaction by which the index learns of it. Whether the files there are
//! others is found out afterwards: a tag may be put on a commit with the same ones.

use grip_db::{Column, Connection, DbError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Record, SumDb, SumDbError, sql::sql};

/// Moves that are looked at together.
const PAGE: i64 = 64;

/// A version whose tag leads to another commit than the one that was logged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct MovedVersion {
    pub path: String,
    pub version: String,
    pub repo: String,
    pub tag: String,
    pub commit: String,
    pub logged: String,
    /// In milliseconds since 1970.
    pub seen_at_ms: i64,
}

grip_db::from_row!(MovedVersion {
    path,
    version,
    repo: "org_repo_name",
    tag: "tag_name",
    commit: "commit_oid",
    logged: "logged_oid",
    seen_at_ms: "seen_at",
});

/// Notes which of these versions, in columns of path, version, repository, tag and commit, are logged
/// at another commit; the others are moved no more.
pub(crate) async fn note_moves(
    db: &mut Connection<'_>,
    touched: &[Column; 2],
    listed: &[Column; 5],
    now_ms: i64,
) -> Result<(), DbError> {
    db.execute_rows(&sql::FORGET_MOVES, touched, &[]).await?;
    if !listed[0].is_empty() {
        db.execute_rows(&sql::NOTE_MOVES, listed, &[now_ms.into()])
            .await?;
    }
    Ok(())
}

impl SumDb {
    /// The latest versions that are served as they were logged, or not at all.
    pub async fn moved(&self, limit: usize) -> Result<Vec<MovedVersion>, SumDbError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        Ok(self
            .inner
            .db
            .fetch_all(&sql::MOVES, &[limit.into()])
            .await?)
    }

    /// Moves whose files were not compared yet, behind this path and version.
    pub(crate) async fn undecided(
        &self,
        after: (&str, &str),
    ) -> Result<Vec<MovedVersion>, SumDbError> {
        let asked = [after.0.into(), after.1.into(), PAGE.into()];
        Ok(self.inner.db.fetch_all(&sql::UNDECIDED, &asked).await?)
    }

    /// The files at the new commit are others, or there are none.
    pub(crate) async fn differs(&self, moved: &MovedVersion) -> Result<(), SumDbError> {
        let MovedVersion { path, version, .. } = moved;
        let asked = [path.into(), version.into(), (&moved.commit).into()];
        self.inner.db.execute(&sql::DIFFERS, &asked).await?;
        Ok(())
    }

    /// The files at the new commit are those that were logged: it is as good as the old one.
    pub(crate) async fn relocate(
        &self,
        record: &Record,
        moved: &MovedVersion,
    ) -> Result<(), SumDbError> {
        let (path, version) = (record.path.clone(), record.version.clone());
        let moved = moved.clone();
        self.inner
            .db
            .write(move |mut db| {
                Box::pin(async move {
                    let one = [path.into(), version.into(), moved.commit.into()];
                    db.execute(&sql::FORGET_MOVE, &one).await?;
                    let [path, version, commit] = one;
                    let place = [path, version, commit, moved.repo.into(), moved.tag.into()];
                    db.execute(&sql::RELOCATE, &place).await
                })
            })
            .await?;
        Ok(())
    }

    /// How far the node has gone through the feed.
    pub(crate) async fn progress(&self) -> Result<i64, SumDbError> {
        let node = self.inner.db.node();
        let row = self
            .inner
            .db
            .fetch_optional(&sql::PROGRESS, &[node.into()])
            .await?;
        Ok(row.map_or(0, |(at,): (i64,)| at))
    }

    pub(crate) async fn set_progress(&self, at_ns: i64) -> Result<(), SumDbError> {
        let node = self.inner.db.node();
        let set = [node.into(), at_ns.into()];
        self.inner.db.execute(&sql::SET_PROGRESS, &set).await?;
        Ok(())
    }

    /// The next versions of the feed: when each was first seen, its path and version.
    pub(crate) async fn listed(
        &self,
        after_ns: i64,
        limit: usize,
    ) -> Result<Vec<(i64, String, String)>, SumDbError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let asked = [after_ns.into(), limit.into()];
        Ok(self.inner.db.fetch_all(&sql::LISTED, &asked).await?)
    }
}
