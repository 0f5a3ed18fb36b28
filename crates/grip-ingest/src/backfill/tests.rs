use std::{fs, io::Write as _};

use flate2::{Compression, write::GzEncoder};
use grip_db::{TestDatabase, on_both_engines, prepare_all};
use serde_json::{Value as Json, json};
use tempfile::TempDir;

use super::{file_rows::sql, *};
use crate::store::EventQuery;

const DAY: Duration = Duration::from_secs(86_400);
/// 2015-01-01 15:00 UTC
const HOUR: i64 = 1_420_124_400;

fn backfill(db: &Db) -> Backfill {
    let group = TaskGroup::new("backfill");
    Backfill::new(db.clone(), Queue::new(db.clone()), DAY, group)
}

fn moment(second: i64) -> String {
    jiff::Timestamp::from_second(second).unwrap().to_string()
}

fn push(number: i64, second: i64) -> Json {
    json!({
        "id": (2_000_000_000 + number).to_string(),
        "type": "PushEvent",
        "actor": {"id": 7, "login": "mona", "url": "https://api.github.com/users/mona"},
        "repo": {"id": 5, "name": "acme/one", "url": "https://api.github.com/repos/acme/one"},
        "payload": {
            "push_id": number + 1, "ref": "refs/heads/main",
            "head": format!("{number:040x}"), "before": "0".repeat(40),
        },
        "public": true,
        "created_at": moment(second),
    })
}

fn other(number: i64, second: i64) -> Json {
    json!({
        "id": (3_000_000_000_i64 + number).to_string(), "type": "WatchEvent",
        "actor": {"id": 7}, "repo": {"id": 5}, "payload": {}, "created_at": moment(second),
    })
}

/// An hour of events, two pushes and one other after the other.
fn hour(count: i64) -> String {
    let mut text = String::new();
    for number in 0..count {
        let second = HOUR + number * 3_599 / count.max(1);
        let event = match number % 3 {
            2 => other(number, second),
            _ => push(number, second),
        };
        text.push_str(&format!("{event}\n"));
    }
    text
}

