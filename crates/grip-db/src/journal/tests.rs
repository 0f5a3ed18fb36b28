use crate::{Change, DbError, Row};

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

crate::on_both_engines! {
    async fn what_was_applied_is_there_after_a_reopen(database: TestDatabase) {
        let journal = database.db().journal();
        let (a, b) = (row("a", "{}"), row("b", "{\"x\":\"\\u0000é\"}"));
        journal
            .apply(&[Change::Put(a.clone()), Change::Put(b.clone())])
            .await
            .unwrap();
        let database = database.reopen().await;
        assert_eq!(database.db().journal().load().await.unwrap(), [a, b]);
    }

    async fn changes_are_made_in_their_order(database: TestDatabase) {
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

    async fn nothing_to_do_costs_no_commit(database: TestDatabase) {
        database.db().journal().apply(&[]).await.unwrap();
        assert_eq!(database.db().writer_stats().commits_total, 0);
    }

    async fn a_closed_database_says_so(database: TestDatabase) {
        let journal = database.db().journal();
        database.db().close().await;
        let put = [Change::Put(row("a", "1"))];
        assert!(matches!(
            journal.apply(&put).await,
            Err(DbError::Closed)
        ));
        assert!(matches!(journal.load().await, Err(DbError::Closed)));
    }

    async fn a_large_payload_round_trips(database: TestDatabase) {
        let journal = database.db().journal();
        let large = row("a", &"x".repeat(2 << 20));
        journal.apply(&[Change::Put(large.clone())]).await.unwrap();
        assert_eq!(journal.load().await.unwrap(), [large]);
    }

    async fn every_statement_is_understood(database: TestDatabase) {
        crate::prepare_all(database.db(), crate::journal::sql::ALL).await.unwrap();
    }
}
