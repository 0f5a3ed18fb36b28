//! The change log of the feed.

use grip_db::{Column, DbError};
use schemars::JsonSchema;
use serde::Serialize;

use super::{
    Reader, Store,
    rows::{ints, maybe_texts, texts},
    sql::sql,
};
use crate::Audience;

/// Changes that are forgotten by one statement.
const FORGET_AT_ONCE: i64 = 10_000;

/// What happened to a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    Added,
    /// It is at another commit, tag or repository, or has another date.
    Moved,
    Removed,
}

/// One change of the feed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// When it happened, in nanoseconds since 1970: unique, and the cursor of what follows.
    pub at_ns: i64,
    pub op: Op,
    pub path: String,
    pub version: String,
    /// The date of the tag in milliseconds since 1970.
    pub created_ms: i64,
    pub repo: String,
    pub tag: String,
    pub commit: String,
    /// The commit it was at before a move.
    pub previous: Option<String>,
    /// Who may see it.
    pub audience: Audience,
    /// The commit that the checksum database has logged for this version, where that is another.
    pub logged: Option<String>,
}

grip_db::from_row!(Change {
    at_ns,
    op: [String],
    path,
    version,
    created_ms: "created",
    repo: "org_repo_name",
    tag: "tag_name",
    commit: "commit_oid",
    previous: "previous_oid",
    audience: [i64],
    logged: "logged_oid",
});

/// A page of changes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Changes {
    Page(Vec<Change>),
    /// Changes after the cursor are no longer kept: begin with the feed, and go on from here.
    Forgotten {
        up_to_ns: i64,
    },
}

impl Op {
    fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Moved => "moved",
            Self::Removed => "removed",
        }
    }
}

impl From<String> for Op {
    fn from(text: String) -> Self {
        match text.as_str() {
            "added" => Self::Added,
            "removed" => Self::Removed,
            _ => Self::Moved,
        }
    }
}

pub(super) fn change_columns(rows: &[Change]) -> [Column; 10] {
    [
        ints(rows, |row| row.at_ns),
        texts(rows, |row| row.op.as_str()),
        texts(rows, |row| &row.path),
        texts(rows, |row| &row.version),
        ints(rows, |row| row.created_ms),
        texts(rows, |row| &row.repo),
        texts(rows, |row| &row.tag),
        texts(rows, |row| &row.commit),
        maybe_texts(rows, |row| row.previous.as_deref()),
        ints(rows, |row| row.audience.number()),
    ]
}

impl Store {
    /// The changes after a timestamp.
    pub(crate) async fn changes(
        &self,
        after_ns: i64,
        limit: usize,
        reader: Reader,
    ) -> Result<Changes, DbError> {
        let statement = match reader {
            Reader::Anybody => &sql::CHANGES_PUBLIC,
            Reader::All => &sql::CHANGES,
        };
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let (changes, (up_to_ns,)): (Vec<Change>, (i64,)) = self
            .db
            .read(move |mut db| {
                Box::pin(async move {
                    let asked = [after_ns.into(), limit.into()];
                    let rows = db.fetch_all(statement, &asked).await?;
                    // Read afterwards: what was forgotten in between is noticed.
                    let forgotten = db.fetch_one(&sql::FORGOTTEN, &[]).await?;
                    Ok((rows, forgotten))
                })
            })
            .await?;
        Ok(if after_ns < up_to_ns {
            Changes::Forgotten { up_to_ns }
        } else {
            Changes::Page(changes)
        })
    }

    /// Forgets changes before a timestamp, and says how many there were.
    pub(crate) async fn forget_changes(&self, before_ns: i64) -> Result<u64, DbError> {
        let mut total = 0;
        loop {
            let forgotten = self.forget_some(before_ns).await?;
            total += forgotten;
            if forgotten < FORGET_AT_ONCE as u64 {
                return Ok(total);
            }
        }
    }

    async fn forget_some(&self, before_ns: i64) -> Result<u64, DbError> {
        self.db
            .write(move |mut db| {
                Box::pin(async move {
                    let asked = [before_ns.into(), FORGET_AT_ONCE.into()];
                    let gone: Vec<(i64,)> = db.fetch_all(&sql::FORGET, &asked).await?;
                    let Some((last,)) = gone.iter().max() else {
                        return Ok(0);
                    };
                    db.execute(&sql::SET_FORGOTTEN, &[(*last).into()]).await?;
                    Ok(gone.len() as u64)
                })
            })
            .await
    }
}
