//! Comparison of the served repositories with the index at start, for what a crash left unindexed.

use std::collections::HashMap;

use futures_util::future::BoxFuture;
use grip_db::{Db, DbError, Value};
use grip_git::Repositories;
use grip_types::RepoAddr;

use super::{Hosted, PAGE, digest};
use crate::{Source as _, SourceError};

grip_db::statements! {
    pub(super) mod sql {
        ETAGS = "SELECT org_repo_name, etag FROM repos \
                 WHERE gone_at IS NULL AND org_repo_name {in $1}";
        KNOWN = "SELECT s.org_repo_name FROM repo_sources s
            JOIN repos r ON r.org_repo_name = s.org_repo_name
            WHERE s.source = $1 AND s.org_repo_name > $2 AND r.gone_at IS NULL
            ORDER BY s.org_repo_name
            LIMIT $3";
    }
}

/// How a comparison went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CaughtUp {
    pub looked_at: usize,
    /// Those that differ from what the index knows, or are served no more.
    pub changed: usize,
}

impl Hosted {
    /// Compares all repositories with what the index knows of them, and names those that differ
    /// to `changed`, a page at a time.
    ///
    /// For the start of a node; to call it again is harmless. Repositories whose refs cannot be
    /// read are named as well: their job has a place for the reason.
    pub async fn catch_up(
        &self,
        db: &Db,
        mut changed: impl FnMut(Vec<String>) -> BoxFuture<'static, Result<(), DbError>> + Send,
    ) -> Result<CaughtUp, DbError> {
        let mut sum = CaughtUp::default();
        let mut after: Option<RepoAddr> = None;
        loop {
            let page = self.inner.served.page(after.as_ref(), PAGE);
            let last = page.last().filter(|_| page.len() >= PAGE).cloned();
            sum.looked_at += page.len();
            let differing = self.differing(db, page).await?;
            sum.changed += differing.len();
            if !differing.is_empty() {
                changed(differing).await?;
            }
            after = last;
            if after.is_none() {
                break;
            }
        }
        let mut after = String::new();
        loop {
            let page = self.known_after(db, after).await?;
            let last = page.last().filter(|_| page.len() >= PAGE).cloned();
            let is_gone = |name: &String| self.served_repository(name).is_none();
            let gone: Vec<String> = page.into_iter().filter(is_gone).collect();
            sum.changed += gone.len();
            if !gone.is_empty() {
                changed(gone).await?;
            }
            match last {
                Some(last) => after = last,
                None => break,
            }
        }
        Ok(sum)
    }

    async fn differing(&self, db: &Db, page: Vec<RepoAddr>) -> Result<Vec<String>, DbError> {
        let names: Vec<String> = page.iter().map(|repo| self.name_of(repo)).collect();
        let values = [Value::from(names.clone())];
        let known: Vec<(String, Option<String>)> = db.fetch_all(&sql::ETAGS, &values).await?;
        let mut known: HashMap<String, Option<String>> = known.into_iter().collect();
        let digests = self
            .off_runtime(move |repositories| Ok(digests(repositories, &page)))
            .await;
        // Cut short by a shutdown: the next start compares again.
        let digests = digests.unwrap_or_else(|_: SourceError| Vec::new());
        let differs = |(name, digest): (String, Option<String>)| {
            let etag = known.remove(&name).flatten();
            (digest.is_none() || etag != digest).then_some(name)
        };
        Ok(names.into_iter().zip(digests).filter_map(differs).collect())
    }

    async fn known_after(&self, db: &Db, after: String) -> Result<Vec<String>, DbError> {
        let values = [Value::from(self.name()), after.into(), (PAGE as i64).into()];
        let rows: Vec<(String,)> = db.fetch_all(&sql::KNOWN, &values).await?;
        Ok(rows.into_iter().map(|(name,)| name).collect())
    }
}

/// What the tags of each repository are recognised by; none where they cannot be read.
fn digests(repositories: &Repositories, page: &[RepoAddr]) -> Vec<Option<String>> {
    let digest = |repo| repositories.refs(repo).ok().map(|refs| digest::of(&refs));
    page.iter().map(digest).collect()
}
