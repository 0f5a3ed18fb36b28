//! Promises that both engines keep.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use grip_tasks::TaskGroup;
use grip_testkit::{assert_matches, until_true};

use super::definitions::{checks, words};
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
async fn both_schemas_have_the_same_tables_types_indexes_and_constraints() {
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
    let columns = read(&file, &schema::COLUMNS).await;
    let is_there = |column: &Vec<String>| column[..3] == ["purgatory", "node", "text"];
    assert!(columns.iter().any(is_there), "{columns:?}");
    let (json, others) = of_json(read(&shared, &schema::COLUMNS).await);
    assert_eq!(columns, others);
    json_is_a_view_of_the_file_and_jsonb_of_the_server(&file, &shared, json).await;

    // The columns of an index, whether it is unique, and its definition: expressions, directions
    // and which rows it has.
    let indexes = async |database: &TestDatabase| {
        let mut indexes = read(database, &schema::INDEXES).await;
        for index in &mut indexes {
            index[4] = words(&index[4]);
        }
        indexes
    };
    let of_file = indexes(&file).await;
    let is_there = |words: &str| of_file.iter().any(|index| index[4].ends_with(words));
    assert!(
        is_there("on queue id where dead_at is not null"),
        "{of_file:?}"
    );
    assert!(
        is_there("coalesce github_created_at , created_at , id"),
        "{of_file:?}"
    );
    let (json, others) = of_json(indexes(&shared).await);
    assert_eq!(of_file, others);
    let json: Vec<_> = json.into_iter().map(|index| index[4].clone()).collect();
    let gin = |table: &str, column: &str, class: &str| {
        format!("create index {table}_json_{column} on {table}_json using gin {column}{class}")
    };
    assert_eq!(
        json,
        [
            gin("github_repositories", "raw", " jsonb_path_ops"),
            gin("github_repositories", "topics", ""),
            gin("github_users", "raw", " jsonb_path_ops"),
            gin("push_events", "raw", " jsonb_path_ops"),
        ]
    );

    // SQLite has its constraints in the definition of the table alone.
    let of_file = read(&file, &schema::CHECKS).await.into_iter();
    let of_file = of_file.flat_map(|row| {
        let checks = checks(&row[1]).into_iter();
        checks.map(move |check| (row[0].clone(), check))
    });
    let mut of_file: Vec<_> = of_file.collect();
    let of_server = read(&shared, &schema::CHECKS).await.into_iter();
    let of_server = of_server.map(|row| (row[0].clone(), words(&row[1])));
    let mut of_server: Vec<_> = of_server.collect();
    of_file.sort();
    of_server.sort();
    let known = ("index_clock".to_owned(), "check id = 1".to_owned());
    assert!(of_file.contains(&known), "{of_file:?}");
    assert_eq!(of_file, of_server);

    let keys = read(&file, &schema::KEYS).await;
    assert!(
        keys.iter()
            .any(|key| key[0] == "queue" && key[1] == "unique"),
        "{keys:?}"
    );
    let (json, others) = of_json(read(&shared, &schema::KEYS).await);
    assert_eq!(keys, others);
    assert!(json.iter().all(|key| key[1..3] == ["primary", "id"]));
    assert_eq!(json.len(), JSON_TABLES.len());
}

/// What is JSON: tables of `jsonb` on a server, views of the text in a file.
const JSON_TABLES: [&str; 3] = [
    "github_repositories_json",
    "github_users_json",
    "push_events_json",
];

/// Rows about these tables, and all others.
fn of_json(rows: Vec<Vec<String>>) -> (Vec<Vec<String>>, Vec<Vec<String>>) {
    let is_json = |row: &Vec<String>| JSON_TABLES.contains(&row[0].as_str());
    rows.into_iter().partition(is_json)
}

