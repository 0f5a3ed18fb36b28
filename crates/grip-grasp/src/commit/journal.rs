//! The rows of held entries: the durable copy of the purgatory.

use grip_db::{Connection, Db, DbError, Value};
use grip_purgatory::{Change, Row};

/// Reads and writes the rows of this node. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Journal {
    db: Db,
}

grip_db::statements! {
    pub(crate) mod sql {
        LOAD = "SELECT class, key, identifier, payload, expires_at FROM purgatory \
                WHERE node = $1 ORDER BY class, key";
        PUT = "INSERT INTO purgatory (node, class, key, identifier, payload, expires_at) \
               VALUES ($1, $2, $3, $4, $5, $6) \
               ON CONFLICT (node, class, key) DO UPDATE SET identifier = excluded.identifier, \
               payload = excluded.payload, expires_at = excluded.expires_at";
        REMOVE = "DELETE FROM purgatory WHERE node = $1 AND class = $2 AND key = $3";
    }
}

impl Journal {
    pub(super) fn new(db: Db) -> Self {
        Self { db }
    }

    pub(crate) fn db(&self) -> &Db {
        &self.db
    }

    /// Reads all rows, by class and key.
    pub(super) async fn load(&self) -> Result<Vec<Row>, DbError> {
        let node = self.db.node().to_owned();
        let read = self
            .db
            .read(|mut db| Box::pin(async move { db.fetch_all(&sql::LOAD, &[node.into()]).await }));
        let rows: Vec<(String, String, String, String, i64)> = read.await?;
        let row = |(class, key, identifier, payload, expires_at)| Row {
            class,
            key,
            identifier,
            payload,
            expires_at,
        };
        Ok(rows.into_iter().map(row).collect())
    }

    /// Makes the changes in their order, as a part of the caller's transaction.
    pub(crate) async fn write(
        &self,
        db: &mut Connection<'_>,
        changes: Vec<Change>,
    ) -> Result<(), DbError> {
        for change in changes {
            let node = Value::from(self.db.node());
            match change {
                Change::Put(row) => {
                    let values = [
                        node,
                        row.class.into(),
                        row.key.into(),
                        row.identifier.into(),
                        row.payload.into(),
                        row.expires_at.into(),
                    ];
                    db.execute(&sql::PUT, &values).await?;
                }
                Change::Remove { class, key } => {
                    let named = [node, class.into(), key.into()];
                    db.execute(&sql::REMOVE, &named).await?;
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use grip_db::{on_both_engines, prepare_all};

    use super::*;

    fn row(key: &str, payload: &str) -> Row {
        Row {
            class: "state".into(),
            key: key.into(),
            identifier: "naïve repo".into(),
            payload: payload.into(),
            expires_at: i64::MAX,
        }
    }

    fn remove(key: &str) -> Change {
        Change::Remove {
            class: "state".into(),
            key: key.into(),
        }
    }

    async fn apply(journal: &Journal, changes: &[Change]) -> Result<(), DbError> {
        let (writing, changes) = (journal.clone(), changes.to_vec());
        let written = journal.db.write_in_order(|mut db| {
            Box::pin(async move { writing.write(&mut db, changes).await })
        });
        written.await
    }

    on_both_engines! {
        async fn what_was_applied_is_there_after_a_reopen(database: TestDatabase) {
            let journal = Journal::new(database.db().clone());
            let (a, b) = (row("a", "{}"), row("b", "{\"x\":\"\\u0000é\"}"));
            let changes = [Change::Put(a.clone()), Change::Put(b.clone())];
            apply(&journal, &changes).await.unwrap();
            drop(journal);
            let database = database.reopen().await;
            let journal = Journal::new(database.db().clone());
            assert_eq!(journal.load().await.unwrap(), [a, b]);
        }

        async fn changes_are_made_in_their_order(database: TestDatabase) {
            let journal = Journal::new(database.db().clone());
            let changes = [
                Change::Put(row("a", "1")),
                remove("a"),
                Change::Put(row("b", "1")),
                Change::Put(row("b", "2")),
                remove("never there"),
            ];
            apply(&journal, &changes).await.unwrap();
            assert_eq!(journal.load().await.unwrap(), [row("b", "2")]);
        }

        async fn a_closed_database_says_so(database: TestDatabase) {
            let journal = Journal::new(database.db().clone());
            database.db().close().await;
            let put = [Change::Put(row("a", "1"))];
            assert!(matches!(apply(&journal, &put).await, Err(DbError::Closed)));
            assert!(matches!(journal.load().await, Err(DbError::Closed)));
        }

        async fn a_large_payload_round_trips(database: TestDatabase) {
            let journal = Journal::new(database.db().clone());
            let large = row("a", &"x".repeat(2 << 20));
            apply(&journal, &[Change::Put(large.clone())]).await.unwrap();
            assert_eq!(journal.load().await.unwrap(), [large]);
        }

        async fn every_statement_is_understood(database: TestDatabase) {
            prepare_all(database.db(), sql::ALL).await.unwrap();
        }
    }
}
