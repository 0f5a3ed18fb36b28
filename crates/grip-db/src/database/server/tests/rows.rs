use std::{collections::BTreeMap, fs, path::Path};

use grip_testkit::until_ok;
use tempfile::TempDir;

use super::*;
use crate::{Location, RowsError, RowsTaken, Statement};

/// Fills every table that a backup has with rows of `node`: texts that have to be quoted, numbers that no
/// float has, and nothing where nothing may be.
const FILL: &str = r#"
DO $$
DECLARE t record; names text; drawn text;
BEGIN
    FOR t IN SELECT table_name FROM information_schema.tables
        WHERE table_schema = current_schema() AND table_name NOT LIKE 'cluster%'
        AND table_name NOT LIKE '%sqlx%' AND table_name NOT LIKE '%\_json'
        AND table_name NOT IN ('index_clock', 'sumdb_log')
    LOOP
        SELECT string_agg(quote_ident(column_name), ', '),
            string_agg(CASE
                WHEN column_name = 'node' THEN '''NODE'''
                WHEN is_nullable = 'YES' AND column_name LIKE '%e' THEN 'NULL'
                WHEN data_type = 'bigint' THEN '9007199254740993 + n'
                ELSE 'n || E''NODE \\t"quoted" \n ünï 🦀 \\u0041''' END, ', ')
            INTO names, drawn FROM information_schema.columns
            WHERE table_schema = current_schema() AND columns.table_name = t.table_name;
        EXECUTE format('INSERT INTO %I (%s) OVERRIDING SYSTEM VALUE SELECT %s FROM generate_series(1, 1200) AS n
            ON CONFLICT DO NOTHING', t.table_name, names, drawn);
    END LOOP;
    UPDATE index_clock SET last_ns = 1;
END $$"#;

async fn export(db: &Db, to: &Path) -> BTreeMap<String, String> {
    db.copy_to(to, || Ok(())).await.unwrap();
    let files = fs::read_dir(to).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        (name, fs::read_to_string(path).unwrap())
    });
    files.collect()
}

async fn taken(db: &Db, file: &Path, node: &str) -> RowsTaken {
    let file = Db::open(file).await.unwrap();
    let mut steps = Steps::default();
    let on_progress = &mut |done, total| steps.add(done, total);
    let taken = db.take_missing_rows(&file, node, on_progress).await;
    let taken = taken.unwrap();
    file.close().await;
    let rows = taken.own.unwrap_or_default() + taken.shared.unwrap_or_default();
    assert_eq!(steps.end(), rows);
    taken
}

/// How far a copy said that it was.
#[derive(Default)]
struct Steps(Vec<(u64, u64)>);

impl Steps {
    fn add(&mut self, done: u64, total: u64) {
        self.0.push((done, total));
    }

    /// What was done at last: all of a total that stayed the same, and never less than before.
    fn end(&self) -> u64 {
        let (done, total) = self.0.last().copied().unwrap_or_default();
        assert_eq!(done, total);
        assert!(self.0.iter().all(|step| step.1 == total), "{:?}", self.0);
        assert!(self.0.is_sorted(), "{:?}", self.0);
        done
    }
}

/// Nothing is lost or changed on the way, and nothing of another node comes with it.
#[tokio::test]
async fn rows_come_back_by_a_file_into_another_database() {
    let server = postgres().await;
    let (one, other) = (
        TestDatabase::postgres(&server.url()).await,
        TestDatabase::postgres(&server.url()).await,
    );
    let Location::Server(at) = one.location() else {
        panic!("it is a server");
    };
    for node in ["beside", "test"] {
        admin(&at.url, FILL.replace("NODE", node)).await;
    }
    let dir = TempDir::new().unwrap();
    let before = export(one.db(), &dir.path().join("before")).await;
    let held = &before["purgatory.rows"];
    assert_eq!(held.lines().count(), 1200);
    assert!(!held.contains("beside") && !held.contains("\"node\""));
    assert!(before["queue.rows"].contains("beside"), "jobs are shared");
    assert!(before.keys().all(|name| !name.starts_with("cluster")));
    let empty = before.iter().filter(|(_, text)| text.is_empty());
    assert_eq!(empty.count(), 0, "each table has rows");

    let file = dir.path().join("rows.sqlite");
    let mut steps = Steps::default();
    let on_progress = &mut |done, total| steps.add(done, total);
    let rows = Db::import_rows(&dir.path().join("before"), &file, on_progress).await;
    let bytes = before.iter().map(|(name, text)| match name.as_str() {
        "schema" => 0,
        _ => text.len() as u64,
    });
    assert_eq!(steps.end(), bytes.sum::<u64>());
    assert!(steps.0.len() > before.len(), "more often than once a table");
    let lines = before.values().map(|text| text.lines().count() as u64);
    // One line says the schema.
    assert_eq!(rows.unwrap(), lines.sum::<u64>() - 1);
    let all = taken(other.db(), &file, "test").await;
    // The progress of a node is one row.
    assert_eq!(all.own, Some(4 * 1200 + 1), "{all:?}");
    let after = export(other.db(), &dir.path().join("after")).await;
    assert_eq!(
        before.keys().collect::<Vec<_>>(),
        after.keys().collect::<Vec<_>>()
    );
    for (name, text) in &before {
        assert!(*text == after[name], "{name} differs");
    }

    // What is there stays, of each kind by itself.
    let again = taken(other.db(), &file, "test").await;
    assert_eq!(again, RowsTaken::default());
    let second = taken(other.db(), &file, "second").await;
    assert_eq!((second.own, second.shared), (all.own, None));
    let Location::Server(at) = other.location() else {
        panic!("it is a server");
    };
    // Numbers go on behind those that came.
    let mut link = PgConnection::connect(&at.url).await.unwrap();
    let next = "INSERT INTO queue (kind, key, payload, visible_at, enqueued_at) \
                VALUES ('a', 'b', '', 0, 0) RETURNING id";
    let next: i64 = sqlx::query_scalar(next).fetch_one(&mut link).await.unwrap();
    assert_eq!(next, 9_007_199_254_740_993 + 1201);
}

