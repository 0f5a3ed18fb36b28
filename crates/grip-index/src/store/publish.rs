//! Publication of a repository: tags, feed, changes and the end of the job, in one transaction.
//!
//! More than [`AT_ONCE`] changed tags are written in several, so that nobody else who writes is
//! kept waiting for all of them. Each leaves tags and feed in agreement and is given up if the job
//! is somebody else's; the last ends the turn. What a crash cuts off is seen by the next turn.

use std::sync::Arc;

use grip_db::{Connection, DbError};
use grip_queue::{Finished, Lease, NewJob, Queue};

use super::{Store, TagRow, sql::sql, tag_batch::TagBatch};
use crate::{Audience, diff::Seen};

/// Tags in one statement and in one transaction: some hundred kilobytes.
pub(super) const AT_ONCE: usize = 2_000;

/// What a tag comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Judged {
    /// Its name says no version.
    Nothing,
    Version {
        path: Arc<str>,
        version: String,
        proven: bool,
        created: i64,
    },
    /// Its name says a version, and it is none.
    Not(String),
    /// The source gave no usable answer about it: it is asked again at the next turn.
    Unsettled(String),
}

/// All that a turn has found out.
#[derive(Debug, Default)]
pub(crate) struct Publication {
    pub(crate) repo: String,
    pub(crate) etag: Option<String>,
    pub(crate) policy: String,
    pub(crate) audience: Audience,
    /// The tags as they are, and what has changed about them.
    pub(crate) seen: Vec<Seen>,
    pub(crate) changed: Vec<Changed>,
    pub(crate) gone: Vec<Gone>,
}

/// A tag that is new, moved or judged otherwise.
#[derive(Debug)]
pub(crate) struct Changed {
    /// Its position among those seen.
    pub(crate) at: usize,
    pub(crate) judged: Judged,
    pub(crate) is_new: bool,
    /// The version it claimed before.
    pub(crate) before: Option<(String, String)>,
}

/// A tag that is no more.
#[derive(Debug)]
pub(crate) struct Gone {
    pub(crate) name: String,
    /// The version it claimed.
    pub(crate) before: Option<(String, String)>,
}

/// How the job ends in the same transaction.
#[derive(Clone)]
pub(crate) struct Ending {
    pub(crate) queue: Queue,
    pub(crate) lease: Lease,
    /// Asked for before the end, where the settings have changed.
    pub(crate) again: Option<NewJob>,
}

impl Ending {
    /// Ends the job with what was said of this turn alone, or gives everything up because it is
    /// somebody else's.
    pub(super) async fn end(self, db: &mut Connection<'_>) -> Result<(), DbError> {
        if !self.lease.payload.is_empty() {
            self.queue.drop_payload_in(db, &self.lease).await?;
        }
        if let Some(again) = self.again {
            self.queue.enqueue_in(db, vec![again]).await?;
        }
        ours(self.queue.finish_in(db, &self.lease).await?)
    }

    /// Takes the job out of the queue, or gives everything up because it is somebody else's or
    /// was asked for again, in which case there may be something to be found now.
    pub(super) async fn remove(self, db: &mut Connection<'_>) -> Result<(), DbError> {
        match self.queue.remove_leased_in(db, &self.lease).await? {
            Finished::Done => Ok(()),
            Finished::Again | Finished::Lost => Err(DbError::Aborted),
        }
    }

    /// Goes on with the job, or gives everything up because it is somebody else's.
    pub(super) async fn go_on(self, db: &mut Connection<'_>) -> Result<(), DbError> {
        if self.queue.hold_in(db, &self.lease).await? {
            Ok(())
        } else {
            Err(DbError::Aborted)
        }
    }
}

fn ours(finished: Finished) -> Result<(), DbError> {
    match finished {
        Finished::Done | Finished::Again => Ok(()),
        Finished::Lost => Err(DbError::Aborted),
    }
}

impl Seen {
    pub(super) fn row(&self, judged: &Judged) -> TagRow {
        let mut row = TagRow {
            tag_name: self.name.clone(),
            object_oid: self.object.to_hex(),
            commit_oid: self.commit.to_hex(),
            created: None,
            path: None,
            version: None,
            proven: 0,
            why: None,
            settled: 1,
        };
        match judged {
            Judged::Nothing if self.is_strange => {
                row.why = Some("its name is empty, too long or has control characters".to_owned());
            }
            Judged::Nothing => {}
            Judged::Not(why) => row.why = Some(why.clone()),
            Judged::Unsettled(why) => {
                row.why = Some(why.clone());
                row.settled = 0;
            }
            Judged::Version {
                path,
                version,
                proven,
                created,
            } => {
                row.path = Some(path.to_string());
                row.version = Some(version.clone());
                row.proven = i64::from(*proven);
                row.created = Some(*created);
            }
        }
        row
    }

    /// Whether what is kept says the same already.
    pub(crate) fn is_kept_as(&self, judged: &Judged, kept: &TagRow) -> bool {
        self.row(judged) == *kept
    }
}

impl Store {
    /// Writes all that a turn has found out, and ends its job.
    pub(crate) async fn publish(
        &self,
        publication: Publication,
        ending: Ending,
    ) -> Result<(), DbError> {
        let mut batches = TagBatch::all(publication);
        let last = batches.pop().expect("because there is always one batch");
        for batch in batches {
            self.write_batch(batch, ending.clone()).await?;
        }
        self.write_last(last, ending).await
    }

    pub(super) async fn write_batch(&self, batch: TagBatch, ending: Ending) -> Result<(), DbError> {
        let now = self.now_ms();
        self.db
            .write(move |mut db| {
                Box::pin(async move {
                    batch.write(&mut db, now).await?;
                    let (tags, claims) = batch.more();
                    let sums = [batch.repo().into(), tags.into(), claims.into()];
                    db.execute(&sql::PART_OF_REPO, &sums).await?;
                    ending.go_on(&mut db).await
                })
            })
            .await
    }

    async fn write_last(&self, batch: TagBatch, ending: Ending) -> Result<(), DbError> {
        let now = self.now_ms();
        self.db
            .write(move |mut db| {
                Box::pin(async move {
                    batch.write(&mut db, now).await?;
                    end_turn(&mut db, now, &batch).await?;
                    ending.end(&mut db).await
                })
            })
            .await
    }
}

async fn end_turn(db: &mut Connection<'_>, now: i64, batch: &TagBatch) -> Result<(), DbError> {
    let whole = batch.whole();
    if whole.leaves_unused() {
        forget_unused(db, &whole.repo).await?;
    }
    let (tags, claims) = batch.more();
    let end = [
        whole.repo.clone().into(),
        now.into(),
        whole.etag.clone().into(),
        whole.policy.clone().into(),
        tags.into(),
        claims.into(),
    ];
    db.execute(&sql::END_REPO, &end).await?;
    let named = [whole.repo.clone().into()];
    db.execute(&sql::DROP_TAG_LIST, &named).await?;
    db.execute(&sql::DROP_LISTED_TAGS, &named).await?;
    Ok(())
}

impl Publication {
    /// Whether something may have been learned about what no tag is at any more.
    fn leaves_unused(&self) -> bool {
        !self.gone.is_empty() || self.changed.iter().any(|changed| changed.before.is_some())
    }
}

/// Forgets what was learned about commits that no tag is at.
pub(super) async fn forget_unused(db: &mut Connection<'_>, repo: &str) -> Result<(), DbError> {
    db.execute(&sql::DROP_TIMES, &[repo.into()]).await?;
    db.execute(&sql::DROP_GO_MODS, &[repo.into()]).await?;
    Ok(())
}
