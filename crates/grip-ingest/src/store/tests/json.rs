use std::sync::Arc;

use grip_db::TestDatabase;
use grip_testkit::{PostgresServer, until};
use tokio::sync::{Notify, oneshot};

use super::*;
use crate::jobs;

const DOCUMENTED: &str = include_str!("../../../../../docs/operations.md");

/// What `jsonb` cannot hold, in a payload that JSON can.
const UNHOLDABLE: &str = "\\u0000";

grip_db::statements! {
    mod before {
        // What the migration made, so that it is made again at the next start.
        EVENTS = "DROP TABLE push_events_json";
        USERS = "DROP TABLE github_users_json";
        REPOSITORIES = "DROP TABLE github_repositories_json";
        PUT_EVENTS = "DROP FUNCTION put_push_events_json() CASCADE";
        PUT_USERS = "DROP FUNCTION put_github_users_json() CASCADE";
        PUT_REPOSITORIES = "DROP FUNCTION put_github_repositories_json() CASCADE";
        CAST = "DROP FUNCTION jsonb_or_null(TEXT)";
        UNDO = "DELETE FROM _sqlx_migrations WHERE version = 22";
    }
}

grip_db::statements! {
    mod read {
        // Rows of JSON, those without a value, and those that are other than their text.
        EVENTS = "SELECT count(*), count(*) - count(j.raw), \
                  count(*) FILTER (WHERE j.raw <> jsonb_or_null(e.raw)) \
                  FROM push_events AS e JOIN push_events_json AS j ON j.id = e.id";
        USERS = "SELECT count(*), count(*) - count(j.raw), \
                 count(*) FILTER (WHERE j.raw <> jsonb_or_null(u.raw)) \
                 FROM github_users AS u JOIN github_users_json AS j ON j.id = u.id";
        REPOSITORIES = "SELECT count(*), count(*) - count(j.raw), \
                        count(*) FILTER (WHERE j.raw <> jsonb_or_null(r.raw) \
                            OR j.topics IS DISTINCT FROM jsonb_or_null(r.topics)) \
                        FROM github_repositories AS r \
                        JOIN github_repositories_json AS j ON j.id = r.id";
        TOPICS = "SELECT CAST(topics AS TEXT) FROM github_repositories_json";
        LEFT = "SELECT (SELECT count(*) FROM push_events_json), count(*) FROM push_events";
        DELETE = "DELETE FROM push_events";
        SPOIL_TOPICS = "UPDATE github_repositories SET topics = 'z'";
        WAITING = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    }
}

grip_db::statements! {
    mod many {
        REPOSITORIES = "INSERT INTO github_repositories (id, topics, raw, fetched_at, created_at, updated_at) \
                        SELECT n, '[\"t' || n % 1000 || '\"]', '{\"owner\": {\"login\": \"o' || n || '\"}}', 0, 0, 0 \
                        FROM generate_series(1, 5000) AS n";
        ANALYZE = "ANALYZE github_repositories_json";
        BY_TOPIC = "SELECT id FROM github_repositories_json WHERE topics ? 't7' ORDER BY id";
        BY_PAYLOAD = "SELECT id FROM github_repositories_json \
                      WHERE raw @> '{\"owner\": {\"login\": \"o4321\"}}'";
    }
}

grip_db::statements! {
    mod both {
        EVENT = "SELECT id FROM push_events_json WHERE raw ->> 'type' = 'PushEvent' AND id = $1";
        TOPICS = "SELECT topics ->> 0 FROM github_repositories_json";
    }
}

/// A push whose payload `jsonb` refuses.
fn unholdable(id: u64) -> Arrival {
    let mut event = push(id);
    put(&mut event, "/payload/note", json!("NUL"));
    let text = event.to_string().replace("NUL", UNHOLDABLE);
    Arrival::Event(text.into())
}

async fn counted(db: &Db, statement: &'static grip_db::Statement) -> (i64, i64, i64) {
    db.fetch_one(statement, &[]).await.unwrap()
}

async fn topics(db: &Db) -> Option<String> {
    let (topics,): (Option<String>,) = db.fetch_one(&read::TOPICS, &[]).await.unwrap();
    topics
}

/// All that is due of filling, by one instance.
async fn fill(kept: &Kept) {
    for fill in JsonFill::ALL {
        while !kept.store.fill_json_step(fill).await.unwrap() {}
    }
}

