//! The same on SQLite, beside one connection that does nothing else.

use std::{path::Path, time::Duration};

use anyhow::Result;
use grip_db::Db;
use grip_queue::Queue;
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use tempfile::TempDir;
use tokio::time::Instant;

use super::{LEASE, ROUND, ROUNDS, WORKERS, Work, now_ms, ours};
use crate::report::{Table, median};

const PLAIN: &str = "UPDATE queue SET visible_at = $4, lease_token = lease_token + 1, holder = $5 \
                     WHERE id IN (SELECT id FROM queue WHERE kind = $1 AND visible_at <= $2 \
                     ORDER BY visible_at LIMIT $3) RETURNING id, lease_token, key, payload";

pub(super) async fn measure(table: &mut Table) -> Result<()> {
    for rows in [10_000, 1_000_000] {
        let directory = TempDir::new()?;
        let path = directory.path().join("queue.db");
        let queue = Queue::new(Db::open(&path).await?);
        let mut plain = connect(&path).await?;
        for kind in ["ours", "plain"] {
            let fill = format!(
                "WITH RECURSIVE n (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n LIMIT {rows}) \
                 INSERT INTO queue (kind, key, payload, visible_at, enqueued_at) \
                 SELECT '{kind}', 'github.com/some-owner/repository-' || n, '{{}}', n, 0 FROM n"
            );
            sqlx::raw_sql(AssertSqlSafe(fill))
                .execute(&mut plain)
                .await?;
        }
        for many in [1, 16] {
            compare(&queue, &mut plain, rows, many, table).await?;
        }
        if rows == 1_000_000 {
            finish(&queue, table).await?;
        }
    }
    Ok(())
}

async fn connect(path: &Path) -> Result<SqliteConnection> {
    let options = SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_secs(10));
    Ok(options.connect().await?)
}

async fn compare(
    queue: &Queue,
    plain: &mut SqliteConnection,
    rows: usize,
    many: i64,
    table: &mut Table,
) -> Result<()> {
    let (mut rates, mut floors, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..=ROUNDS {
        let ours = ours(queue, Work::Claim(many)).await?;
        let floor = plainly(plain, many).await?;
        if round > 0 {
            rates.push(ours);
            floors.push(floor);
            ratios.push(ours / floor);
        }
    }
    let (rate, floor) = (median(&mut rates), median(&mut floors));
    table.row(
        &format!("queue on SQLite: claim {many} of {rows} jobs, {WORKERS} at once"),
        format!("{rate:.0} jobs/s"),
        &format!("the statement alone, one connection: {floor:.0} jobs/s"),
        Some(median(&mut ratios)),
        "–",
    );
    Ok(())
}

async fn finish(queue: &Queue, table: &mut Table) -> Result<()> {
    let mut rates = Vec::new();
    for _ in 0..ROUNDS {
        rates.push(ours(queue, Work::ClaimAndFinish).await?);
    }
    let rate = format!("{:.0} jobs/s", median(&mut rates));
    let name = "queue on SQLite: claim 1 and finish it";
    table.row(name, rate, "–", None, "–");
    Ok(())
}

async fn plainly(db: &mut SqliteConnection, many: i64) -> Result<f64> {
    let (began, mut jobs) = (Instant::now(), 0);
    while began.elapsed() < ROUND {
        let now = now_ms();
        let rows: Vec<(i64, i64, String, String)> = sqlx::query_as(PLAIN)
            .bind("plain")
            .bind(now)
            .bind(many)
            .bind(now + LEASE.as_millis() as i64)
            .bind("bench/plain/1")
            .fetch_all(&mut *db)
            .await?;
        jobs += rows.len();
    }
    Ok(jobs as f64 / began.elapsed().as_secs_f64())
}
