mod definitions;
mod engines;

use std::error::Error as _;

use grip_testkit::assert_matches;
use sqlx::{ConnectOptions as _, Connection as _};
use tempfile::TempDir;

use super::{
    file::{BUSY_TIMEOUT, options},
    *,
};
use crate::{DbError, TestDatabase};

#[tokio::test]
async fn missing_directories_are_made() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("a/b/gripfast.db");
    let db = Db::open(&path).await.unwrap();
    db.put(&["a"]).await.unwrap();
    assert!(path.exists());
}

#[tokio::test]
async fn a_file_that_is_no_database_is_named_and_left_alone() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("gripfast.db");
    let text = "these are notes, not a database ".repeat(200);
    std::fs::write(&path, &text).unwrap();
    let error = Db::open(&path).await.err().expect("it must not open");
    assert_matches!(error, OpenError::Damaged { .. });
    let told = error.to_string();
    assert!(
        told.contains("gripfast.db") && told.contains("backup"),
        "{told}"
    );
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
}

#[tokio::test]
async fn a_damaged_page_is_told_as_damage() {
    let database = TestDatabase::sqlite().await;
    let keys: Vec<u32> = (0..200).collect();
    database.db().put(&keys).await.unwrap();
    database.db().close().await;
    let mut bytes = std::fs::read(database.path()).unwrap();
    // The schema on the first page stays whole, what follows does not.
    bytes[8192..].fill(0x55);
    std::fs::write(database.path(), bytes).unwrap();

    let told = match Db::open(&database.path()).await {
        Err(error) => matches!(error, OpenError::Damaged { .. }),
        Ok(db) => matches!(db.keys().await, Err(DbError::Damaged(_))),
    };
    assert!(told);
}

#[tokio::test]
async fn a_database_of_a_newer_version_is_refused() {
    let database = TestDatabase::sqlite().await;
    database.db().close().await;
    let options = options(&database.path(), BUSY_TIMEOUT);
    let mut connection = options.connect().await.unwrap();
    sqlx::query(
        "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
         VALUES (9999, 'later', TRUE, x'00', 0)",
    )
    .execute(&mut connection)
    .await
    .unwrap();
    connection.close().await.unwrap();
    let error = Db::open(&database.path()).await.err().unwrap();
    assert_matches!(error, OpenError::Newer { version: 9999, .. });
}

#[tokio::test]
async fn a_path_that_cannot_be_a_file_is_refused_with_its_reason() {
    let directory = TempDir::new().unwrap();
    let error = Db::open(directory.path()).await.err().unwrap();
    assert_matches!(error, OpenError::Unreachable { .. });
    let blocked = directory.path().join("file");
    std::fs::write(&blocked, "").unwrap();
    let error = Db::open(&blocked.join("gripfast.db")).await.err().unwrap();
    assert_matches!(error, OpenError::Directory { .. });
    assert!(error.source().is_some());
}

/// Holds the write lock as a backup or a second process would.
async fn lock(database: &TestDatabase) -> sqlx::SqliteConnection {
    let options = options(&database.path(), BUSY_TIMEOUT);
    let mut foreign = options.connect().await.unwrap();
    sqlx::query("BEGIN IMMEDIATE")
        .execute(&mut foreign)
        .await
        .unwrap();
    foreign
}

#[tokio::test]
async fn calls_that_wait_together_share_one_commit() {
    let database = TestDatabase::sqlite().await;
    let group = TaskGroup::new("test");
    // On the one thread of this test all callers queue before the writer gets its turn.
    let requests: Vec<_> = (0..100)
        .map(|n| {
            let db = database.db().clone();
            group.spawn("caller", async move { db.put(&[n]).await })
        })
        .collect();
    for request in requests {
        request.await.unwrap().unwrap();
    }
    let stats = database.db().writer_stats();
    assert_eq!(stats.applied_total, 100);
    assert!(stats.commits_total <= 2, "{stats:?}");
    assert_eq!(database.db().keys().await.unwrap().len(), 100);
}

#[tokio::test]
async fn a_locked_database_gives_an_error_and_the_next_call_succeeds() {
    let database = TestDatabase::sqlite().await;
    let impatient = Db::open_with(&database.path(), Duration::from_millis(20))
        .await
        .unwrap();
    let foreign = lock(&database).await;
    let error = impatient.put(&["a"]).await.unwrap_err();
    assert_matches!(error, DbError::Locked(_));
    assert!(error.is_transient());
    assert!(impatient.keys().await.unwrap().is_empty());
    foreign.close().await.unwrap();
    impatient.put(&["a"]).await.unwrap();
    assert_eq!(impatient.keys().await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_close_finishes_what_was_queued() {
    let database = TestDatabase::sqlite().await;
    let group = TaskGroup::new("test");
    let foreign = lock(&database).await;
    let db = database.db().clone();
    let request = group.spawn("caller", async move { db.put(&["a"]).await });
    tokio::task::yield_now().await;
    let db = database.db().clone();
    let closing = group.spawn("closer", async move { db.close().await });
    tokio::task::yield_now().await;
    foreign.close().await.unwrap();
    closing.await.unwrap();
    request.await.unwrap().unwrap();
    let database = database.reopen().await;
    assert_eq!(database.db().keys().await.unwrap().len(), 1);
}