async fn json_is_a_view_of_the_file_and_jsonb_of_the_server(
    file: &TestDatabase,
    shared: &TestDatabase,
    columns: Vec<Vec<String>>,
) {
    let column = |table: usize, column: &str, kind: &str, needed: &str| {
        [JSON_TABLES[table], column, kind, needed, ""].map(str::to_owned)
    };
    let expected = [
        column(0, "id", "bigint", "required"),
        column(0, "raw", "jsonb", "optional"),
        column(0, "topics", "jsonb", "optional"),
        column(1, "id", "bigint", "required"),
        column(1, "raw", "jsonb", "optional"),
        column(2, "id", "text", "required"),
        column(2, "raw", "jsonb", "optional"),
    ];
    assert_eq!(columns, expected);
    let named = |rows: &[Vec<String>]| -> Vec<_> {
        let names = rows.iter().map(|row| (row[0].clone(), row[1].clone()));
        names.collect()
    };
    let views = read(file, &schema::VIEWS).await;
    assert_eq!(named(&views), named(&columns));
    // Rows of JSON go with theirs, and are written with them.
    let bound = read(shared, &schema::BOUND).await;
    let expected = ["github_repositories", "github_users", "push_events"].map(|table| {
        let reference = format!("FOREIGN KEY (id) REFERENCES {table}(id) ON DELETE CASCADE");
        [format!("{table}_json"), reference, "1".to_owned()]
    });
    let bound: Vec<_> = bound.iter().map(|row| row[..3].to_vec()).collect();
    assert_eq!(bound, expected);
}

