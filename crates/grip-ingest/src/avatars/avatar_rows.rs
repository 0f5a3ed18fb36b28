//! Rows that say which user has which avatar.

use grip_db::{Db, DbError, Value};

grip_db::statements! {
    pub(crate) mod sql {
        WANTED = "SELECT u.avatar_url, a.url, a.digest, a.etag FROM github_users u \
                  LEFT JOIN avatars a ON a.user_id = u.id WHERE u.id = $1";
        // People after $1 whose picture was not fetched since $2, or from elsewhere.
        WITHOUT = "SELECT u.id FROM github_users u LEFT JOIN avatars a ON a.user_id = u.id \
                   WHERE u.id > $1 AND u.avatar_url IS NOT NULL AND u.avatar_url <> '' \
                   AND (a.user_id IS NULL OR a.fetched_at < $2 OR a.url <> u.avatar_url) \
                   ORDER BY u.id LIMIT $3";
        DIGEST = "SELECT digest FROM avatars WHERE user_id = $1";
        // $user, $url, $digest, $kind, $bytes, $etag, $why, $now
        PUT = "INSERT INTO avatars (user_id, url, digest, kind, bytes, etag, why, fetched_at) \
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (user_id) DO UPDATE SET \
               url = excluded.url, digest = excluded.digest, kind = excluded.kind, \
               bytes = excluded.bytes, etag = excluded.etag, why = excluded.why, \
               fetched_at = excluded.fetched_at";
        TOUCH = "UPDATE avatars SET fetched_at = $2, why = NULL WHERE user_id = $1";
        // One that is kept stays, with the reason why there is no newer one.
        EXCUSE = "INSERT INTO avatars (user_id, url, why, fetched_at) VALUES ($1, $2, $3, $4) \
                  ON CONFLICT (user_id) DO UPDATE SET url = excluded.url, etag = NULL, \
                  why = excluded.why, fetched_at = excluded.fetched_at";
        FORGET = "UPDATE avatars SET digest = NULL, kind = NULL, bytes = NULL, etag = NULL, \
                  fetched_at = 0 WHERE user_id = $1 AND digest = $2";
        GONE = "SELECT user_id, digest FROM avatars WHERE NOT EXISTS \
                (SELECT 1 FROM github_users WHERE github_users.id = avatars.user_id) LIMIT $1";
        DROP = "DELETE FROM avatars WHERE user_id = $1";
        NAMED = "SELECT count(*) FROM avatars WHERE digest = $1";
    }
}

/// The table of avatars.
pub(super) struct AvatarRows {
    db: Db,
}

/// What to fetch, and what is there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    pub(super) url: String,
    pub(super) digest: Option<String>,
    /// Of the picture that is there, if it came from the same address.
    pub(super) etag: Option<String>,
}

/// A picture that is in the store.
pub(super) struct Kept {
    pub(super) url: String,
    pub(super) digest: String,
    pub(super) kind: &'static str,
    pub(super) bytes: usize,
    pub(super) etag: Option<String>,
}

type WantedRow = (
    Option<String>,
    Option<String>,
    Option<String>,
    Option<String>,
);

impl AvatarRows {
    pub(super) fn new(db: Db) -> Self {
        Self { db }
    }

    pub(super) fn now_ms(&self) -> i64 {
        self.db.now_ms()
    }

    /// What is to be fetched for somebody; none if he is not known, or has no picture.
    pub(super) async fn wanted(&self, user: i64) -> Result<Option<Wanted>, DbError> {
        let values = [user.into()];
        let row: Option<WantedRow> = self.db.fetch_optional(&sql::WANTED, &values).await?;
        let Some((Some(url), known_url, digest, etag)) = row else {
            return Ok(None);
        };
        let is_same = digest.is_some() && known_url.as_ref() == Some(&url);
        let wanted = Wanted {
            etag: etag.filter(|_| is_same),
            url,
            digest,
        };
        Ok(Some(wanted).filter(|wanted| !wanted.url.is_empty()))
    }

    pub(super) async fn without(
        &self,
        after: i64,
        before_ms: i64,
        limit: usize,
    ) -> Result<Vec<i64>, DbError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let values = [after.into(), before_ms.into(), limit.into()];
        let rows: Vec<(i64,)> = self.db.fetch_all(&sql::WITHOUT, &values).await?;
        Ok(rows.into_iter().map(|(user,)| user).collect())
    }

    pub(super) async fn digest(&self, user: i64) -> Result<Option<String>, DbError> {
        let values = [user.into()];
        let row: Option<(Option<String>,)> = self.db.fetch_optional(&sql::DIGEST, &values).await?;
        Ok(row.and_then(|(digest,)| digest))
    }

    pub(super) async fn put(&self, user: i64, kept: Kept) -> Result<(), DbError> {
        let values = [
            user.into(),
            kept.url.into(),
            kept.digest.into(),
            kept.kind.into(),
            i64::try_from(kept.bytes).unwrap_or(i64::MAX).into(),
            kept.etag.into(),
            Value::MaybeText(None),
            self.now_ms().into(),
        ];
        self.db.execute(&sql::PUT, &values).await.map(drop)
    }

    /// Notes that what is there is still so.
    pub(super) async fn touch(&self, user: i64) -> Result<(), DbError> {
        let values = [user.into(), self.now_ms().into()];
        self.db.execute(&sql::TOUCH, &values).await.map(drop)
    }

    /// Notes why there is no picture, or no newer one.
    pub(super) async fn put_reason(&self, user: i64, url: &str, why: &str) -> Result<(), DbError> {
        let why: String = why.chars().filter(|c| !c.is_control()).take(300).collect();
        let values = [user.into(), url.into(), why.into(), self.now_ms().into()];
        self.db.execute(&sql::EXCUSE, &values).await.map(drop)
    }

    pub(super) async fn forget(&self, user: i64, digest: &str) -> Result<(), DbError> {
        let values = [user.into(), digest.into()];
        self.db.execute(&sql::FORGET, &values).await.map(drop)
    }

    /// People who are not known any more, and their pictures.
    pub(super) async fn gone(&self, limit: usize) -> Result<Vec<(i64, Option<String>)>, DbError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let values = [limit.into()];
        self.db.fetch_all(&sql::GONE, &values).await
    }

    pub(super) async fn remove(&self, user: i64) -> Result<(), DbError> {
        self.db.execute(&sql::DROP, &[user.into()]).await.map(drop)
    }

    /// Whether anybody has this picture.
    pub(super) async fn is_named(&self, digest: &str) -> Result<bool, DbError> {
        let values = [digest.into()];
        let (count,): (i64,) = self.db.fetch_one(&sql::NAMED, &values).await?;
        Ok(count > 0)
    }
}
