//! Rows of a file on their way into a server: a node alone becomes one of many, or a backup is brought back.

use futures_util::TryStreamExt as _;
use sqlx::{AssertSqlSafe, PgConnection, SqlitePool};

use super::{Db, OnProgress, Pool, rows::Page};
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
    /// unless it has some here, those that nodes share unless there are any. `on_progress` is told rows.
    pub async fn take_missing_rows(
        &self,
        file: &Db,
        node: &str,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<RowsTaken, DbError> {
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
        let is_new = !have_rows(to.link(), &of_nodes, Some(node)).await?;
        let is_first = !have_rows(to.link(), &of_all, None).await?;
        let of_nodes = if is_new { of_nodes } else { Vec::new() };
        let of_all = if is_first { of_all } else { Vec::new() };
        let mut transfer = Transfer {
            total: count(from, of_nodes.iter().chain(&of_all)).await?,
            taken: 0,
            from,
            node,
            on_progress,
        };
        let own = transfer.take(to.link(), &of_nodes).await?;
        let shared = transfer.take(to.link(), &of_all).await?;
        let committed = sqlx::raw_sql("COMMIT").execute(to.link()).await;
        committed.map_err(DbError::of_server)?;
        to.release();
        Ok(RowsTaken {
            own: is_new.then_some(own),
            shared: is_first.then_some(shared),
        })
    }

    /// Copies all rows of a file into this server, those of a node under the name `node`, and says how
    /// many. Rows that are there stay: what was cut short is gone on with by the next call. `on_progress`
    /// is told rows.
    pub async fn take_rows(
        &self,
        file: &Db,
        node: &str,
        on_progress: &mut OnProgress<'_>,
    ) -> Result<u64, DbError> {
        let (Pool::Sqlite(from), Pool::Postgres(to)) = (&file.inner.pool, &self.inner.pool) else {
            return Ok(0);
        };
        let tables = tables(from).await?;
        let mut transfer = Transfer {
            total: count(from, &tables).await?,
            taken: 0,
            from,
            node,
            on_progress,
        };
        let mut to = to.acquire().await?;
        let taken = transfer.take(to.link(), &tables).await?;
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

/// Whether one of these tables has rows, of one node or at all.
async fn have_rows(
    to: &mut PgConnection,
    tables: &[String],
    node: Option<&str>,
) -> Result<bool, DbError> {
    for table in tables {
        if has_rows(to, table, node).await? {
            return Ok(true);
        }
    }
    Ok(false)
}

async fn count(
    from: &SqlitePool,
    tables: impl IntoIterator<Item = &String>,
) -> Result<u64, DbError> {
    let mut total = 0;
    for table in tables {
        let text = AssertSqlSafe(format!("SELECT count(*) FROM \"{table}\""));
        let rows: i64 = sqlx::query_scalar(text)
            .fetch_one(from)
            .await
            .map_err(DbError::of_file)?;
        total += rows.unsigned_abs();
    }
    Ok(total)
}

/// Rows of a file on their way, and how many of them have arrived.
struct Transfer<'a> {
    from: &'a SqlitePool,
    /// The name under which a node has its rows.
    node: &'a str,
    taken: u64,
    total: u64,
    on_progress: &'a mut OnProgress<'a>,
}

impl Transfer<'_> {
    /// Takes all rows of these tables, and says how many.
    async fn take(&mut self, to: &mut PgConnection, tables: &[String]) -> Result<u64, DbError> {
        let before = self.taken;
        for table in tables {
            self.take_table(to, table).await?;
        }
        Ok(self.taken - before)
    }

    async fn take_table(&mut self, to: &mut PgConnection, table: &str) -> Result<(), DbError> {
        let from = self.from;
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
            reading = reading.bind(self.node);
        }
        let mut rows = reading.fetch(from);
        let (mut page, mut seen) = (Page::default(), self.taken);
        loop {
            let row: Option<String> = rows.try_next().await.map_err(DbError::of_file)?;
            let is_last = row.is_none();
            seen += u64::from(!is_last);
            let full = match row {
                Some(row) => page.push(&row),
                None => page.take(),
            };
            if let Some(rows) = full {
                let putting = sqlx::query(AssertSqlSafe(put.clone())).bind(rows);
                let done = putting.execute(&mut *to).await;
                done.map_err(DbError::of_server)?;
                self.taken = seen;
                (self.on_progress)(self.taken, self.total);
            }
            if is_last {
                break;
            }
        }
        count_on(to, table, &columns).await
    }
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
