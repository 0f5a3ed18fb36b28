//! The state of the node as a page for people.

use std::{fmt::Write as _, time::Duration};

use anstyle::{AnsiColor, Color, Style};
use grip_web::api_types::{DiskStatus, NodeStatus, StoreStatus};

use crate::commands::{
    progress::size,
    table::{BOLD, DIM, YELLOW, counted, counted_as, plain, screen_width, wrap},
    when::span,
};

const GREEN: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Green)));
const RED: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Red)));
/// Columns before the text of a line, and those that are left for it at least.
const INDENT: usize = 12;
const LEAST: usize = 20;
/// A disk or store counts as nearly full from here on, in percent.
const NEARLY_FULL: u64 = 90;

/// Writing to a string cannot fail.
macro_rules! line {
    ($out:expr, $label:expr, $($text:tt)*) => {
        let (mut label, text) = ($label, format!($($text)*));
        for part in wrap(&text, screen_width().saturating_sub(INDENT).max(LEAST)) {
            let _ = writeln!($out, "  {DIM}{label:<9}{DIM:#} {part}");
            label = "";
        }
    };
}

pub(super) fn page(status: &NodeStatus) -> String {
    let mut out = String::new();
    let (style, word) = match (status.ready, status.degraded.is_empty()) {
        (false, _) => (RED, "not ready"),
        (true, false) => (YELLOW, "degraded"),
        (true, true) => (GREEN, "ready"),
    };
    let commit = status
        .commit
        .as_deref()
        .map(|commit| format!(" ({commit})"));
    let _ = writeln!(
        out,
        "{style}{word}{style:#}  {BOLD}{}{BOLD:#}  {DIM}gripfast {}{}, up {}{DIM:#}",
        plain(&status.url),
        plain(&status.version),
        plain(&commit.unwrap_or_default()),
        span(Duration::from_secs(status.uptime_seconds)),
    );
    for (part, why) in &status.missing {
        let _ = writeln!(out, "  {RED}{part}{RED:#}: {}", plain(why));
    }
    for (part, why) in &status.degraded {
        let _ = writeln!(out, "  {YELLOW}{part}{YELLOW:#}: {}", plain(why));
    }
    let (repositories, events) = (
        counted_as(status.repositories, "repository", "repositories"),
        counted(status.events, "event"),
    );
    line!(
        out,
        "serves",
        "{repositories}, {events}, {}",
        counted(status.relay_clients, "relay client")
    );
    let oldest = status.oldest_wait_seconds.map(Duration::from_secs);
    let oldest = oldest.map(|wait| format!(", the oldest for {}", span(wait)));
    line!(
        out,
        "waits",
        "{} for git data{}; {} still looked for; {} under way",
        counted(status.waiting, "event"),
        oldest.unwrap_or_default(),
        status.wanted,
        counted_as(status.pushes, "push", "pushes"),
    );
    line!(out, "fetches", "{}", fetches(status));
    line!(out, "fails", "{}", fails(status));
    for one in &status.sync.failing {
        let (url, reason) = (plain(&one.url), plain(&one.reason));
        line!(out, "", "{url}: {reason}; {}", plain(&one.next_step));
    }
    for disk in &status.disks {
        line!(out, "disk", "{}", self::disk(disk));
    }
    if let Some(store) = &status.store {
        line!(out, "events", "{}", self::store(store));
    }
    out
}

fn fetches(status: &NodeStatus) -> String {
    let sync = &status.sync;
    if !sync.enabled {
        return "nothing: sync is switched off (sync_enabled)".to_owned();
    }
    format!(
        "{} now, {} in the queue; follows {}",
        counted_as(sync.running, "repository", "repositories"),
        sync.queue_length,
        counted(sync.relays, "relay"),
    )
}

/// What somebody should look at, with the command that shows more.
fn fails(status: &NodeStatus) -> String {
    let (sync, jobs) = (&status.sync, &status.jobs);
    let found = [
        (jobs.dead, "dead job", "`gripfast queue ls --state dead`"),
        (sync.hosts_failing, "failing host", "`gripfast sync status`"),
        (
            sync.fetches_failing,
            "failed download",
            "`gripfast sync status`",
        ),
        (
            sync.relays_failing,
            "failing relay",
            "`gripfast sync status`",
        ),
    ];
    let found = found.into_iter().filter(|(number, ..)| *number > 0);
    let found: Vec<_> = found
        .map(|(number, what, see)| format!("{} ({see})", counted(number, what)))
        .collect();
    if found.is_empty() {
        "nothing".to_owned()
    } else {
        found.join(", ")
    }
}

fn disk(disk: &DiskStatus) -> String {
    let free = size(disk.free_bytes);
    let used = percent(
        disk.total_bytes.saturating_sub(disk.free_bytes),
        disk.total_bytes,
    );
    let note = if disk.free_bytes < disk.floor_bytes {
        format!(
            "; full: pushes and events are refused below {}",
            size(disk.floor_bytes)
        )
    } else if used >= NEARLY_FULL {
        "; nearly full".to_owned()
    } else {
        String::new()
    };
    let (total, holds) = (size(disk.total_bytes), plain(&disk.holds));
    format!("{free} of {total} free ({holds}){note}")
}

fn store(store: &StoreStatus) -> String {
    let hint = if percent(store.used_bytes, store.limit_bytes) >= NEARLY_FULL {
        "; raise event_map_bytes, or `gripfast compact`"
    } else {
        ""
    };
    let (used, limit) = (size(store.used_bytes), size(store.limit_bytes));
    format!("{used} of {limit} in the event store{hint}")
}

fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100).checked_div(whole).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::table::unstyled;

    const STATUS: &str = r#"{
        "version": "0.1.0", "url": "https://grasp.example.com", "uptime_seconds": 93784,
        "ready": true, "degraded": {"redis": "cannot be reached"},
        "repositories": 3, "events": 41, "relay_clients": 1, "pushes": 1, "waiting": 2,
        "wanted": 4, "oldest_wait_seconds": 130,
        "sync": {"enabled": true, "queue_length": 2, "running": 1, "relays": 5, "relays_failing": 1},
        "jobs": {"due": 1, "dead": 2},
        "disks": [{"holds": "git, relay, data", "free_bytes": 100000000,
                   "total_bytes": 20000000000, "floor_bytes": 268435456}],
        "store": {"used_bytes": 1048576, "limit_bytes": 68719476736}
    }"#;

    #[test]
    fn a_node_is_shown_on_one_screen() {
        let status = serde_json::from_str(STATUS).unwrap();
        let text = unstyled(&page(&status));
        assert!(text.lines().count() <= 20, "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn a_node_that_is_well_fails_nothing() {
        let status: NodeStatus = serde_json::from_str(r#"{"ready": true}"#).unwrap();
        let text = unstyled(&page(&status));
        assert!(text.starts_with("ready"), "{text}");
        assert!(text.contains("fails     nothing"), "{text}");
    }
}
