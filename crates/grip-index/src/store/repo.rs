//! Begin of a repository's job: known state and stored tags.

use grip_db::DbError;

use super::{Store, TagRow, sql::sql};
use crate::Audience;

/// What is known when the turn of a repository begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    pub(crate) etag: Option<String>,
    pub(crate) policy: Option<String>,
    /// When the turn before ended.
    pub(crate) finished_ms: Option<i64>,
    /// The names of the sources that list it, and whether it is missing from the latest listing.
    pub(crate) sources: Vec<(String, bool)>,
    /// Who may see it, and what its lines in the feed were last written with.
    pub(crate) audience: Audience,
    pub(crate) shown: Audience,
}

impl Store {
    /// Notes the beginning of a turn; none for a repository that nobody knows.
    pub(crate) async fn begin_repo(&self, repo: &str) -> Result<Option<Begun>, DbError> {
        type Row = (Option<String>, Option<String>, Option<i64>, i64, i64);
        let (repo, now) = (repo.to_owned(), self.now_ms());
        self.db
            .write(move |mut db| {
                Box::pin(async move {
                    let named = [repo.clone().into(), now.into()];
                    let row: Option<Row> = db.fetch_optional(&sql::BEGIN_REPO, &named).await?;
                    let Some((etag, policy, finished_ms, audience, shown)) = row else {
                        return Ok(None);
                    };
                    let sources: Vec<(String, i64)> =
                        db.fetch_all(&sql::SOURCES_OF, &[repo.into()]).await?;
                    let sources = sources
                        .into_iter()
                        .map(|(name, missing)| (name, missing == 1));
                    let sources = sources.collect();
                    Ok(Some(Begun {
                        etag,
                        policy,
                        finished_ms,
                        sources,
                        audience: audience.into(),
                        shown: shown.into(),
                    }))
                })
            })
            .await
    }

    /// The tags that are kept, in the order of their names, from the one after `after`.
    pub(crate) async fn tags(
        &self,
        repo: &str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<TagRow>, DbError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let asked = [repo.into(), after.into(), limit.into()];
        self.db.fetch_all(&sql::TAGS, &asked).await
    }
}
