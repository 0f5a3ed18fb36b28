//! The purgatory's durable copy: what is held survives a crash.

use sqlx::{SqliteConnection, SqlitePool};

use crate::{JournalError, writer};

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

/// Reads and writes the held entries. Cheap to clone.
#[derive(Clone)]
pub struct Journal {
    readers: SqlitePool,
    writer: writer::Handle,
}

impl Journal {
    pub(crate) fn new(readers: SqlitePool, writer: writer::Handle) -> Self {
        Self { readers, writer }
    }

    /// Reads all rows, by class and key.
    pub async fn load(&self) -> Result<Vec<Row>, JournalError> {
        let rows = sqlx::query_as(
            "SELECT class, key, identifier, payload, expires_at FROM purgatory ORDER BY class, key",
        )
        .fetch_all(&self.readers)
        .await;
        rows.map_err(|error| match error {
            sqlx::Error::PoolClosed => JournalError::Closed,
            error => JournalError::new(error),
        })
    }

    /// Makes the changes in their order, all or none; they are on the disk when it returns.
    ///
    /// Concurrent calls share a commit. When more wait than the queue holds, the caller waits for
    /// a place. A caller that stops waiting does not take its changes back: they may still be
    /// made, all or none.
    pub async fn apply(&self, changes: &[Change]) -> Result<(), JournalError> {
        if changes.is_empty() {
            return Ok(());
        }
        self.writer.apply(changes.to_vec()).await
    }
}

impl Change {
    pub(crate) async fn write(&self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        let query = match self {
            Self::Put(row) => sqlx::query(
                "INSERT INTO purgatory (class, key, identifier, payload, expires_at) \
                 VALUES (?1, ?2, ?3, ?4, ?5) \
                 ON CONFLICT (class, key) DO UPDATE SET identifier = excluded.identifier, \
                 payload = excluded.payload, expires_at = excluded.expires_at",
            )
            .bind(&row.class)
            .bind(&row.key)
            .bind(&row.identifier)
            .bind(&row.payload)
            .bind(row.expires_at),
            Self::Remove { class, key } => {
                sqlx::query("DELETE FROM purgatory WHERE class = ?1 AND key = ?2")
                    .bind(class)
                    .bind(key)
            }
        };
        query.execute(connection).await.map(|_| ())
    }
}

#[cfg(test)]
mod tests;
