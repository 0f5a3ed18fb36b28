//! Rows of a file on their way into a server: a node alone becomes one of many, or a backup is brought back.

use futures_util::TryStreamExt as _;
use sqlx::{AssertSqlSafe, PgConnection, SqlitePool};

use super::{Db, Pool, rows::Page};
use crate::DbError;

/// Tables that migrations put something into: what the file has takes its place.
pub(super) const SEEDED: [&str; 3] = ["index_clock", "index_stamps", "sumdb_log"];
/// Tables that stay where they are: those of the schema, and of clusters.
const TABLES: &str = "SELECT name FROM sqlite_master WHERE type = 'table' \
                      AND name NOT LIKE 'sqlite%' AND name NOT LIKE '%sqlx%' \
                      AND name NOT LIKE 'cluster%' ORDER BY name";

/// How many rows a server took of a file; none of those that it had already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowsTaken {
    /// Rows that each node has to itself.
    pub own: Option<u64>,
    /// Rows that all nodes share.
    pub shared: Option<u64>,
}

impl Db {
    /// Says whether no node has kept anything on this server; a file is never asked.
    pub async fn is_unused(&self, file: &Db) -> Result<bool, DbError> {
        let (Pool::Sqlite(from), Pool::Postgres(to)) = (&file.inner.pool, &self.inner.pool) else {
            return Ok(false);
        };
        let mut to = to.acquire().await?;
        for table in tables(from).await? {
            if has_rows(to.link(), &table, None).await? {
                return Ok(false);
            }
        }
        to.release();
        Ok(true)
    }

    /// Copies the rows of a file into this server in one transaction: those of a node under the name `node`
    /// unless it has some here, those that nodes share unless there are any.
    pub async fn take_missing_rows(&self, file: &Db, node: &str) -> Result<RowsTaken, DbError> {
        let (Pool::Sqlite(from), Pool::Postgres(to)) = (&file.inner.pool, &self.inner.pool) else {
            return Ok(RowsTaken::default());
        };
        let (mut of_nodes, mut of_all) = (Vec::new(), Vec::new());
        for table in tables(from).await? {
            let columns = columns(from, &table).await?;
            let is_of_nodes = columns.iter().any(|column| column == "node");
            let tables = if is_of_nodes {
                &mut of_nodes
            } else {
                &mut of_all
            };
            tables.push(table);
        }
        let mut to = to.acquire().await?;
        let begun = sqlx::raw_sql("BEGIN").execute(to.link()).await;
        begun.map_err(DbError::of_server)?;
        let own = take_unless_there(from, to.link(), &of_nodes, node, Some(node)).await?;
        let shared = take_unless_there(from, to.link(), &of_all, node, None).await?;
        let committed = sqlx::raw_sql("COMMIT").execute(to.link()).await;
        committed.map_err(DbError::of_server)?;
        to.release();
        Ok(RowsTaken { own, shared })
    }

    /// Copies all rows of a file into this server, those of a node under the name `node`, and says how
    /// many. Rows that are there stay: what was cut short is gone on with by the next call.
    pub async fn take_rows(&self, file: &Db, node: &str) -> Result<u64, DbError> {
        let (Pool::Sqlite(from), Pool::Postgres(to)) = (&file.inner.pool, &self.inner.pool) else {
            return Ok(0);
        };
        let mut to = to.acquire().await?;
        let mut taken = 0;
        for table in tables(from).await? {
            taken += take_table(from, to.link(), &table, node).await?;
        }
        to.release();
        Ok(taken)
    }

    /// Gives the rows of one node to another name.
    pub async fn rename_rows(&self, from: &str, to: &str) -> Result<u64, DbError> {
        let Pool::Postgres(pool) = &self.inner.pool else {
            return Ok(0);
        };
        let mut pooled = pool.acquire().await?;
        let mut renamed = 0;
        let named = "SELECT table_name FROM information_schema.columns \
                     WHERE table_schema = current_schema() AND column_name = 'node' \
                     AND table_name NOT LIKE 'cluster%' ORDER BY table_name";
        let tables = sqlx::query_scalar(named).fetch_all(pooled.link()).await;
        let tables: Vec<String> = tables.map_err(DbError::of_server)?;
        for table in tables {
            let text = format!("UPDATE \"{table}\" SET node = $2 WHERE node = $1");
            let update = sqlx::query(AssertSqlSafe(text)).bind(from).bind(to);
            let done = update.execute(pooled.link()).await;
            renamed += done.map_err(DbError::of_server)?.rows_affected();
        }
        pooled.release();
        Ok(renamed)
    }
}

