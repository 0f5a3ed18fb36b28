//! The purgatory's durable copy: what is held survives a crash.

use crate::{Connection, Db, DbError, Value};

/// One held entry. `class` and `key` name it; the rest is its owner's business.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Row {
    pub class: String,
    pub key: String,
    pub identifier: String,
    /// JSON.
    pub payload: String,
    /// Milliseconds since 1970.
    pub expires_at: i64,
}

/// One step of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Writes the row, over an older one of the same class and key.
    Put(Row),
    /// Removes the row if it is there.
    Remove { class: String, key: String },
}

/// Reads and writes the held entries of this node. Cheap to clone.
#[derive(Clone)]
pub struct Journal {
    db: Db,
}

crate::statements! {
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
    pub(crate) fn new(db: Db) -> Self {
        Self { db }
    }

    /// Where it is kept.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Reads all rows, by class and key.
    pub async fn load(&self) -> Result<Vec<Row>, DbError> {
        let node = self.db.node().to_owned();
        let read = self
            .db
            .read(|mut db| Box::pin(async move { db.fetch_all(&sql::LOAD, &[node.into()]).await }));
        read.await
    }

    /// Makes the changes in their order, all or none; they are on the disk when it returns.
    /// Calls take effect in the order in which they are made.
    ///
    /// Concurrent calls share a commit. When more wait than the queue holds, the caller waits for
    /// a place. A caller that stops waiting does not take its changes back: they may still be
    /// made, all or none.
    pub async fn apply(&self, changes: &[Change]) -> Result<(), DbError> {
        if changes.is_empty() {
            return Ok(());
        }
        let (journal, changes) = (self.clone(), changes.to_vec());
        let written = self.db.write_in_order(|mut db| {
            Box::pin(async move { journal.apply_in(&mut db, changes).await })
        });
        written.await
    }

    /// Like [`Journal::apply`], as a part of the caller's transaction.
    pub async fn apply_in(
        &self,
        db: &mut Connection<'_>,
        changes: Vec<Change>,
    ) -> Result<(), DbError> {
        write(db, self.db.node(), changes).await
    }
}

async fn write(db: &mut Connection<'_>, node: &str, changes: Vec<Change>) -> Result<(), DbError> {
    for change in changes {
        let node = Value::from(node);
        match change {
            Change::Put(row) => {
                let named = [node, row.class.into(), row.key.into()];
                let rest = [
                    row.identifier.into(),
                    row.payload.into(),
                    row.expires_at.into(),
                ];
                db.execute(&sql::PUT, &[named, rest].concat()).await?;
            }
            Change::Remove { class, key } => {
                let named = [node, class.into(), key.into()];
                db.execute(&sql::REMOVE, &named).await?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