async fn server() -> (PostgresServer, TestDatabase) {
    let server = PostgresServer::start().await.unwrap();
    let test = TestDatabase::postgres(&server.url()).await;
    (server, test)
}

#[tokio::test]
async fn rows_of_before_are_filled_in_and_those_of_instances_of_before_are_there_at_once() {
    let (_server, test) = server().await;
    for statement in before::ALL {
        test.db().execute(statement, &[]).await.unwrap();
    }
    let old = kept(test.db());
    let events: Vec<_> = (1..=450).map(push).collect();
    old.accept(&events).await;
    assert_eq!(old.arrive(&[unholdable(1_000)]).await.new, 1);
    old.save(RecordKind::User, &words(USER).0).await;
    old.save(RecordKind::Repository, &words(REPOSITORY).0).await;
    drop(old);

    // The upgrade: nothing is rewritten in it.
    let test = test.reopen().await;
    let first = kept(test.db());
    assert_eq!(counted(test.db(), &read::EVENTS).await, (0, 0, 0));
    first.store.fill_json(&first.queue, false).await.unwrap();
    assert!(!first.store.fill_json_step(JsonFill::Events).await.unwrap());
    assert_eq!(counted(test.db(), &read::EVENTS).await.0, 200);
    // An instance that knows nothing of all this writes what it always wrote.
    first.accept(&[push(2_000)]).await;
    assert_eq!(first.arrive(&[unholdable(2_001)]).await.new, 1);
    drop(first);

    // Killed there, and started again.
    let test = test.reopen().await;
    let second = kept(test.db());
    second.store.fill_json(&second.queue, false).await.unwrap();
    fill(&second).await;
    assert_eq!(counted(test.db(), &read::EVENTS).await, (453, 2, 0));
    assert_eq!(counted(test.db(), &read::USERS).await, (1, 0, 0));
    assert_eq!(counted(test.db(), &read::REPOSITORIES).await, (1, 0, 0));
    let work = second.store.all_work().await.unwrap();
    let done: Vec<_> = work
        .iter()
        .map(|it| (it.work.as_str(), it.finished_at.is_some()))
        .collect();
    let names = ["events-json", "repositories-json", "users-json"];
    assert_eq!(done, names.map(|name| (name, true)));
    // What could not be held is kept all the same, to the byte.
    let query = EventQuery {
        limit: 1_000,
        ..EventQuery::default()
    };
    let events = second.store.events(&query).await.unwrap();
    let odd = events.iter().find(|event| event.id == "2001").unwrap();
    assert!(odd.raw.contains(UNHOLDABLE), "{}", odd.raw);

    // Done once; again only where somebody asks for it, and then only what is missing.
    second
        .queue
        .remove(jobs::FILL_JSON, "events-json")
        .await
        .unwrap();
    second.store.fill_json(&second.queue, false).await.unwrap();
    assert!(
        second
            .queue
            .find(jobs::FILL_JSON, "events-json")
            .await
            .unwrap()
            .is_none()
    );
    second.store.fill_json(&second.queue, true).await.unwrap();
    assert!(
        second
            .queue
            .find(jobs::FILL_JSON, "events-json")
            .await
            .unwrap()
            .is_some()
    );
    fill(&second).await;
    assert_eq!(counted(test.db(), &read::EVENTS).await, (453, 2, 0));
}

