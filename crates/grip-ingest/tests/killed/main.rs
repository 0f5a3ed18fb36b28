//! A backfill of a file of old events in a process of its own, so that `kill -9` is what it says.
//!
//! The test starts itself again as another process, which reads until it is killed.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on stops here")]

use std::{
    fmt::Write as _,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use grip_db::Db;
use grip_ingest::backfill::{Backfill, BackfillError, FileDone};
use grip_queue::Queue;
use grip_tasks::TaskGroup;
use grip_testkit::within;
use serde_json::json;
use tempfile::TempDir;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
};

/// Marks a process as the one that reads, and says where.
const DIRECTORY: &str = "GRIP_TEST_BACKFILL_DIRECTORY";
const EVENTS: u64 = 20_000;
const DAY: Duration = Duration::from_secs(86_400);

fn events() -> String {
    let mut text = String::new();
    for number in 0..EVENTS {
        let event = json!({
            "id": (2_000_000_000 + number).to_string(), "type": "PushEvent",
            "actor": {"id": 7, "login": "mona", "url": "https://api.github.com/users/mona"},
            "repo": {"id": 5, "name": "acme/one"},
            "payload": {
                "push_id": number + 1, "ref": "refs/heads/main",
                "head": format!("{number:040x}"), "before": "0".repeat(40),
            },
            "created_at": "2015-01-01T15:00:00Z",
        });
        writeln!(text, "{event}").unwrap();
    }
    text
}

fn places(directory: &Path) -> (PathBuf, PathBuf) {
    (directory.join("events.json"), directory.join("events.db"))
}

async fn read(directory: &Path, report: fn(u64)) -> Result<FileDone, BackfillError> {
    let (file, database) = places(directory);
    let db = Db::open(&database).await.unwrap();
    let group = TaskGroup::new("backfill");
    let backfill = Backfill::new(db.clone(), Queue::new(db), DAY, group);
    backfill
        .file(&file, |progress| report(progress.lines))
        .await
}

/// Starts the test of this binary as another process and kills it at its `steps`th step; says how
/// many lines it reported.
#[expect(clippy::disallowed_methods, reason = "the test is its own process")]
async fn read_and_kill(test: &str, directory: &Path, steps: usize) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(DIRECTORY, directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    let (mut seen, mut lines) = (0, 0);
    while seen <= steps {
        let line = within("a step", said.next_line()).await.unwrap().unwrap();
        let line = line.expect("it goes on until it is killed");
        if let Some((_, reported)) = line.split_once("lines ") {
            lines = reported.parse().unwrap();
            seen += 1;
        }
    }
    child.kill().await.unwrap();
    lines
}

#[tokio::test]
async fn a_file_whose_reader_is_killed_again_and_again_is_read_whole_and_once() {
    const THIS: &str = "a_file_whose_reader_is_killed_again_and_again_is_read_whole_and_once";
    if let Some(directory) = std::env::var_os(DIRECTORY) {
        let report = |lines| println!("lines {lines}");
        read(Path::new(&directory), report).await.unwrap();
        // It must not look as if it had ended by itself.
        return std::future::pending().await;
    }

    let directory = TempDir::new().unwrap();
    std::fs::write(places(directory.path()).0, events()).unwrap();
    let mut reported = 0;
    for steps in [1, 2, 1] {
        let lines = read_and_kill(THIS, directory.path(), steps).await;
        assert!(
            lines > reported,
            "{lines} after {reported}: what was kept is not read again"
        );
        reported = lines;
    }
    let done = read(directory.path(), |_| {}).await.unwrap();
    assert!(
        (reported..EVENTS).contains(&done.resumed_after),
        "{done:?} after {reported}"
    );
    assert_eq!(done.accepted.known, 0, "nothing was kept twice");
    assert_eq!(done.accepted.new, EVENTS - done.resumed_after);

    let db = Db::open(&places(directory.path()).1).await.unwrap();
    static COUNTS: grip_db::Statement = grip_db::Statement::new(
        "COUNTS",
        "SELECT (SELECT count(*) FROM push_events), (SELECT count(*) FROM queue), \
                 (SELECT count FROM ingest_counts), (SELECT events FROM ingest_files)",
    );
    let counts: (i64, i64, i64, i64) = db.fetch_one(&COUNTS, &[]).await.unwrap();
    let all = i64::try_from(EVENTS).unwrap();
    assert_eq!(counts, (all, all, all, all));
}
