//! The end of a repository's turn: tags, feed, changes and the job, all in one transaction.

use std::sync::Arc;

use grip_db::{Connection, DbError};
use grip_queue::{Finished, Lease, NewJob, Queue};

use super::{
    Store, TagRow,
    rows::tag_columns,
    settle::{Feed, Fresh, Touched},
    sql::sql,
};
use crate::{diff::Seen, rules::Claim};

/// Rows in one statement: some hundred kilobytes.
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
    /// The tags as they are, and what those that have changed come to, by position.
    pub(crate) seen: Vec<Seen>,
    pub(crate) judged: Vec<(usize, Judged)>,
    /// The names of tags that are no more.
    pub(crate) gone: Vec<String>,
    /// The versions that changed tags claimed before.
    pub(crate) before: Vec<(String, String)>,
    pub(crate) more_tags: i64,
    pub(crate) more_claims: i64,
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
    /// Ends the job, or gives everything up because it is somebody else's.
    pub(super) async fn end(self, db: &mut Connection<'_>) -> Result<(), DbError> {
        if let Some(again) = self.again {
            self.queue.enqueue_in(db, vec![again]).await?;
        }
        ours(self.queue.finish_in(db, &self.lease).await?)
    }

    /// Takes the job out of the queue.
    async fn remove(self, db: &mut Connection<'_>) -> Result<(), DbError> {
        ours(self.queue.remove_leased_in(db, &self.lease).await?)
    }
}

fn ours(finished: Finished) -> Result<(), DbError> {
    match finished {
        Finished::Done | Finished::Again => Ok(()),
        Finished::Lost => Err(DbError::GivenUp),
    }
}

impl Seen {
    fn row(&self, judged: &Judged) -> TagRow {
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
        let now = self.now_ms();
        self.db
            .write(move |mut db| {
                Box::pin(async move {
                    write(&mut db, now, publication).await?;
                    ending.end(&mut db).await
                })
            })
            .await
    }

    /// Takes a repository out of the index, and its job out of the queue.
    pub(crate) async fn remove_repo(&self, repo: &str, ending: Ending) -> Result<(), DbError> {
        let (repo, now) = (repo.to_owned(), self.now_ms());
        self.db
            .write(move |mut db| {
                Box::pin(async move {
                    remove(&mut db, now, repo).await?;
                    ending.remove(&mut db).await
                })
            })
            .await
    }
}

impl Publication {
    /// The versions whose claims have changed.
    fn touched(&self) -> Vec<Touched> {
        let before = self.before.iter().map(|pair| Touched {
            pair: pair.clone(),
            fresh: None,
        });
        let now = self.judged.iter().enumerate();
        let now = now.filter_map(|(at, (_, judged))| match judged {
            Judged::Version { path, version, .. } => Some(Touched {
                pair: (path.to_string(), version.clone()),
                fresh: Some(at),
            }),
            _ => None,
        });
        before.chain(now).collect()
    }
}

impl Fresh for Publication {
    fn claim(&self, at: usize, claimed_ns: i64) -> Claim {
        let (at, judged) = &self.judged[at];
        let row = self.seen[*at].row(judged);
        Claim {
            path: row.path.unwrap_or_default(),
            version: row.version.unwrap_or_default(),
            org_repo_name: self.repo.clone(),
            tag_name: row.tag_name,
            commit_oid: row.commit_oid,
            created: row.created.unwrap_or_default(),
            proven: row.proven,
            claimed_ns,
        }
    }
}

async fn write(db: &mut Connection<'_>, now: i64, found: Publication) -> Result<(), DbError> {
    let repo = found.repo.clone();
    let touched = found.touched();
    let mut feed = None;
    if !touched.is_empty() {
        feed = Some(Feed::lock(db, now).await?);
    }
    let claimed_ns = feed.as_ref().map_or(0, Feed::claimed_ns);
    for names in found.gone.chunks(AT_ONCE) {
        let named = [repo.clone().into(), names.to_vec().into()];
        db.execute(&sql::DROP_TAGS, &named).await?;
    }
    for judged in found.judged.chunks(AT_ONCE) {
        let rows = judged.iter();
        let rows: Vec<_> = rows
            .map(|(at, judged)| found.seen[*at].row(judged))
            .collect();
        let rest = [repo.clone().into(), claimed_ns.into()];
        db.execute_rows(&sql::PUT_TAGS, &tag_columns(&rows), &rest)
            .await?;
    }
    if let Some(feed) = feed {
        feed.settle(db, touched, &found).await?;
    }
    if !found.gone.is_empty() || !found.before.is_empty() {
        forget_unused(db, &repo).await?;
    }
    let end = [
        repo.into(),
        now.into(),
        found.etag.into(),
        found.policy.into(),
        found.more_tags.into(),
        found.more_claims.into(),
    ];
    db.execute(&sql::END_REPO, &end).await?;
    Ok(())
}

/// Forgets what was learned about commits that no tag is at.
async fn forget_unused(db: &mut Connection<'_>, repo: &str) -> Result<(), DbError> {
    db.execute(&sql::DROP_TIMES, &[repo.into()]).await?;
    db.execute(&sql::DROP_GO_MODS, &[repo.into()]).await?;
    Ok(())
}

async fn remove(db: &mut Connection<'_>, now: i64, repo: String) -> Result<(), DbError> {
    type Claimed = (Option<String>, Option<String>);
    let feed = Feed::lock(db, now).await?;
    let named = [repo.clone().into()];
    let claimed: Vec<Claimed> = db.fetch_all(&sql::DROP_ALL_TAGS, &named).await?;
    let touched = claimed.into_iter();
    let touched = touched.filter_map(|(path, version)| path.zip(version));
    let touched = touched.map(|pair| Touched { pair, fresh: None });
    let nothing = Publication::default();
    feed.settle(db, touched.collect(), &nothing).await?;
    forget_unused(db, &repo).await?;
    db.execute(&sql::DROP_MEMBERS, &named).await?;
    db.execute(&sql::REPO_GONE, &[repo.into(), now.into()])
        .await?;
    Ok(())
}