#[tokio::test]
async fn what_changes_or_goes_does_so_as_jsonb_too() {
    let (_server, test) = server().await;
    let kept = kept(test.db());
    let (mut repository, _) = words(REPOSITORY);
    for (said, expected) in [
        (json!(["nostr", "git"]), Some(r#"["nostr", "git"]"#)),
        (json!(["rust"]), Some(r#"["rust"]"#)),
        (json!(["a\u{0}b"]), None),
        (json!([]), Some("[]")),
    ] {
        put(&mut repository, "/topics", said);
        kept.save(RecordKind::Repository, &repository).await;
        assert_eq!(topics(test.db()).await.as_deref(), expected);
    }
    // A column that is extracted again.
    test.db().execute(&read::SPOIL_TOPICS, &[]).await.unwrap();
    assert_eq!(topics(test.db()).await, None);

    let events: Vec<_> = (1..=300).map(push).collect();
    kept.accept(&events).await;
    let left = async || {
        test.db()
            .fetch_one::<(i64, i64)>(&read::LEFT, &[])
            .await
            .unwrap()
    };
    assert_eq!(left().await, (300, 300));
    let all = [i64::MAX.into()];
    let gone = kept
        .store
        .drop_old(crate::store::retention::EVENTS, &all)
        .await;
    assert_eq!(gone.unwrap(), 300);
    assert_eq!(left().await, (0, 0));
}

#[tokio::test]
async fn rows_that_are_deleted_while_they_are_filled_in_stop_nothing() {
    let (_server, test) = server().await;
    for statement in before::ALL {
        test.db().execute(statement, &[]).await.unwrap();
    }
    let old = kept(test.db());
    let events: Vec<_> = (1..=50).map(push).collect();
    old.accept(&events).await;
    drop(old);
    let test = test.reopen().await;
    let kept = kept(test.db());
    kept.store.fill_json(&kept.queue, false).await.unwrap();

    let (deleted, is_deleted) = oneshot::channel();
    let commit = Arc::new(Notify::new());
    let waits = Arc::clone(&commit);
    let deleting = test.db().write(move |mut db| {
        Box::pin(async move {
            db.execute(&read::DELETE, &[]).await?;
            deleted.send(()).unwrap();
            waits.notified().await;
            Ok(())
        })
    });
    let filling = async {
        is_deleted.await.unwrap();
        kept.store.fill_json_step(JsonFill::Events).await
    };
    let committing = async {
        let is_waiting = async || {
            let (waiting,): (i64,) = test.db().fetch_one(&read::WAITING, &[]).await.unwrap();
            (waiting > 0).then_some(())
        };
        until("the filling waits for the rows", is_waiting)
            .await
            .unwrap();
        commit.notify_one();
    };
    let (gone, filled, ()) = tokio::join!(deleting, filling, committing);
    gone.unwrap();
    assert!(filled.unwrap());
    assert_eq!(counted(test.db(), &read::EVENTS).await, (0, 0, 0));
}

#[tokio::test]
async fn payloads_and_topics_are_found_by_their_indexes() {
    let (_server, test) = server().await;
    let db = test.db();
    db.execute(&many::REPOSITORIES, &[]).await.unwrap();
    db.execute(&many::ANALYZE, &[]).await.unwrap();
    // As docs/operations.md shows them.
    let (_, shown) = DOCUMENTED.split_once("```sql\n").unwrap();
    let (shown, _) = shown.split_once("```").unwrap();
    let shown: Vec<_> = shown.split_terminator(";\n").collect();
    assert_eq!(shown.len(), 2, "{shown:?}");
    for text in shown {
        let statement = Box::leak(Box::new(grip_db::Statement::new("SHOWN", text)));
        prepare_all(db, &[statement]).await.unwrap();
    }
    for (statement, index, expected) in [
        (
            &many::BY_TOPIC,
            "github_repositories_json_topics",
            &[7, 1_007, 2_007, 3_007, 4_007][..],
        ),
        (
            &many::BY_PAYLOAD,
            "github_repositories_json_raw",
            &[4_321][..],
        ),
    ] {
        let told = plan(db, statement, &[]).await;
        assert!(told.contains(index), "{told}");
        let found: Vec<(i64,)> = db.fetch_all(statement, &[]).await.unwrap();
        let found: Vec<_> = found.into_iter().map(|(id,)| id).collect();
        assert_eq!(found, expected);
    }
}

on_both_engines! {
    async fn json_is_asked_in_the_same_words(test: TestDatabase) {
        let kept = kept(test.db());
        kept.accept(&[push(1), push(2)]).await;
        let found: Vec<(String,)> = test.db().fetch_all(&both::EVENT, &["2".into()]).await.unwrap();
        assert_eq!(found, [("2".to_owned(),)]);
        let (mut repository, _) = words(REPOSITORY);
        put(&mut repository, "/topics", json!(["nostr"]));
        kept.save(RecordKind::Repository, &repository).await;
        let found: Vec<(Option<String>,)> = test.db().fetch_all(&both::TOPICS, &[]).await.unwrap();
        assert_eq!(found, [(Some("nostr".to_owned()),)]);
    }
}
