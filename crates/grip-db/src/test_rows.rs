//! Rows that tests of the database write and read.

use crate::{Db, DbError};

crate::statements! {
    mod sql {
        PUT = "INSERT INTO purgatory (node, class, key, identifier, payload, expires_at) \
               VALUES ($1, 'state', $2, 'repo', $3, 0) ON CONFLICT DO NOTHING";
        KEYS = "SELECT key FROM purgatory WHERE node = $1 ORDER BY key";
    }
}

impl Db {
    /// Writes a row of each key, in order with other such calls.
    pub(crate) async fn put<K: ToString>(&self, keys: &[K]) -> Result<(), DbError> {
        let keys: Vec<String> = keys.iter().map(ToString::to_string).collect();
        let node = self.node().to_owned();
        let written = self.write_in_order(|mut db| {
            Box::pin(async move {
                for key in keys {
                    let values = [node.as_str().into(), key.into(), "{}".repeat(100).into()];
                    db.execute(&sql::PUT, &values).await?;
                }
                Ok(())
            })
        });
        written.await
    }

    /// The keys of the rows of this node.
    pub(crate) async fn keys(&self) -> Result<Vec<String>, DbError> {
        let node = self.node().into();
        let rows: Vec<(String,)> = self.fetch_all(&sql::KEYS, &[node]).await?;
        Ok(rows.into_iter().map(|(key,)| key).collect())
    }
}
