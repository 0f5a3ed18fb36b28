//! Rows of a file on their way into a server, where a node alone becomes one of many.

use sqlx::{AssertSqlSafe, PgConnection, SqlitePool};

use super::{Db, Pool};
use crate::DbError;

/// Rows that travel at once.
const PAGE: i64 = 500;
/// Tables that migrations put something into: what the file has takes its place.
const SEEDED: [&str; 3] = ["index_clock", "index_stamps", "sumdb_log"];
/// Tables that stay where they are: those of the schema, and of clusters.
const TABLES: &str = "SELECT name FROM sqlite_master WHERE type = 'table' \
                      AND name NOT LIKE 'sqlite%' AND name NOT LIKE '%sqlx%' \
                      AND name NOT LIKE 'cluster%' ORDER BY name";

impl Db {
    /// Says whether no node has kept anything on this server; a file is never asked.
    pub async fn is_unused(&self, file: &Db) -> Result<bool, DbError> {
        let (Pool::Sqlite(from), Pool::Postgres(to)) = (&file.inner.pool, &self.inner.pool) else {
            return Ok(false);
        };
        let mut to = to.acquire().await?;
        for table in tables(from).await? {
            let text = format!("SELECT EXISTS (SELECT 1 FROM \"{table}\")");
            let is_used = sqlx::query_scalar(AssertSqlSafe(text));
            let is_used: bool = is_used
                .fetch_one(to.link())
                .await
                .map_err(DbError::of_server)?;
            if is_used && !SEEDED.contains(&table.as_str()) {
                return Ok(false);
            }
        }
        to.release();
        Ok(true)
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

async fn take_table(
    from: &SqlitePool,
    to: &mut PgConnection,
    table: &str,
    node: &str,
) -> Result<u64, DbError> {
    let columns = sqlx::query_scalar("SELECT name FROM pragma_table_info($1)").bind(table);
    let columns: Vec<String> = columns.fetch_all(from).await.map_err(DbError::of_file)?;
    let quoted: Vec<String> = columns.iter().map(|name| format!("\"{name}\"")).collect();
    let quoted = quoted.join(", ");
    let pairs = columns.iter().map(|name| match name.as_str() {
        "node" => "'node', $3".to_owned(),
        name => format!("'{name}', \"{name}\""),
    });
    let pairs = pairs.collect::<Vec<_>>().join(", ");
    // The third value is named in every case: engines count them.
    let page = format!(
        "SELECT count(*), coalesce(json_group_array(json_object({pairs})), '[]') \
         FROM (SELECT *, $3 AS n FROM \"{table}\" LIMIT $1 OFFSET $2)"
    );
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
    let mut taken = 0;
    loop {
        let reading = sqlx::query_as(AssertSqlSafe(page.clone()));
        let reading = reading.bind(PAGE).bind(taken).bind(node).fetch_one(from);
        let (count, rows): (i64, String) = reading.await.map_err(DbError::of_file)?;
        if count == 0 {
            break;
        }
        let putting = sqlx::query(AssertSqlSafe(put.clone())).bind(rows);
        let done = putting.execute(&mut *to).await;
        done.map_err(DbError::of_server)?;
        taken += count;
    }
    count_on(to, table, &columns).await?;
    Ok(taken.unsigned_abs())
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