async fn tables(from: &SqlitePool) -> Result<Vec<String>, DbError> {
    let tables = sqlx::query_scalar(TABLES).fetch_all(from).await;
    tables.map_err(DbError::of_file)
}

async fn columns(from: &SqlitePool, table: &str) -> Result<Vec<String>, DbError> {
    let columns = sqlx::query_scalar("SELECT name FROM pragma_table_info($1)").bind(table);
    columns.fetch_all(from).await.map_err(DbError::of_file)
}

/// Whether a table has rows, of one node or at all; those that migrations put there do not count.
async fn has_rows(to: &mut PgConnection, table: &str, node: Option<&str>) -> Result<bool, DbError> {
    if SEEDED.contains(&table) {
        return Ok(false);
    }
    let condition = node.map_or("", |_| "WHERE node = $1");
    let text = format!("SELECT EXISTS (SELECT 1 FROM \"{table}\" {condition})");
    let mut question = sqlx::query_scalar(AssertSqlSafe(text));
    if let Some(node) = node {
        question = question.bind(node);
    }
    question.fetch_one(to).await.map_err(DbError::of_server)
}

/// Takes these tables if none of them has rows yet, of one node or at all.
async fn take_unless_there(
    from: &SqlitePool,
    to: &mut PgConnection,
    tables: &[String],
    node: &str,
    of_node: Option<&str>,
) -> Result<Option<u64>, DbError> {
    for table in tables {
        if has_rows(to, table, of_node).await? {
            return Ok(None);
        }
    }
    let mut taken = 0;
    for table in tables {
        taken += take_table(from, to, table, node).await?;
    }
    Ok(Some(taken))
}

async fn take_table(
    from: &SqlitePool,
    to: &mut PgConnection,
    table: &str,
    node: &str,
) -> Result<u64, DbError> {
    let columns = columns(from, table).await?;
    let quoted: Vec<String> = columns.iter().map(|name| format!("\"{name}\"")).collect();
    let quoted = quoted.join(", ");
    let pairs = columns.iter().map(|name| match name.as_str() {
        "node" => "'node', $1".to_owned(),
        name => format!("'{name}', \"{name}\""),
    });
    let pairs = pairs.collect::<Vec<_>>().join(", ");
    let read = format!("SELECT json_object({pairs}) FROM \"{table}\"");
    let put = format!(
        "INSERT INTO \"{table}\" ({quoted}) OVERRIDING SYSTEM VALUE \
         SELECT {quoted} FROM jsonb_populate_recordset(NULL::\"{table}\", $1::jsonb) \
         ON CONFLICT DO NOTHING"
    );
    if SEEDED.contains(&table) {
        let clear = AssertSqlSafe(format!("DELETE FROM \"{table}\""));
        let cleared = sqlx::query(clear).execute(&mut *to).await;
        cleared.map_err(DbError::of_server)?;
    }
    let mut reading = sqlx::query_scalar(AssertSqlSafe(read));
    if columns.iter().any(|column| column == "node") {
        reading = reading.bind(node);
    }
    let mut rows = reading.fetch(from);
    let (mut page, mut taken) = (Page::default(), 0);
    loop {
        let row: Option<String> = rows.try_next().await.map_err(DbError::of_file)?;
        let is_last = row.is_none();
        taken += u64::from(!is_last);
        let full = match row {
            Some(row) => page.push(&row),
            None => page.take(),
        };
        if let Some(rows) = full {
            let putting = sqlx::query(AssertSqlSafe(put.clone())).bind(rows);
            let done = putting.execute(&mut *to).await;
            done.map_err(DbError::of_server)?;
        }
        if is_last {
            break;
        }
    }
    count_on(to, table, &columns).await?;
    Ok(taken)
}

/// Has numbers that the server gives out begin after those that were taken.
async fn count_on(to: &mut PgConnection, table: &str, columns: &[String]) -> Result<(), DbError> {
    if !columns.iter().any(|column| column == "id") {
        return Ok(());
    }
    let sequence = format!("SELECT pg_get_serial_sequence('\"{table}\"', 'id')");
    let sequence = sqlx::query_scalar(AssertSqlSafe(sequence));
    let sequence = sequence.fetch_one(&mut *to).await;
    let sequence: Option<String> = sequence.map_err(DbError::of_server)?;
    let Some(sequence) = sequence else {
        return Ok(());
    };
    let text = format!("SELECT setval($1, greatest((SELECT max(id) FROM \"{table}\"), 1))");
    let count = sqlx::query(AssertSqlSafe(text)).bind(sequence);
    let counted = count.execute(to).await;
    counted.map(drop).map_err(DbError::of_server)
}
