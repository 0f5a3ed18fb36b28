//! Removal of a repository from the index.

use grip_db::{Connection, DbError};

use super::{
    Store,
    feed_update::{FeedUpdate, Fresh, Touched},
    publish::{AT_ONCE, Ending, forget_unused},
    sql::sql,
};
use crate::claim_rules::Claim;

impl Store {
    /// Takes a repository out of the index, and its job out of the queue. Many tags go in several
    /// transactions, as they come in several.
    pub(crate) async fn remove_repo(&self, repo: &str, ending: Ending) -> Result<(), DbError> {
        while self.remove_some(repo.to_owned(), ending.clone()).await? {}
        Ok(())
    }

    /// Says whether there is more.
    async fn remove_some(&self, repo: String, ending: Ending) -> Result<bool, DbError> {
        let now = self.now_ms();
        self.db
            .write(move |mut db| {
                Box::pin(async move {
                    let is_more = drop_tags(&mut db, now, &repo).await?;
                    if is_more {
                        ending.go_on(&mut db).await?;
                        return Ok(true);
                    }
                    forget_unused(&mut db, &repo).await?;
                    let named = [repo.clone().into()];
                    db.execute(&sql::DROP_MEMBERS, &named).await?;
                    db.execute(&sql::DROP_TAG_LIST, &named).await?;
                    db.execute(&sql::DROP_LISTED_TAGS, &named).await?;
                    if db.execute(&sql::FORGET_REPO, &named).await? == 0 {
                        let gone = [repo.into(), now.into()];
                        db.execute(&sql::REPO_GONE, &gone).await?;
                    }
                    ending.remove(&mut db).await?;
                    Ok(false)
                })
            })
            .await
    }
}

/// Says whether there are more.
pub(super) async fn drop_tags(
    db: &mut Connection<'_>,
    now: i64,
    repo: &str,
) -> Result<bool, DbError> {
    type Claimed = (Option<String>, Option<String>);
    let feed = FeedUpdate::lock(db, now).await?;
    let some = [repo.into(), (AT_ONCE as i64).into()];
    let dropped: Vec<Claimed> = db.fetch_all(&sql::DROP_SOME_TAGS, &some).await?;
    let count = dropped.len();
    let claimed = dropped.into_iter();
    let claimed = claimed.filter_map(|(path, version)| path.zip(version));
    let touched: Vec<_> = claimed.map(|pair| Touched { pair, fresh: None }).collect();
    let sums = [
        repo.into(),
        (-(count as i64)).into(),
        (-(touched.len() as i64)).into(),
    ];
    db.execute(&sql::PART_OF_REPO, &sums).await?;
    feed.apply_claims(db, touched, &NoClaims).await?;
    Ok(count == AT_ONCE)
}

/// Who removes claims nothing.
pub(super) struct NoClaims;

impl Fresh for NoClaims {
    fn claim(&self, _: usize, _: i64) -> Claim {
        unreachable!("because nothing that was touched is new")
    }
}
