//! Sources that come and leave.

use grip_db::{Connection, DbError};
use grip_queue::Queue;

use super::{Store, publish::forget_unused, removal::drop_tags, sql::sql};
use crate::Audience;

/// Repositories that are read at a time.
const AT_ONCE: i64 = 500;

impl Store {
    /// Notes that this instance has the sources in its settings.
    pub(crate) async fn configured(&self, sources: Vec<String>) -> Result<(), DbError> {
        let values = [sources.into(), self.now_ms().into()];
        self.db.execute(&sql::CONFIGURED, &values).await.map(drop)
    }

    /// The sources that no instance had in its settings after `before_ms`.
    pub(crate) async fn left_sources(&self, before_ms: i64) -> Result<Vec<String>, DbError> {
        let left: Vec<(String,)> = self.db.fetch_all(&sql::LEFT, &[before_ms.into()]).await?;
        Ok(left.into_iter().map(|(source,)| source).collect())
    }

    /// Hides the repositories that only this source lists; their tags are kept for its return.
    pub(crate) async fn hide_source(
        &self,
        queue: &Queue,
        source: &str,
        kinds: &SourceKinds,
    ) -> Result<usize, DbError> {
        let values = [source.into(), self.now_ms().into()];
        self.db.execute(&sql::SET_LEFT, &values).await?;
        let (mut after, mut hidden) = (String::new(), 0);
        loop {
            let repos = self.members(source, &after).await?;
            let Some(last) = repos.last() else {
                return Ok(hidden);
            };
            after.clone_from(last);
            for repo in repos {
                match self.other_source(&repo, source).await? {
                    Some(other) => drop(queue.reassign(&kinds.repo, &repo, &other).await?),
                    None => {
                        self.set_audience(&repo, Audience::Nobody).await?;
                        hidden += 1;
                    }
                }
            }
        }
    }

    /// Removes a source with the repositories that only it lists, and the jobs of both. Says how
    /// many repositories went.
    pub(crate) async fn forget_source(
        &self,
        queue: &Queue,
        source: &str,
        kinds: &SourceKinds,
    ) -> Result<usize, DbError> {
        let mut removed = 0;
        loop {
            // From the beginning each time, because those that were seen are members no more.
            let repos = self.members(source, "").await?;
            if repos.is_empty() {
                break;
            }
            for repo in repos {
                match self.other_source(&repo, source).await? {
                    Some(other) => drop(queue.reassign(&kinds.repo, &repo, &other).await?),
                    None => {
                        // First: without its row nothing would hide the job of a restricted one.
                        queue.remove(&kinds.repo, &repo).await?;
                        self.drop_repo(&repo).await?;
                        removed += 1;
                    }
                }
                let values = [source.into(), repo.into()];
                self.db.execute(&sql::DROP_MEMBER, &values).await?;
            }
        }
        self.db
            .execute(&sql::FORGET_SOURCE, &[source.into()])
            .await?;
        queue.remove(&kinds.list, source).await?;
        Ok(removed)
    }

    async fn members(&self, source: &str, after: &str) -> Result<Vec<String>, DbError> {
        let values = [source.into(), after.into(), AT_ONCE.into()];
        let rows: Vec<(String,)> = self.db.fetch_all(&sql::MEMBERS, &values).await?;
        Ok(rows.into_iter().map(|(repo,)| repo).collect())
    }

    async fn other_source(&self, repo: &str, source: &str) -> Result<Option<String>, DbError> {
        let all: Vec<(String, i64)> = self.db.fetch_all(&sql::SOURCES_OF, &[repo.into()]).await?;
        let mut others = all.into_iter().map(|(name, _)| name);
        Ok(others.find(|name| name != source))
    }

    /// Takes a repository out of the index that no source lists any more.
    async fn drop_repo(&self, repo: &str) -> Result<(), DbError> {
        loop {
            let (repo, now) = (repo.to_owned(), self.now_ms());
            let dropping = self.db.write(move |mut db| {
                Box::pin(async move {
                    let is_more = drop_tags(&mut db, now, &repo).await?;
                    if !is_more {
                        forget_unused(&mut db, &repo).await?;
                        forget(&mut db, &repo).await?;
                    }
                    Ok(is_more)
                })
            });
            if !dropping.await? {
                return Ok(());
            }
        }
    }
}

/// The kinds of the jobs of a source.
pub(crate) struct SourceKinds {
    pub(crate) list: String,
    pub(crate) repo: String,
}

async fn forget(db: &mut Connection<'_>, repo: &str) -> Result<(), DbError> {
    let named = [repo.into()];
    db.execute(&sql::DROP_TAG_LIST, &named).await?;
    db.execute(&sql::DROP_LISTED_TAGS, &named).await?;
    db.execute(&sql::DROP_REPO, &named).await.map(drop)
}
