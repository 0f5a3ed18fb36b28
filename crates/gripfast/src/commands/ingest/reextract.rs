//! Stored events, people and repositories read again by the rules of today, by the running node.

use std::time::{Duration, Instant};

use anyhow::bail;
use grip_ingest::{Stats, Status};
use reqwest::Method;
use serde_json::json;

use crate::{
    cli::NodeRequest,
    commands::{client::Node, progress::Progress, table::counted},
};

const PATH: [&str; 3] = ["api", "v1", "github"];
/// How often the node is asked how far it is.
const EVERY: Duration = Duration::from_millis(500);
/// How long it may read nothing more.
const MAX_STANDSTILL: Duration = Duration::from_secs(300);

/// Has the node begin, and waits for the end; it goes on to that even if this command does not.
pub(super) fn run(node: &Node<'_>, request: &NodeRequest) -> anyhow::Result<()> {
    node.change(Method::POST, &path("reextract"), &[])?;
    let stats: Stats = node.data(&path("stats"), &[])?;
    let mut progress = Progress::items("reextract", 0);
    let (mut before, mut advanced) = (0, Instant::now());
    let read = loop {
        let status: Status = node.data(&path("status"), &[])?;
        let read = Read::of(&status);
        let done = read.rows + read.unreadable;
        progress.set(done, rows(&stats).max(done));
        if read.is_complete {
            break read;
        }
        if done != before {
            (before, advanced) = (done, Instant::now());
        }
        if advanced.elapsed() >= MAX_STANDSTILL {
            bail!(
                "the node has read {done} rows and does not get on; `gripfast ingest status` and its log say more"
            );
        }
        pause();
    };
    progress.finish();
    let Read {
        rows, unreadable, ..
    } = read;
    if request.json {
        anstream::println!("{:#}", json!({ "rows": rows, "unreadable": unreadable }));
    } else {
        anstream::println!(
            "read {} again, {unreadable} unreadable",
            counted(rows, "row")
        );
    }
    Ok(())
}

fn path(what: &'static str) -> [&'static str; 4] {
    let [api, version, github] = PATH;
    [api, version, github, what]
}

#[tokio::main(flavor = "current_thread")]
async fn pause() {
    tokio::time::sleep(EVERY).await;
}

/// What has been read so far.
#[derive(Debug, PartialEq, Eq)]
struct Read {
    rows: u64,
    unreadable: u64,
    is_complete: bool,
}

impl Read {
    fn of(status: &Status) -> Self {
        let sum = |count: fn(&grip_ingest::Progress) -> i64| {
            let counts = status.progress.iter().map(count);
            counts.map(|count| u64::try_from(count).unwrap_or(0)).sum()
        };
        Self {
            rows: sum(|part| part.done),
            unreadable: sum(|part| part.failed),
            is_complete: status
                .progress
                .iter()
                .all(|part| part.finished_at.is_some()),
        }
    }
}

/// About how many rows there are: some of the pushes may be older than they are kept.
fn rows(stats: &Stats) -> u64 {
    let counts = [
        stats.pushes_total,
        stats.users,
        stats.repositories,
        stats.rejected,
    ];
    counts
        .iter()
        .map(|count| u64::try_from(*count).unwrap_or(0))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_parts_are_read_when_each_has_ended() {
        let part = |done: i64, finished_at: Option<i64>| {
            json!({
                "work": "events", "place": "", "done": done, "failed": 1, "began_at": 1,
                "updated_at": 2, "finished_at": finished_at,
            })
        };
        let of = |parts: &[serde_json::Value]| {
            let status = json!({ "progress": parts });
            Read::of(&serde_json::from_value(status).unwrap())
        };
        let both = of(&[part(3, Some(4)), part(5, None)]);
        assert_eq!(
            (both.rows, both.unreadable, both.is_complete),
            (8, 2, false)
        );
        assert!(of(&[part(3, Some(4)), part(5, Some(6))]).is_complete);
    }
}
