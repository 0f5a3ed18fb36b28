use crate::{Change, JournalError, Row, TestDatabase};

fn row(key: &str, payload: &str) -> Row {
    Row {
        class: "state".into(),
        key: key.into(),
        identifier: "naïve repo".into(),
        payload: payload.into(),
        expires_at: i64::MAX,
    }
}

fn remove(key: &str) -> Change {
    Change::Remove {
        class: "state".into(),
        key: key.into(),
    }
}

#[tokio::test]
async fn what_was_applied_is_there_after_a_reopen() {
    let database = TestDatabase::new().await;
    let journal = database.db().journal();
    let (a, b) = (row("a", "{}"), row("b", "{\"x\":\"\u{0}é\"}"));
    journal
        .apply(&[Change::Put(a.clone()), Change::Put(b.clone())])
        .await
        .unwrap();
    let database = database.reopen().await;
    assert_eq!(database.db().journal().load().await.unwrap(), [a, b]);
}

#[tokio::test]
async fn changes_are_made_in_their_order() {
    let database = TestDatabase::new().await;
    let journal = database.db().journal();
    let changes = [
        Change::Put(row("a", "1")),
        remove("a"),
        Change::Put(row("b", "1")),
        Change::Put(row("b", "2")),
        remove("never there"),
    ];
    journal.apply(&changes).await.unwrap();
    assert_eq!(journal.load().await.unwrap(), [row("b", "2")]);
}

#[tokio::test]
async fn nothing_to_do_costs_no_commit() {
    let database = TestDatabase::new().await;
    database.db().journal().apply(&[]).await.unwrap();
    assert_eq!(database.db().writer_stats().commits_total, 0);
}

#[tokio::test]
async fn a_closed_database_says_so() {
    let database = TestDatabase::new().await;
    let journal = database.db().journal();
    database.db().close().await;
    let put = [Change::Put(row("a", "1"))];
    assert!(matches!(
        journal.apply(&put).await,
        Err(JournalError::Closed)
    ));
    assert!(matches!(journal.load().await, Err(JournalError::Closed)));
}

#[tokio::test]
async fn a_large_payload_round_trips() {
    let database = TestDatabase::new().await;
    let journal = database.db().journal();
    let large = row("a", &"x".repeat(2 << 20));
    journal.apply(&[Change::Put(large.clone())]).await.unwrap();
    assert_eq!(journal.load().await.unwrap(), [large]);
}
