use super::*;
use crate::{Row, TestDatabase};

fn put(key: &str, payload: &str) -> Change {
    Change::Put(Row {
        class: "state".into(),
        key: key.into(),
        identifier: "repo".into(),
        payload: payload.into(),
        expires_at: 0,
    })
}

/// A second writer on the same file, to be driven by hand.
async fn writer_of(database: &TestDatabase) -> Writer {
    let options = SqliteConnectOptions::new().filename(database.path());
    Writer::connect(options).await.unwrap()
}

async fn keys(database: &TestDatabase) -> Vec<String> {
    let rows = database.db().journal().load().await.unwrap();
    rows.into_iter().map(|row| row.key).collect()
}

#[tokio::test]
async fn a_full_disk_loses_nothing_and_room_heals_it() {
    let database = TestDatabase::new().await;
    let mut writer = writer_of(&database).await;
    writer.commit(&[&[put("before", "x")][..]]).await.unwrap();
    // As many pages as there are now, and not one more.
    let roomy = writer.options.clone();
    writer.options = roomy.clone().pragma("max_page_count", "1");
    writer.connection = None;

    let large = "x".repeat(1 << 20);
    let call = [put("small", "x"), put("large", &large)];
    let error = writer.commit(&[&call[..]]).await.unwrap_err();
    assert!(matches!(error, JournalError::Full(_)), "{error:?}");
    assert!(error.to_string().contains("full"));
    assert_eq!(keys(&database).await, ["before"]);

    writer.options = roomy;
    writer.commit(&[&call[..]]).await.unwrap();
    assert_eq!(keys(&database).await, ["before", "large", "small"]);
}

#[tokio::test]
async fn a_call_that_cannot_be_written_does_not_spoil_its_neighbours() {
    let database = TestDatabase::new().await;
    let mut writer = writer_of(&database).await;
    let connection = writer.connection.as_mut().unwrap();
    sqlx::query(
        "CREATE TRIGGER picky BEFORE INSERT ON purgatory WHEN new.key = 'bad' \
         BEGIN SELECT RAISE(ABORT, 'refused'); END",
    )
    .execute(connection)
    .await
    .unwrap();

    let (mut calls, mut answers) = (Vec::new(), Vec::new());
    for changes in [
        vec![put("one", "")],
        vec![put("half", ""), put("bad", "")],
        vec![put("two", "")],
    ] {
        let (answer, answered) = oneshot::channel();
        calls.push(Call { changes, answer });
        answers.push(answered);
    }
    writer.serve(calls).await;
    let mut outcomes = Vec::new();
    for answered in answers {
        outcomes.push(answered.await.unwrap().is_ok());
    }
    assert_eq!(outcomes, [true, false, true]);
    assert_eq!(keys(&database).await, ["one", "two"]);
}