#[tokio::test]
async fn rows_are_of_one_moment_while_others_write() {
    let server = postgres().await;
    let test = TestDatabase::postgres(&server.url()).await;
    let Location::Server(at) = test.location() else {
        panic!("it is a server");
    };
    let pair = |n: i64| {
        format!(
            "BEGIN; INSERT INTO avatars (user_id, url, fetched_at) VALUES ({n}, '', 0); \
             INSERT INTO tag_times VALUES ('{n}', '', 0); COMMIT"
        )
    };
    admin(&at.url, pair(1)).await;
    // A table between the two is locked until the next pair is there.
    let mut lock = PgConnection::connect(&at.url).await.unwrap();
    let locked = sqlx::raw_sql("BEGIN; LOCK TABLE queue")
        .execute(&mut lock)
        .await;
    locked.unwrap();
    let dir = TempDir::new().unwrap();
    let place = dir.path().join("rows");
    let writing = async {
        let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        until_ok("the export waits for the lock", async || {
            let mut link = PgConnection::connect(&at.url).await?;
            let waits: i64 = sqlx::query_scalar(waits).fetch_one(&mut link).await?;
            Ok((waits > 0).then_some(()))
        })
        .await
        .unwrap();
        admin(&at.url, pair(2)).await;
        lock.close().await.unwrap();
    };
    let (rows, ()) = tokio::join!(export(test.db(), &place), writing);
    assert_eq!(rows["avatars.rows"].lines().count(), 1);
    assert_eq!(
        rows["tag_times.rows"].lines().count(),
        1,
        "of the same moment"
    );
}

#[tokio::test]
async fn a_disk_without_room_and_a_newer_schema_are_named() {
    let server = postgres().await;
    let test = TestDatabase::postgres(&server.url()).await;
    let Location::Server(at) = test.location() else {
        panic!("it is a server");
    };
    let large = "INSERT INTO tag_times SELECT n::text, repeat('x', 100000), 0 FROM generate_series(1, 60) AS n";
    admin(&at.url, large).await;
    let dir = TempDir::new().unwrap();
    let full = || Err(std::io::Error::other("no room"));
    let refused = test.db().copy_to(&dir.path().join("a"), full).await;
    assert_eq!(refused.unwrap_err().to_string(), "no room");

    let rows = dir.path().join("b");
    export(test.db(), &rows).await;
    fs::write(rows.join("schema"), "9999\n").unwrap();
    let refused = Db::import_rows(&rows, &dir.path().join("c"), &mut |_, _| {}).await;
    let error = refused.unwrap_err();
    assert!(matches!(error, RowsError::Newer(9999)), "{error}");
    assert!(error.to_string().contains("newer gripfast"), "{error}");
}

/// Rows of an older schema get the schema of today as a file does, by its migrations.
#[tokio::test]
async fn rows_of_an_older_schema_are_migrated() {
    static READ: Statement = Statement::new("test", "SELECT capability FROM queue WHERE id = 7");
    let dir = TempDir::new().unwrap();
    let rows = dir.path().join("rows");
    fs::create_dir(&rows).unwrap();
    // Migration 15 gave jobs a capability, and the listing of a source its own.
    let job = r#"{"id":7,"kind":"index-list","key":"github.com/corp","payload":"","visible_at":1,
        "lease_token":0,"attempts":0,"limited":0,"lost":0,"asked":0,"enqueued_at":1}"#;
    let job = format!("{}\n", job.replace("\n        ", ""));
    fs::write(rows.join("queue.rows"), job).unwrap();
    fs::write(rows.join("schema"), "14\n").unwrap();
    let file = dir.path().join("rows.sqlite");
    let imported = Db::import_rows(&rows, &file, &mut |_, _| {}).await;
    assert_eq!(imported.unwrap(), 1);
    let db = Db::open(&file).await.unwrap();
    let (capability,): (String,) = db.fetch_one(&READ, &[]).await.unwrap();
    assert_eq!(capability, "github.com/corp");
}
