//! Promises that both engines keep.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use grip_tasks::TaskGroup;
use grip_testkit::{assert_matches, until_true};

use crate::{Column, Connection, DbError, TestDatabase, Value};

crate::statements! {
    mod sql {
        PUT = "INSERT INTO purgatory (node, class, key, identifier, payload, expires_at) \
               VALUES ('', 'test', $1, 'repo', '', $2)";
        KEYS = "SELECT key FROM purgatory WHERE class = 'test' ORDER BY key";
        ECHO = "SELECT CAST($1 AS BIGINT), CAST($2 AS BIGINT), CAST($3 AS TEXT), CAST($4 AS TEXT)";
        AMONG = "SELECT key FROM purgatory WHERE class = 'test' \
                 AND key {in $1} AND expires_at {in $2} ORDER BY key";
        BULK = "SELECT rows.*, CAST($1 AS TEXT) \
                FROM {rows $2: a bigint, b bigint, c text, d text} ORDER BY rows.a";
        PUT_ALL = "INSERT INTO purgatory (node, class, key, identifier, payload, expires_at) \
                   SELECT '', 'test', rows.key, 'repo', '', rows.n \
                   FROM {rows $1: key text, n bigint}";
    }
}

async fn put(mut db: Connection<'_>, keys: Vec<&'static str>) -> Result<(), DbError> {
    for key in keys {
        db.execute(&sql::PUT, &[key.into(), 1.into()]).await?;
    }
    Ok(())
}

async fn keys(database: &TestDatabase) -> Vec<String> {
    let read = database.db().fetch_all::<(String,)>(&sql::KEYS, &[]);
    read.await.unwrap().into_iter().map(|(key,)| key).collect()
}

crate::on_both_engines! {
    async fn a_write_is_done_as_a_whole_or_not_at_all(database: TestDatabase) {
        let db = database.db();
        db.write(|db| Box::pin(put(db, vec!["a", "b"]))).await.unwrap();
        let twice = db.write(|db| Box::pin(put(db, vec!["c", "a"]))).await;
        assert_matches!(twice, Err(DbError::Other(_)));
        let given_up: Result<(), _> = db
            .write(|mut db| Box::pin(async move {
                db.execute(&sql::PUT, &["d".into(), 1.into()]).await?;
                Err(DbError::Aborted)
            }))
            .await;
        assert_matches!(given_up, Err(DbError::Aborted));
        assert_eq!(keys(&database).await, ["a", "b"]);
        // The connection that was used is as good as before.
        db.write(|db| Box::pin(put(db, vec!["e"]))).await.unwrap();
        assert_eq!(keys(&database).await, ["a", "b", "e"]);
    }

    async fn a_failure_counts_even_if_nobody_looks_at_it(database: TestDatabase) {
        let db = database.db();
        let hidden = db
            .write(|mut db| Box::pin(async move {
                db.execute(&sql::PUT, &["a".into(), 1.into()]).await?;
                let _ = db.execute(&sql::PUT, &["a".into(), 2.into()]).await;
                Ok(())
            }))
            .await;
        assert_matches!(hidden, Err(DbError::Other(_)));
        assert_eq!(keys(&database).await, [""; 0]);
    }

    async fn calls_in_order_share_commits_and_none_spoils_its_neighbours(database: TestDatabase) {
        let group = TaskGroup::new("test");
        let pieces: [&[&str]; 4] = [&["a"], &["half", "a"], &["b", "c"], &["d"]];
        let requests: Vec<_> = pieces
            .into_iter()
            .map(|piece| {
                let (db, piece) = (database.db().clone(), piece.to_vec());
                group.spawn("caller", async move {
                    db.write_in_order(|db| Box::pin(put(db, piece))).await
                })
            })
            .collect();
        let mut outcomes = Vec::new();
        for request in requests {
            outcomes.push(request.await.unwrap().is_ok());
        }
        assert_eq!(outcomes, [true, false, true, true]);
        assert_eq!(keys(&database).await, ["a", "b", "c", "d"]);
        let stats = database.db().writer_stats();
        assert!(stats.commits_total <= 2, "{stats:?}");
    }

    async fn one_statement_needs_no_transaction(database: TestDatabase) {
        let values = ["a".into(), 1.into()];
        let write = database.db().execute(&sql::PUT, &values);
        assert_eq!(write.await.unwrap(), 1);
        assert_eq!(keys(&database).await, ["a"]);
    }

    async fn values_come_back_as_they_went(database: TestDatabase) {
        let values = |values: [Value; 4]| values;
        let full = values([
            i64::MIN.into(),
            Some(i64::MAX).into(),
            "naïve \u{1F980} '\"\\ ".into(),
            Some(String::new()).into(),
        ]);
        let none = values([0.into(), None::<i64>.into(), "".into(), None::<String>.into()]);
        for (given, expected) in [
            (full, (i64::MIN, Some(i64::MAX), "naïve \u{1F980} '\"\\ ", Some(String::new()))),
            (none, (0, None, "", None)),
        ] {
            type Echo = (i64, Option<i64>, String, Option<String>);
            let read = database.db().fetch_one::<Echo>(&sql::ECHO, &given);
            let (a, b, c, d) = expected;
            assert_eq!(read.await.unwrap(), (a, b, c.to_owned(), d));
        }
    }

    async fn columns_come_back_as_they_went(database: TestDatabase) {
        let columns = [
            Column::Ints(vec![i64::MIN, 1, i64::MAX]),
            Column::MaybeInts(vec![None, Some(0), None]),
            Column::Texts(vec!["a\"b".into(), "ü\\".into(), String::new()]),
            Column::MaybeTexts(vec![Some("x".into()), None, Some(String::new())]),
        ];
        assert_eq!(columns[0].len(), 3);
        assert!(Column::Texts(vec![]).is_empty());
        type Row = (i64, Option<i64>, String, Option<String>, String);
        let read = database.db().read(|mut db| Box::pin(async move {
            db.fetch_rows::<Row>(&sql::BULK, &columns, &["same".into()]).await
        }));
        let same = || "same".to_owned();
        assert_eq!(read.await.unwrap(), [
            (i64::MIN, None, "a\"b".to_owned(), Some("x".to_owned()), same()),
            (1, Some(0), "ü\\".to_owned(), None, same()),
            (i64::MAX, None, String::new(), Some(String::new()), same()),
        ]);
    }

    async fn many_rows_are_one_statement_and_lists_find_them(database: TestDatabase) {
        const MANY: i64 = 100_000;
        let names = (0..MANY).map(|n| format!("{n:06}")).collect();
        let columns = [Column::Texts(names), Column::Ints((0..MANY).collect())];
        let write = database.db().write(move |mut db| Box::pin(async move {
            db.execute_rows(&sql::PUT_ALL, &columns, &[]).await
        }));
        assert_eq!(write.await.unwrap(), MANY as u64);
        let wanted = vec!["000007".to_owned(), "000009".to_owned(), "none".to_owned()];
        let found = async |wanted: Vec<String>, times: Vec<i64>| {
            let values = [wanted.into(), times.into()];
            let read = database.db().fetch_all::<(String,)>(&sql::AMONG, &values);
            read.await.unwrap().into_iter().map(|(key,)| key).collect::<Vec<_>>()
        };
        assert_eq!(found(wanted.clone(), vec![7, 8]).await, ["000007"]);
        assert_eq!(found(wanted, vec![]).await, [""; 0]);
    }

    async fn a_topic_is_told_after_the_commit_and_only_then(database: TestDatabase) {
        let (mut topic, mut other) = (database.db().topic("a"), database.db().topic("b"));
        // What the listener tells when it begins to hear does not count.
        database.db().write(|mut db| Box::pin(async move { db.notify("a").await }))
            .await
            .unwrap();
        until_true("the topic moves", || topic.has_changed().unwrap()).await.unwrap();
        settle(&mut topic).await;
        other.mark_unchanged();
        let undone: Result<(), _> = database.db()
            .write(|mut db| Box::pin(async move {
                db.notify("a").await?;
                Err(DbError::Aborted)
            }))
            .await;
        undone.unwrap_err();
        database.db().write(|mut db| Box::pin(async move { db.notify("b").await }))
            .await
            .unwrap();
        until_true("the other topic moves", || other.has_changed().unwrap()).await.unwrap();
        assert!(!topic.has_changed().unwrap());
    }

    async fn the_clock_is_about_that_of_this_host(database: TestDatabase) {
        let here = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
        let there = u128::try_from(database.db().now_ms()).unwrap();
        assert!(there.abs_diff(here) < 5_000, "{there} {here}");
    }
}