fn packed(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn put(dir: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.path().join(name);
    fs::write(&path, bytes).unwrap();
    path
}

async fn pushes(db: &Db) -> usize {
    let query = EventQuery {
        limit: 1_000_000,
        ..EventQuery::default()
    };
    Store::new(db.clone()).events(&query).await.unwrap().len()
}

async fn run(db: &Db, path: &Path) -> Result<FileDone, BackfillError> {
    backfill(db).file(path, |_| {}).await
}

grip_db::statements! {
    mod gaps {
        ADD = "INSERT INTO ingest_gaps (source, after_at, before_at, found_at) \
               VALUES ('events', $1, $2, 1)";
    }
}

async fn hole(db: &Db, from: i64, to: i64) {
    let between = [(from * 1_000).into(), (to * 1_000).into()];
    db.execute(&gaps::ADD, &between).await.unwrap();
}

async fn open_holes(db: &Db) -> usize {
    let store = Store::new(db.clone());
    store.gaps(true, 0, 100).await.unwrap().len()
}

on_both_engines! {
    async fn every_statement_is_understood(test: TestDatabase) {
        prepare_all(test.db(), sql::ALL).await.unwrap();
    }

    async fn a_packed_hour_is_read_once_and_told_of(test: TestDatabase) {
        let dir = TempDir::new().unwrap();
        let path = put(&dir, "2015-01-01-15.json.gz", &packed(hour(3_000).as_bytes()));
        let mut reported = Vec::new();
        let done = backfill(test.db()).file(&path, |progress| reported.push(*progress)).await.unwrap();
        assert_eq!((done.lines, done.was_known, done.resumed_after), (3_000, false, 0));
        let accepted = Accepted { new: 2_000, other: 1_000, ..Accepted::default() };
        assert_eq!(done.accepted, accepted);
        assert_eq!(done.span, Some((HOUR * 1_000, (HOUR + 3_600) * 1_000)));
        assert_eq!(pushes(test.db()).await, 2_000);
        assert_eq!(reported.first().unwrap().bytes, 0);
        let last = reported.last().unwrap();
        assert_eq!((last.bytes, last.lines), (last.total_bytes, 3_000));
        assert!(reported.is_sorted_by_key(|progress| progress.bytes), "{reported:?}");

        let again = run(test.db(), &path).await.unwrap();
        assert!(again.was_known);
        assert_eq!(again.accepted, Accepted::default());
        let moved = put(&dir, "moved.json.gz", &fs::read(&path).unwrap());
        assert!(run(test.db(), &moved).await.unwrap().was_known, "by what it holds");
        let plain = put(&dir, "2015-01-01-15.json", hour(3_000).as_bytes());
        let again = run(test.db(), &plain).await.unwrap();
        let known = Accepted { known: 2_000, other: 1_000, ..Accepted::default() };
        assert_eq!(again.accepted, known);
        assert_eq!(pushes(test.db()).await, 2_000);
    }

    async fn a_reading_that_was_stopped_goes_on_with_the_first_line_that_was_not_kept(test: TestDatabase) {
        let dir = TempDir::new().unwrap();
        let path = put(&dir, "2015-01-01-15.json.gz", &packed(hour(9_000).as_bytes()));
        let stopped = {
            let one = backfill(test.db());
            let (sender, mut steps) = tokio::sync::watch::channel(0);
            let reading = one.file(&path, |progress| {
                sender.send_replace(progress.lines);
            });
            tokio::select! {
                done = reading => panic!("{done:?}"),
                lines = steps.wait_for(|lines| *lines > 0) => *lines.unwrap(),
            }
        };
        assert!((1..9_000).contains(&stopped), "{stopped}");
        let test = test.reopen().await;
        let done = run(test.db(), &path).await.unwrap();
        assert!((stopped..9_000).contains(&done.resumed_after), "{done:?}");
        let here = done.accepted;
        assert_eq!(here.known, 0, "nothing was read twice");
        assert_eq!(here.new + here.other, 9_000 - done.resumed_after);
        assert_eq!(pushes(test.db()).await, 6_000);
        let counts = Store::new(test.db().clone()).counts().await.unwrap();
        let counts: Vec<_> = counts.iter().map(|(_, kind, n)| (kind.as_str(), *n)).collect();
        assert_eq!(counts, [("PushEvent", 6_000), ("WatchEvent", 3_000)]);
    }

    async fn garbage_is_kept_aside_and_the_rest_is_read(test: TestDatabase) {
        let dir = TempDir::new().unwrap();
        let mut text = hour(30).into_bytes();
        text.extend(b"not json\n\n[1,2]\n{\"id\":\"1\"}\n\xff\xfe\n");
        text.extend(push(1_000, HOUR + 10).to_string().as_bytes());
        let path = put(&dir, "mixed.json", &text);
        let done = run(test.db(), &path).await.unwrap();
        assert_eq!((done.accepted.new, done.accepted.rejected), (21, 4));
        let store = Store::new(test.db().clone());
        let rejected = store.recent_rejections(10).await.unwrap();
        assert_eq!(rejected.len(), 4);
        assert!(rejected.iter().all(|kept| kept.source == "file mixed.json"));
    }

    async fn a_truncated_file_is_told_of_kept_as_far_as_it_goes_and_fills_no_hole(test: TestDatabase) {
        hole(test.db(), HOUR + 10, HOUR + 20).await;
        let dir = TempDir::new().unwrap();
        let whole = packed(hour(3_000).as_bytes());
        let path = put(&dir, "2015-01-01-15.json.gz", &whole[..whole.len() / 2]);
        let error = run(test.db(), &path).await.unwrap_err();
        let BackfillError::Truncated { lines, .. } = error else {
            panic!("{error:?}");
        };
        assert!((100..3_000).contains(&lines), "{lines}");
        assert!(error_text(&error).contains("fetch it again"), "{error}");
        let kept = pushes(test.db()).await as u64;
        assert!(kept.abs_diff(lines * 2 / 3) <= 1, "{kept} of {lines}");
        assert_eq!(open_holes(test.db()).await, 1);
        // The same again says the same; the whole file goes on to the end.
        assert!(run(test.db(), &path).await.is_err());
        assert_eq!(pushes(test.db()).await as u64, kept);
        let path = put(&dir, "2015-01-01-15.json.gz", &whole);
        let done = run(test.db(), &path).await.unwrap();
        assert_eq!((done.accepted.known, done.gaps_closed), (kept, 1));
        assert_eq!((pushes(test.db()).await, open_holes(test.db()).await), (2_000, 0));
    }

    async fn holes_are_filled_by_what_covers_them_and_by_neighbours_together(test: TestDatabase) {
        let db = test.db();
        hole(db, HOUR + 10, HOUR + 20).await;
        hole(db, HOUR + 3_590, HOUR + 3_610).await;
        hole(db, HOUR - 10, HOUR + 10).await;
        hole(db, HOUR + 7_300, HOUR + 7_400).await;
        let dir = TempDir::new().unwrap();
        let first = put(&dir, "2015-01-01-15.json.gz", &packed(hour(10).as_bytes()));
        assert_eq!(run(db, &first).await.unwrap().gaps_closed, 1);
        let next = format!("{}\n", push(99, HOUR + 3_700));
        let next = put(&dir, "2015-01-01-16.json.gz", &packed(next.as_bytes()));
        assert_eq!(run(db, &next).await.unwrap().gaps_closed, 1, "the one across both hours");
        assert_eq!(open_holes(db).await, 2);
        // A hole that is found later is filled by what is known already.
        hole(db, HOUR + 100, HOUR + 200).await;
        assert_eq!(run(db, &first).await.unwrap().gaps_closed, 1);
        let store = Store::new(db.clone());
        let gaps = store.gaps(false, 0, 10).await.unwrap();
        let by: Vec<_> = gaps.iter().filter_map(|gap| gap.closed_by.as_deref()).collect();
        let [first, next] = ["file 2015-01-01-15.json.gz", "file 2015-01-01-16.json.gz"];
        assert_eq!(by, [first, next, first]);
    }

    async fn two_who_read_the_same_file_do_not_count_it_twice(test: TestDatabase) {
        let dir = TempDir::new().unwrap();
        let path = put(&dir, "a.json.gz", &packed(hour(6_000).as_bytes()));
        let (one, two) = (backfill(test.db()), backfill(test.db()));
        let (one, two) = tokio::join!(one.file(&path, |_| {}), two.file(&path, |_| {}));
        let busy = [&one, &two].into_iter().filter(|done| {
            matches!(done, Err(BackfillError::Busy { .. }))
        });
        assert_eq!(busy.count(), 1, "{one:?} {two:?}");
        assert_eq!(pushes(test.db()).await, 4_000);
        let counts = Store::new(test.db().clone()).counts().await.unwrap();
        assert_eq!(counts[0].2 + counts[1].2, 6_000, "{counts:?}");
    }
}

fn error_text(error: &BackfillError) -> String {
    error.to_string()
}

#[tokio::test]
async fn what_is_no_file_of_events_is_left_soon() {
    let test = TestDatabase::sqlite().await;
    let dir = TempDir::new().unwrap();
    let lines: String = (0..100_000)
        .map(|n| format!("line {n} of a novel\n"))
        .collect();
    let path = put(&dir, "novel.json", lines.as_bytes());
    let error = run(test.db(), &path).await.unwrap_err();
    let BackfillError::NotEvents { lines, .. } = error else {
        panic!("{error:?}");
    };
    assert!(lines <= 10_000, "{lines}");
    let error = run(test.db(), &dir.path().join("missing.gz"))
        .await
        .unwrap_err();
    assert!(matches!(error, BackfillError::Open { .. }), "{error:?}");
    let empty = put(&dir, "empty.json.gz", b"");
    let done = run(test.db(), &empty).await.unwrap();
    assert_eq!((done.lines, done.span), (0, None));
}

#[tokio::test]
async fn a_stop_of_the_process_leaves_what_was_kept() {
    let test = TestDatabase::sqlite().await;
    let dir = TempDir::new().unwrap();
    let path = put(&dir, "a.json", hour(9_000).as_bytes());
    let group = TaskGroup::new("stopped");
    let db = test.db();
    let backfill = Backfill::new(db.clone(), Queue::new(db.clone()), DAY, group.clone());
    let stopped = backfill.file(&path, |progress| {
        if progress.lines > 0 {
            group.token().cancel();
        }
    });
    let error = stopped.await.unwrap_err();
    assert!(matches!(error, BackfillError::Stopped { .. }), "{error:?}");
    let kept = pushes(db).await;
    assert!((1..6_000).contains(&kept), "{kept}");
    assert_eq!(run(db, &path).await.unwrap().lines, 9_000);
    assert_eq!(pushes(db).await, 6_000);
}
