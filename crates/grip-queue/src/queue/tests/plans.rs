//! Query plans of the statements.

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, Row as _, SqliteConnection};

use super::*;

#[tokio::test]
async fn no_statement_of_the_daily_work_reads_the_whole_table_on_sqlite() {
    let test = grip_db::TestDatabase::sqlite().await;
    let url = format!("sqlite://{}", test.path().display());
    let mut db = SqliteConnection::connect(&url).await.unwrap();
    for statement in [
        &sql::CLAIM,
        &sql::NEXT_DUE,
        &sql::RENEW,
        &sql::RELEASE,
        &sql::FINISH_GONE,
        &sql::FINISH_STAYS,
        &sql::FAIL,
        &sql::POSTPONE,
        &sql::REMOVE,
        &sql::ADJUST_TO_CLOCK,
        &sql::FORGET_DEAD,
        &sql::FIND,
        &sql::LIST_DEAD,
        &sql::STATS,
    ] {
        let text = AssertSqlSafe(format!(
            "EXPLAIN QUERY PLAN {}",
            statement.text(grip_db::Engine::Sqlite)
        ));
        let plan = sqlx::query(text).fetch_all(&mut db).await.unwrap();
        for step in plan {
            let step: String = step.get("detail");
            let whole = step.starts_with("SCAN queue") && !step.contains("INDEX");
            assert!(!whole, "{}: {step}", statement.name);
        }
    }
}

#[tokio::test]
async fn the_server_looks_again_at_a_table_that_has_grown_at_once() {
    let server = grip_testkit::PostgresServer::start().await.unwrap();
    let test = grip_db::TestDatabase::postgres(&server.url()).await;
    let queue = Queue::new(test.db().clone());
    let grip_db::Location::Server(server) = test.location() else {
        panic!("it is on a server");
    };
    let mut db = PgConnection::connect(&server.url).await.unwrap();
    sqlx::raw_sql("ANALYZE queue")
        .execute(&mut db)
        .await
        .unwrap();
    assert!(!queue.analyze_if_grown().await.unwrap());

    let jobs = (0..20_000).map(|n| NewJob::new("k", n.to_string()));
    queue.enqueue(jobs.collect()).await.unwrap();
    assert!(queue.analyze_if_grown().await.unwrap());
    let known =
        sqlx::query_scalar("SELECT reltuples::bigint FROM pg_class WHERE relname = 'queue'");
    let known: i64 = known.fetch_one(&mut db).await.unwrap();
    assert!(known > 15_000, "{known}");
    assert!(!queue.analyze_if_grown().await.unwrap());
    // Emptied, it may grow once more.
    sqlx::raw_sql("TRUNCATE queue")
        .execute(&mut db)
        .await
        .unwrap();
    assert!(!queue.analyze_if_grown().await.unwrap());
    let jobs = (0..20_000).map(|n| NewJob::new("k", n.to_string()));
    queue.enqueue(jobs.collect()).await.unwrap();
    assert!(queue.analyze_if_grown().await.unwrap());
}
