use futures_util::future::BoxFuture;
use grip_testkit::assert_matches;
use tokio::{sync::oneshot, time::Instant};

use super::{request::Pending, *};
use crate::{TestDatabase, Value, work::Once};

crate::statements! {
    mod sql {
        PUT = "INSERT INTO purgatory (class, key, identifier, payload, expires_at) \
               VALUES ('state', $1, 'repo', $2, 0)";
    }
}

async fn keys(database: &TestDatabase) -> Vec<String> {
    database.db().keys().await.unwrap()
}

type Answered = oneshot::Receiver<Result<(), DbError>>;

/// A request that puts rows of these keys and sizes.
fn request(rows: &[(&'static str, usize)]) -> (Request, Answered) {
    let (answer, answered) = oneshot::channel();
    let rows = rows.to_vec();
    (asked(move |db| Box::pin(put(db, rows)), answer), answered)
}

/// Names the bound that a closure cannot infer by itself.
fn asked<F>(work: F, answer: oneshot::Sender<Result<(), DbError>>) -> Request
where
    F: for<'c> FnOnce(Connection<'c>) -> BoxFuture<'c, Result<(), DbError>> + Send + 'static,
{
    Box::new(Pending {
        since: Instant::now(),
        work: Once::new(work),
        answer,
    })
}

async fn put(mut db: Connection<'_>, rows: Vec<(&'static str, usize)>) -> Result<(), DbError> {
    for (key, size) in rows {
        let values = [key.into(), Value::Text("x".repeat(size))];
        db.execute(&sql::PUT, &values).await?;
        assert_ne!(key, "panic", "as a bug would");
    }
    Ok(())
}

/// A second writer on the same file, to be driven by hand.
async fn writer_of(
    database: &TestDatabase,
    pragma: Option<(&'static str, &'static str)>,
) -> Writer {
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(database.path());
    let options = match pragma {
        Some((name, value)) => options.pragma(name, value),
        None => options,
    };
    Writer::connect(options).await.unwrap()
}

/// Has the requests served together and says which succeeded.
async fn serve(
    writer: &mut Writer,
    requests: Vec<(Request, Answered)>,
) -> Vec<Result<(), DbError>> {
    let (requests, answers): (Vec<_>, Vec<_>) = requests.into_iter().unzip();
    writer.serve(requests).await;
    let mut outcomes = Vec::new();
    for answered in answers {
        outcomes.push(answered.await.unwrap());
    }
    outcomes
}

#[tokio::test]
async fn a_full_disk_loses_nothing_and_room_heals_it() {
    let database = TestDatabase::sqlite().await;
    let mut roomy = writer_of(&database, None).await;
    assert!(serve(&mut roomy, vec![request(&[("before", 1)])]).await[0].is_ok());
    // As many pages as there are now, and not one more.
    let mut full = writer_of(&database, Some(("max_page_count", "1"))).await;
    let requests = || {
        vec![
            request(&[("small", 1), ("large", 1 << 20)]),
            request(&[("other", 1)]),
        ]
    };
    for outcome in serve(&mut full, requests()).await {
        let error = outcome.unwrap_err();
        assert_matches!(error, DbError::Full(_));
        assert!(error.to_string().contains("full"));
    }
    assert_eq!(keys(&database).await, ["before"]);

    for outcome in serve(&mut roomy, requests()).await {
        outcome.unwrap();
    }
    assert_eq!(keys(&database).await, ["before", "large", "other", "small"]);
}

#[tokio::test]
async fn work_that_cannot_be_done_does_not_spoil_its_neighbours() {
    let database = TestDatabase::sqlite().await;
    let mut writer = writer_of(&database, None).await;
    let requests = vec![
        request(&[("one", 1)]),
        request(&[("half", 1), ("one", 1)]),
        request(&[("two", 1)]),
    ];
    let outcomes = serve(&mut writer, requests).await;
    let outcomes: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
    assert_eq!(outcomes, [true, false, true]);
    assert_eq!(keys(&database).await, ["one", "two"]);
    let alone = serve(&mut writer, vec![request(&[("three", 1), ("two", 1)])]).await;
    assert!(alone[0].is_err());
    assert_eq!(keys(&database).await, ["one", "two"]);
}

#[tokio::test]
async fn work_that_panics_undoes_its_group_and_the_writer_goes_on() {
    let database = TestDatabase::sqlite().await;
    let mut writer = writer_of(&database, None).await;
    let requests = vec![request(&[("one", 1)]), request(&[("panic", 1)])];
    for outcome in serve(&mut writer, requests).await {
        assert_matches!(outcome, Err(DbError::Panicked));
    }
    assert_eq!(keys(&database).await, [""; 0]);
    assert!(serve(&mut writer, vec![request(&[("two", 1)])]).await[0].is_ok());
    assert_eq!(keys(&database).await, ["two"]);
}
