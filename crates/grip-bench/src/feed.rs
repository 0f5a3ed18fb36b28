//! A page of the module feed out of many rows, beside the bare query for the same rows.

use std::{path::Path, time::Instant};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Node, PostgresServer};
use sqlx::{
    AssertSqlSafe, ConnectOptions as _, Connection as _, Executor, PgConnection, SqliteConnection,
    sqlite::SqliteConnectOptions,
};

use crate::{
    http,
    report::{Table, median},
};

const PAGE: usize = 2_000;
const ROUNDS: usize = 60;
/// When the first version was seen, and how far apart they are.
const FIRST_NS: i64 = 1_700_000_000_000_000_000;
const STEP_NS: i64 = 1_000_000;

type Line = (String, String, i64, i64);

const PAGE_SQL: &str = "SELECT path, version, first_seen_ns, created FROM index_versions \
                        WHERE first_seen_ns >= $1 ORDER BY first_seen_ns LIMIT $2";

pub async fn measure(binary: &Path, rows: usize, table: &mut Table) -> Result<()> {
    sqlite(binary, rows, table).await?;
    postgres(binary, rows, table).await
}

async fn sqlite(binary: &Path, rows: usize, table: &mut Table) -> Result<()> {
    let mut node = Node::start(binary).await?;
    node.stop().await?;
    let file = node.data_dir().join("gripfast.sqlite");
    let options = SqliteConnectOptions::new().filename(file);
    let mut link = options.connect().await?;
    let numbers = format!(
        "WITH RECURSIVE numbers (n) AS \
         (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < {rows})"
    );
    fill(&mut link, &numbers, "numbers", rows).await?;
    node.launch().await?;
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let since = since(round, rows);
        let served = page(&node, since).await?;
        times.push((served, sqlite_query(&mut link, since).await?));
    }
    link.close().await?;
    report("SQLite", rows, times, table);
    Ok(())
}

async fn postgres(binary: &Path, rows: usize, table: &mut Table) -> Result<()> {
    let server = PostgresServer::start().await?;
    let mut node = Node::start_with(binary, &[("DATABASE_URL", &server.url())]).await?;
    node.stop().await?;
    let mut link = PgConnection::connect(&server.url()).await?;
    let numbers = format!("generate_series(0, {}) AS numbers (n)", rows - 1);
    fill(&mut link, "", &numbers, rows).await?;
    link.execute("VACUUM ANALYZE index_versions").await?;
    node.launch().await?;
    let mut times = Vec::new();
    for round in 0..ROUNDS {
        let since = since(round, rows);
        let served = page(&node, since).await?;
        times.push((served, postgres_query(&mut link, since).await?));
    }
    report("Postgres", rows, times, table);
    Ok(())
}

/// Writes the rows inside the database: nothing else is fast enough for ten million.
async fn fill<'c, DB, E>(link: E, with: &str, numbers: &str, rows: usize) -> Result<()>
where
    DB: sqlx::Database,
    E: Executor<'c, Database = DB>,
{
    let last = FIRST_NS + i64::try_from(rows)? * STEP_NS;
    let text = format!(
        "INSERT INTO index_versions \
         (first_seen_ns, path, version, created, org_repo_name, tag_name, commit_oid) {with} \
         SELECT {FIRST_NS} + CAST(n AS BIGINT) * {STEP_NS}, 'git.example.com/team' || (n / 1000) || '/module', \
         'v1.' || (n % 1000) || '.0', 1600000000000 + CAST(n AS BIGINT), 'git.example.com/team' || (n / 1000), \
         'v1.' || (n % 1000) || '.0', '0123456789abcdef0123456789abcdef01234567' FROM {numbers}; \
         UPDATE index_clock SET last_ns = {last}, versions = {rows}"
    );
    let filled = link.execute(AssertSqlSafe(text)).await;
    filled.map(drop).context("filling the feed")
}

/// A moment somewhere in the feed, another in each round, a page before its end at the latest.
fn since(round: usize, rows: usize) -> i64 {
    let at = (round * 7_919_773) % (rows - PAGE).max(1);
    FIRST_NS + at as i64 * STEP_NS
}

/// Milliseconds until the whole page is here.
async fn page(node: &Node, since: i64) -> Result<f64> {
    let mut connection = http::Connection::open(node.port()).await?;
    let since = rfc3339(since);
    let began = Instant::now();
    let path = format!("/index?since={since}&limit={PAGE}");
    let answer = connection.get(&path, "").await?;
    let took = began.elapsed().as_secs_f64() * 1e3;
    let lines = answer.body.iter().filter(|byte| **byte == b'\n').count();
    ensure!(lines == PAGE, "the page has {lines} lines");
    Ok(took)
}

async fn sqlite_query(link: &mut SqliteConnection, since: i64) -> Result<f64> {
    let began = Instant::now();
    let query = sqlx::query_as(PAGE_SQL).bind(since).bind(PAGE as i64);
    let lines: Vec<Line> = query.fetch_all(link).await?;
    ensure!(lines.len() == PAGE, "the query has {} lines", lines.len());
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

async fn postgres_query(link: &mut PgConnection, since: i64) -> Result<f64> {
    let began = Instant::now();
    let query = sqlx::query_as(PAGE_SQL).bind(since).bind(PAGE as i64);
    let lines: Vec<Line> = query.fetch_all(link).await?;
    ensure!(lines.len() == PAGE, "the query has {} lines", lines.len());
    Ok(began.elapsed().as_secs_f64() * 1e3)
}

/// Our moments are whole milliseconds.
fn rfc3339(ns: i64) -> String {
    let at = jiff::Timestamp::from_nanosecond(i128::from(ns)).expect("a moment of this century");
    at.to_string()
}

fn report(engine: &str, rows: usize, times: Vec<(f64, f64)>, table: &mut Table) {
    // The first rounds read from the disk what the later ones find in memory.
    let warm = &times[ROUNDS / 6..];
    let served = median(&mut warm.iter().map(|(served, _)| *served).collect::<Vec<_>>());
    let bare = median(&mut warm.iter().map(|(_, bare)| *bare).collect::<Vec<_>>());
    table.row(
        &format!("feed page of {PAGE} out of {rows} rows, {engine}"),
        format!("{served:.2} ms"),
        &format!("the bare query: {bare:.2} ms"),
        Some(served / bare),
        "",
    );
}
