//! Audiences: readers of the feed, and repositories whose audience changes.
//!
//! Invariant: a line of the feed is seen by the audience of the repository that its claim is of. A
//! line whose audience changes goes for those who saw it and comes again with a new timestamp, so
//! that no follower misses it and none keeps what it may not see any more.

use std::collections::HashSet;

use grip_db::DbError;

use super::{
    Store,
    feed_update::{FeedUpdate, Touched},
    publish::AT_ONCE,
    removal::NoClaims,
    sql::sql,
};
use crate::Audience;

/// Whom a page is for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reader {
    #[default]
    Anybody,
    /// One who may see restricted repositories, too.
    All,
}

impl Reader {
    /// Whether this one may see what that audience may.
    pub fn sees(self, audience: Audience) -> bool {
        audience.number() <= self.widest()
    }

    pub(super) fn widest(self) -> i64 {
        match self {
            Self::Anybody => Audience::Anybody.number(),
            Self::All => Audience::Readers.number(),
        }
    }
}

impl Store {
    /// Those of the repositories that this reader may not see.
    pub(crate) async fn unseen(
        &self,
        mut repos: Vec<String>,
        reader: Reader,
    ) -> Result<HashSet<String>, DbError> {
        repos.retain(|repo| !repo.contains('\0'));
        let asked = [repos.into(), reader.widest().into()];
        let unseen: Vec<(String,)> = self.db.fetch_all(&sql::UNSEEN, &asked).await?;
        Ok(unseen.into_iter().map(|(repo,)| repo).collect())
    }

    /// Gives a repository an audience, and brings the feed up to date with it. What a crash cuts off
    /// is done by the repository's next turn, because `shown` is set last.
    pub(crate) async fn set_audience(&self, repo: &str, audience: Audience) -> Result<(), DbError> {
        let mut after = Some(String::new());
        while let Some(place) = after {
            let (repo, now) = (repo.to_owned(), self.now_ms());
            let writing = self.db.write(move |mut db| {
                Box::pin(async move {
                    let named = [vec![repo.clone()].into(), audience.number().into()];
                    let _: Vec<(String,)> = db.fetch_all(&sql::SET_AUDIENCES, &named).await?;
                    let some = [repo.clone().into(), place.into(), (AT_ONCE as i64).into()];
                    let claims: Vec<(String, String, String)> =
                        db.fetch_all(&sql::CLAIMS_OF, &some).await?;
                    let last = claims.last().map(|(tag, ..)| tag.clone());
                    let last = last.filter(|_| claims.len() == AT_ONCE);
                    let touched: Vec<_> = claims
                        .into_iter()
                        .map(|(_, path, version)| Touched {
                            pair: (path, version),
                            fresh: None,
                        })
                        .collect();
                    if !touched.is_empty() {
                        let feed = FeedUpdate::lock(&mut db, now).await?;
                        feed.apply_claims(&mut db, touched, &NoClaims).await?;
                    }
                    if last.is_none() {
                        db.execute(&sql::SET_SHOWN, &[repo.into()]).await?;
                    }
                    Ok(last)
                })
            });
            after = writing.await?;
        }
        Ok(())
    }
}
