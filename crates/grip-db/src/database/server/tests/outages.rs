use grip_testkit::{assert_matches, until, within};
use tokio::sync::watch;

use super::*;
use crate::DbError;

crate::statements! {
    mod sql {
        RAISE = "DO $$ BEGIN RAISE EXCEPTION 'as a full disk' USING ERRCODE = '53100'; END $$";
        CLASH = "DO $$ BEGIN RAISE EXCEPTION 'as a deadlock' USING ERRCODE = '40P01'; END $$";
        TURN_READ_ONLY = "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY";
        COMMIT_SETTING = "SELECT current_setting('synchronous_commit')";
        PUT = "INSERT INTO purgatory (node, class, key, identifier, payload, expires_at) \
               VALUES ('', 'x', $1, '', '', 0)";
    }
}

async fn impatient(server: &PostgresServer, node: &str) -> Db {
    let server = Server {
        time_limit: SHORT,
        ..Server::new(server.url(), node)
    };
    Db::connect(&server).await.unwrap()
}

async fn keys(db: &Db) -> Vec<String> {
    db.keys().await.unwrap()
}

async fn becomes(outage: &mut watch::Receiver<Option<String>>, is_there: bool) {
    let waiting = outage.wait_for(|outage| outage.is_some() == is_there);
    within("the outage is reported", waiting)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn calls_after_a_restart_of_the_server_succeed_by_themselves() {
    let mut server = PostgresServer::durable().await.unwrap();
    let db = impatient(&server, "a").await;
    let mut outage = db.outage();
    db.put(&["before"]).await.unwrap();
    server.kill();
    let error = db.put(&["lost"]).await.unwrap_err();
    assert_matches!(error, DbError::Unreachable(_));
    assert!(error.is_transient());
    assert!(db.keys().await.is_err());
    becomes(&mut outage, true).await;
    let told = outage.borrow().clone().unwrap();
    assert!(told.contains("cannot be reached"), "{told}");

    let mut topic = db.topic("x");
    topic.mark_unchanged();
    server.launch().await.unwrap();
    becomes(&mut outage, false).await;
    db.put(&["after"]).await.unwrap();
    assert_eq!(keys(&db).await, ["after", "before"]);
    within("what may have been missed is told of", topic.changed())
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test]
async fn a_restart_that_nobody_saw_costs_no_more_than_one_call_each_way() {
    let mut server = PostgresServer::durable().await.unwrap();
    let db = impatient(&server, "a").await;
    db.put(&["before"]).await.unwrap();
    assert_eq!(keys(&db).await, ["before"]);
    server.restart().await.unwrap();
    let _ = db.put(&["maybe"]).await;
    let _ = db.keys().await;
    db.put(&["sure"]).await.unwrap();
    assert!(keys(&db).await.contains(&"sure".to_owned()));
}

#[tokio::test]
async fn a_frozen_server_holds_nobody_longer_than_the_patience() {
    let server = postgres().await;
    let db = impatient(&server, "a").await;
    db.put(&["before"]).await.unwrap();
    server.freeze().unwrap();
    let began = Instant::now();
    // The second waits for its turn behind the first.
    let second = async {
        tokio::task::yield_now().await;
        db.put(&["other"]).await
    };
    let write =
        db.write(|mut db| Box::pin(async move { db.execute(&sql::PUT, &["w".into()]).await }));
    let (first, second, read, write) = tokio::join!(db.put(&["one"]), second, db.keys(), write);
    for error in [
        first.unwrap_err(),
        second.unwrap_err(),
        read.unwrap_err(),
        write.unwrap_err(),
    ] {
        assert_matches!(error, DbError::TimedOut);
    }
    let took = began.elapsed();
    assert!(took < SHORT * 2, "{took:?}");
    server.thaw().unwrap();
    until("it goes on", || async { db.put(&["after"]).await.ok() })
        .await
        .unwrap();
    assert!(keys(&db).await.contains(&"after".to_owned()));
}

#[tokio::test]
async fn a_full_disk_and_a_read_only_server_are_told_as_such() {
    let server = postgres().await;
    let db = impatient(&server, "a").await;
    let full = db.write(|mut db| Box::pin(async move { db.execute(&sql::RAISE, &[]).await }));
    let full = full.await.unwrap_err();
    assert_matches!(full, DbError::Full(_));
    admin(
        &server.url(),
        "ALTER DATABASE postgres SET default_transaction_read_only = on; \
         SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
         WHERE application_name LIKE 'gripfast%'",
    )
    .await;
    let error = until("new sessions may not write", || async {
        match db.put(&["a"]).await {
            Err(error @ DbError::ReadOnly(_)) => Some(error),
            _ => None,
        }
    });
    let error = error.await.unwrap();
    assert!(error.to_string().contains("read-only copy"), "{error}");
    assert!(error.is_transient());
}

#[tokio::test]
async fn instances_tell_each_other() {
    let server = postgres().await;
    let (a, b) = (impatient(&server, "a").await, impatient(&server, "b").await);
    let mut topic = b.topic("news");
    // Until the other one listens, which it says by telling of everything.
    within("b listens", topic.changed()).await.unwrap().unwrap();
    topic.mark_unchanged();
    a.write(|mut db| Box::pin(async move { db.notify("news").await }))
        .await
        .unwrap();
    within("b hears of it", topic.changed())
        .await
        .unwrap()
        .unwrap();
    assert!(a.now_ms().abs_diff(b.now_ms()) < 500);
}

#[tokio::test]
async fn more_work_than_connections_waits_for_its_turn() {
    let server = postgres().await;
    let at = Server {
        connections: 4,
        time_limit: SHORT,
        ..Server::new(server.url(), "a")
    };
    let db = Db::connect(&at).await.unwrap();
    let hold = db.read(|_| {
        Box::pin(async {
            time::sleep(SHORT / 2).await;
            Ok(())
        })
    });
    let waiting = async {
        tokio::task::yield_now().await;
        db.keys().await
    };
    let (held, waited) = tokio::join!(hold, waiting);
    held.unwrap();
    assert_matches!(waited, Err(DbError::Busy));
    db.keys().await.unwrap();
}

#[tokio::test]
async fn what_is_answered_is_on_the_disk_of_a_server_that_would_not_wait_for_it() {
    let server = postgres().await;
    for (set, used) in [("off", "on"), ("local", "local")] {
        admin(
            &server.url(),
            format!("ALTER DATABASE postgres SET synchronous_commit = {set}"),
        )
        .await;
        let db = impatient(&server, set).await;
        let asked: [(String,); 2] = [
            db.write(|mut db| {
                Box::pin(async move { db.fetch_one(&sql::COMMIT_SETTING, &[]).await })
            })
            .await
            .unwrap(),
            db.write_in_order(|mut db| {
                Box::pin(async move { db.fetch_one(&sql::COMMIT_SETTING, &[]).await })
            })
            .await
            .unwrap(),
        ];
        assert_eq!(asked, [(used.to_owned(),), (used.to_owned(),)], "{set}");
    }
}

#[tokio::test]
async fn a_connection_that_may_only_read_is_not_used_again() {
    let server = postgres().await;
    let at = Server {
        connections: 4,
        ..Server::new(server.url(), "a")
    };
    let db = Db::connect(&at).await.unwrap();
    let turn =
        db.read(|mut db| Box::pin(async move { db.execute(&sql::TURN_READ_ONLY, &[]).await }));
    turn.await.unwrap();
    let put = async |key: &'static str| {
        db.write(move |mut db| Box::pin(async move { db.execute(&sql::PUT, &[key.into()]).await }))
            .await
    };
    let refused = put("one").await;
    assert_matches!(refused, Err(DbError::ReadOnly(_)));
    assert_eq!(put("two").await.unwrap(), 1);
}

#[tokio::test]
async fn work_that_met_a_deadlock_is_undone_alone() {
    let server = postgres().await;
    let db = Db::connect(&Server::new(server.url(), "a")).await.unwrap();
    let clash =
        db.write_in_order(|mut db| Box::pin(async move { db.execute(&sql::CLASH, &[]).await }));
    let (clash, kept) = tokio::join!(clash, db.put(&["kept"]));
    assert_matches!(clash, Err(DbError::Conflict(_)));
    kept.unwrap();
    assert_eq!(keys(&db).await, ["kept"]);
    // Both were queued before the writer looked, so they were one group.
    assert_eq!(db.writer_stats().commits_total, 1);
}