/// Waits until nothing is told for a moment: a server echoes what was told here.
async fn settle(topic: &mut tokio::sync::watch::Receiver<u64>) {
    topic.mark_unchanged();
    while tokio::time::timeout(Duration::from_millis(300), topic.changed())
        .await
        .is_ok()
    {
        topic.mark_unchanged();
    }
}

#[tokio::test]
async fn both_schemas_have_the_same_migrations_tables_and_columns() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../migrations");
    let names = |engine: &str| {
        let files = std::fs::read_dir(root.join(engine)).unwrap();
        let mut names: Vec<_> = files.map(|file| file.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names("sqlite"), names("postgres"));

    let file = TestDatabase::sqlite().await;
    let server = grip_testkit::PostgresServer::start().await.unwrap();
    let shared = TestDatabase::postgres(&server.url()).await;
    let columns = columns_of(&file).await;
    assert!(columns.contains(&("purgatory".to_owned(), "node".to_owned())));
    assert_eq!(columns, columns_of(&shared).await);
}

crate::statements! {
    mod schema {
        COLUMNS = {
            sqlite: "SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c \
                     WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite%' \
                     AND t.name NOT LIKE '_sqlx%' ORDER BY 1, 2",
            postgres: "SELECT table_name::text COLLATE \"C\", column_name::text COLLATE \"C\" \
                       FROM information_schema.columns WHERE table_schema = 'public' \
                       AND table_name NOT LIKE '\\_sqlx%' ORDER BY 1, 2",
        };
    }
}

async fn columns_of(database: &TestDatabase) -> Vec<(String, String)> {
    let read = database.db().fetch_all(&schema::COLUMNS, &[]);
    read.await.unwrap()
}