crate::statements! {
    mod schema {
        // Table, column, type, whether it must have a value, and its default. An integer key of
        // SQLite that counts by itself is a number of the same width.
        COLUMNS = {
            sqlite: "SELECT t.name, c.name, CASE lower(c.type) WHEN 'integer' THEN 'bigint' \
                         ELSE lower(c.type) END, \
                     CASE WHEN c.\"notnull\" = 1 OR c.pk > 0 THEN 'required' ELSE 'optional' END, \
                     coalesce(c.dflt_value, '') \
                     FROM sqlite_master t, pragma_table_info(t.name) c \
                     WHERE t.type = 'table' AND t.name NOT LIKE 'sqlite%' \
                     AND t.name NOT LIKE '_sqlx%' ORDER BY 1, 2",
            postgres: "SELECT table_name::text COLLATE \"C\", column_name::text COLLATE \"C\", \
                           CASE data_type WHEN 'bytea' THEN 'blob' ELSE data_type::text END, \
                           CASE is_nullable WHEN 'NO' THEN 'required' ELSE 'optional' END, \
                           replace(coalesce(column_default::text, ''), '::text', '') \
                       FROM information_schema.columns WHERE table_schema = 'public' \
                       AND table_name NOT LIKE '\\_sqlx%' ORDER BY 1, 2",
        };
        VIEWS = {
            sqlite: "SELECT t.name, c.name, '', '', '' \
                     FROM sqlite_master t, pragma_table_info(t.name) c \
                     WHERE t.type = 'view' ORDER BY 1, 2",
            postgres: "SELECT table_name::text, '', '', '', '' FROM information_schema.views \
                       WHERE table_schema = 'public'",
        };
        // Tables that belong to another, how, and how many triggers of that write to them.
        BOUND = {
            sqlite: "SELECT t.name, f.\"table\", '', '', '' \
                     FROM sqlite_master t, pragma_foreign_key_list(t.name) f",
            postgres: "SELECT t.relname::text COLLATE \"C\", pg_get_constraintdef(p.oid), \
                           (SELECT count(*)::text FROM pg_trigger g JOIN pg_proc f ON f.oid = g.tgfoid \
                            WHERE g.tgrelid = p.confrelid AND f.proname = 'put_' || t.relname), \
                           '', '' \
                       FROM pg_constraint p JOIN pg_class t ON t.oid = p.conrelid \
                       WHERE p.contype = 'f' ORDER BY 1",
        };
        INDEXES = {
            sqlite: "SELECT m.tbl_name, m.name, \
                         CASE l.\"unique\" WHEN 1 THEN 'unique' ELSE 'plain' END, \
                         (SELECT group_concat(coalesce(i.name, '(expression)'), ',') \
                          FROM (SELECT name FROM pragma_index_info(m.name) ORDER BY seqno) i), \
                         m.sql \
                     FROM sqlite_master m JOIN pragma_index_list(m.tbl_name) l ON l.name = m.name \
                     WHERE m.type = 'index' AND m.sql IS NOT NULL \
                     AND m.tbl_name NOT LIKE '_sqlx%' ORDER BY 1, 2",
            postgres: "SELECT t.relname::text COLLATE \"C\", c.relname::text COLLATE \"C\", \
                           CASE WHEN i.indisunique THEN 'unique' ELSE 'plain' END, \
                           (SELECT string_agg(coalesce(a.attname::text, '(expression)'), ',' \
                                ORDER BY k.place) \
                            FROM unnest(i.indkey) WITH ORDINALITY AS k (number, place) \
                            LEFT JOIN pg_attribute a \
                                ON a.attrelid = i.indrelid AND a.attnum = k.number AND k.number > 0), \
                           pg_get_indexdef(i.indexrelid) \
                       FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid \
                       JOIN pg_class t ON t.oid = i.indrelid \
                       JOIN pg_namespace n ON n.oid = t.relnamespace \
                       WHERE n.nspname = 'public' AND t.relname NOT LIKE '\\_sqlx%' \
                       AND NOT EXISTS (SELECT 1 FROM pg_constraint p WHERE p.conindid = i.indexrelid) \
                       ORDER BY 1, 2",
        };
        CHECKS = {
            sqlite: "SELECT name, sql, '', '', '' FROM sqlite_master \
                     WHERE type = 'table' AND name NOT LIKE 'sqlite%' AND name NOT LIKE '_sqlx%'",
            postgres: "SELECT t.relname::text, pg_get_constraintdef(p.oid), '', '', '' \
                       FROM pg_constraint p JOIN pg_class t ON t.oid = p.conrelid \
                       JOIN pg_namespace n ON n.oid = t.relnamespace \
                       WHERE n.nspname = 'public' AND p.contype = 'c' \
                       AND t.relname NOT LIKE '\\_sqlx%'",
        };
        // Primary keys and unique constraints, by table.
        KEYS = {
            sqlite: "SELECT name, kind, columns, '', '' FROM ( \
                         SELECT t.name AS name, 'primary' AS kind, \
                             (SELECT group_concat(c.name, ',') FROM (SELECT name, pk \
                              FROM pragma_table_info(t.name) WHERE pk > 0 ORDER BY pk) c) AS columns \
                         FROM sqlite_master t WHERE t.type = 'table' \
                         UNION ALL SELECT t.name, 'unique', \
                             (SELECT group_concat(i.name, ',') FROM (SELECT name \
                              FROM pragma_index_info(l.name) ORDER BY seqno) i) \
                         FROM sqlite_master t JOIN pragma_index_list(t.name) l \
                         WHERE t.type = 'table' AND l.origin = 'u') \
                     WHERE columns IS NOT NULL AND name NOT LIKE 'sqlite%' \
                     AND name NOT LIKE '_sqlx%' ORDER BY 1, 2, 3",
            postgres: "SELECT t.relname::text COLLATE \"C\", \
                           CASE p.contype WHEN 'p' THEN 'primary' ELSE 'unique' END, \
                           (SELECT string_agg(a.attname::text, ',' ORDER BY k.place) \
                            FROM unnest(p.conkey) WITH ORDINALITY AS k (number, place) \
                            JOIN pg_attribute a \
                                ON a.attrelid = p.conrelid AND a.attnum = k.number), '', '' \
                       FROM pg_constraint p JOIN pg_class t ON t.oid = p.conrelid \
                       JOIN pg_namespace n ON n.oid = t.relnamespace \
                       WHERE n.nspname = 'public' AND p.contype IN ('p', 'u') \
                       AND t.relname NOT LIKE '\\_sqlx%' ORDER BY 1, 2, 3",
        };
    }
}

async fn read(database: &TestDatabase, statement: &'static crate::Statement) -> Vec<Vec<String>> {
    type Row = (String, String, String, String, String);
    let rows: Vec<Row> = database.db().fetch_all(statement, &[]).await.unwrap();
    let rows = rows.into_iter().map(|(a, b, c, d, e)| vec![a, b, c, d, e]);
    rows.collect()
}
