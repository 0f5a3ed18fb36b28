//! What was done so far.

use grip_db::DbError;
use serde::Serialize;

use super::{Admin, statements::sql};

/// A manifest that is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pin {
    pub id: String,
    pub name: String,
    pub pinned_by: String,
    pub pinned_at: i64,
}

/// One change that an operator made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, sqlx::FromRow)]
pub struct Audited {
    pub id: i64,
    pub at: i64,
    pub actor: String,
    pub action: String,
    pub subject: String,
    pub outcome: String,
    pub correlation: Option<String>,
}

impl Admin {
    /// What is pinned, by name.
    pub async fn pins(&self) -> Result<Vec<Pin>, DbError> {
        type Row = (String, String, String, i64);
        let rows: Vec<Row> = self
            .db
            .read(|mut db| Box::pin(async move { db.fetch_all(&sql::PINS, &[]).await }))
            .await?;
        let pin = |(id, name, pinned_by, pinned_at)| Pin {
            id,
            name,
            pinned_by,
            pinned_at,
        };
        Ok(rows.into_iter().map(pin).collect())
    }

    /// The last changes, the latest first.
    pub async fn audit(&self, limit: u32) -> Result<Vec<Audited>, DbError> {
        let limit = i64::from(limit.min(1_000));
        self.db
            .read(move |mut db| {
                Box::pin(async move { db.fetch_all(&sql::AUDITED, &[limit.into()]).await })
            })
            .await
    }
}
