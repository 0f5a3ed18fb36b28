//! The state of sync as a page for people.

use std::{fmt::Write as _, time::Duration};

use anstyle::{AnsiColor, Color, Style};
use serde::Deserialize;

use crate::commands::{
    table::{Table, gauge},
    when::{self, Now},
};

/// What we read of the node's answer. Lenient, so that nodes of other versions can be asked.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Status {
    enabled: bool,
    queue_length: usize,
    queue: Vec<Queued>,
    running: usize,
    requests_total: u64,
    oids_fetched_total: u64,
    throttle: Option<Throttle>,
    hosts_total: usize,
    hosts: Vec<Host>,
    tried: Vec<Tried>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Queued {
    identifier: String,
    next_attempt: i64,
    attempts: u32,
    in_progress: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Throttle {
    backend: String,
    percent: u32,
    reason: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Host {
    domain: String,
    in_flight: u32,
    in_flight_limit: u32,
    started: u32,
    window_limit: u32,
    breaker: String,
    closed_ms: Option<u64>,
    closed_why: Option<String>,
}

/// One URL that was asked; `explain` shows the same.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Tried {
    url: String,
    at: i64,
    duration_ms: u64,
    outcome: String,
}

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
const YELLOW: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Yellow)));

pub(super) fn page(status: &Status, now: Now) -> String {
    let mut out = head(status);
    section(&mut out, "next tries", queue(status, now));
    more(&mut out, status.queue_length, status.queue.len());
    section(&mut out, "hosts", hosts(status));
    more(&mut out, status.hosts_total, status.hosts.len());
    section(&mut out, "tried of late", tried(&status.tried, now));
    out
}

fn head(status: &Status) -> String {
    if !status.enabled {
        let waiting = status.queue_length;
        return format!(
            "{YELLOW}sync is switched off{YELLOW:#} (sync_enabled), {waiting} waiting\n"
        );
    }
    let mut out = format!(
        "{BOLD}{}{BOLD:#} waiting, {} being fetched; {} requests brought {} objects\n",
        status.queue_length, status.running, status.requests_total, status.oids_fetched_total
    );
    let _ = match &status.throttle {
        Some(t) if t.backend == "fallback" => writeln!(
            out,
            "{YELLOW}Redis is away{YELLOW:#} ({}): {} % of each host's limits are used",
            t.reason, t.percent
        ),
        Some(t) if t.backend == "redis" => writeln!(out, "{DIM}limits are shared by Redis{DIM:#}"),
        _ => Ok(()),
    };
    out
}

fn section(out: &mut String, title: &str, table: Option<String>) {
    if let Some(table) = table {
        let _ = write!(out, "\n{BOLD}{title}{BOLD:#}\n{table}");
    }
}

fn more(out: &mut String, total: usize, listed: usize) {
    if total > listed && listed > 0 {
        let _ = writeln!(out, "  {DIM}and {} more{DIM:#}", total - listed);
    }
}

fn queue(status: &Status, now: Now) -> Option<String> {
    let mut table = Table::new(["repository", "next", "tries"], 0);
    for queued in &status.queue {
        let next = match queued.in_progress {
            true => "being fetched".to_owned(),
            false => now.millis(queued.next_attempt),
        };
        table.row([queued.identifier.clone(), next, queued.attempts.to_string()]);
    }
    (!status.queue.is_empty()).then(|| table.render())
}

fn hosts(status: &Status) -> Option<String> {
    let mut table = Table::new(["host", "at once", "in a minute", "state"], 0);
    for host in &status.hosts {
        table.row([
            host.domain.clone(),
            gauge(host.in_flight, host.in_flight_limit, 5),
            gauge(host.started, host.window_limit, 6),
            state(host),
        ]);
    }
    (!status.hosts.is_empty()).then(|| table.render())
}

fn state(host: &Host) -> String {
    match (&host.closed_why, host.closed_ms) {
        (Some(why), Some(ms)) => format!("{why}, {}", when::span(Duration::from_millis(ms))),
        _ => host.breaker.clone(),
    }
}

/// What was asked of late; none if nothing was. URLs are shown whole, so that they can be copied.
pub(crate) fn tried(tried: &[Tried], now: Now) -> Option<String> {
    let mut out = String::new();
    for one in tried {
        let (when, took) = (now.millis(one.at), when::took(one.duration_ms));
        let _ = writeln!(out, "  {}", one.url);
        let _ = writeln!(out, "    {DIM}{when}, took {took}:{DIM:#} {}", one.outcome);
    }
    (!out.is_empty()).then_some(out)
}

impl Tried {
    pub(crate) fn url(&self) -> &str {
        &self.url
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(answer: &str) -> String {
        let status = serde_json::from_str(answer).unwrap();
        let page = page(&status, Now::at(1000));
        for line in anstream::adapter::strip_str(&page).to_string().lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        anstream::adapter::strip_str(&page).to_string()
    }

    #[test]
    fn people_see_the_queue_the_budgets_and_the_last_tries() {
        let answer = r#"{
            "enabled": true, "queue_length": 3, "running": 1, "attempts_total": 9,
            "requests_total": 12, "oids_fetched_total": 34,
            "throttle": {"backend": "fallback", "percent": 25, "reason": "connection refused"},
            "queue": [
                {"identifier": "tide-table", "next_attempt": 1000000, "attempts": 0, "in_progress": true},
                {"identifier": "a repository with a name that goes on and on, far beyond what fits",
                 "next_attempt": 1075000, "attempts": 2, "in_progress": false}],
            "hosts_total": 2, "hosts": [
                {"domain": "git.example", "in_flight": 2, "in_flight_limit": 5, "started": 12,
                 "window_limit": 30, "breaker": "passing"},
                {"domain": "slow.example", "in_flight": 0, "in_flight_limit": 5, "started": 1,
                 "window_limit": 30, "breaker": "passing", "closed_ms": 250000,
                 "closed_why": "asks us to wait"}],
            "tried": [{"url": "https://git.example/tides.git", "at": 980000, "duration_ms": 1840,
                "outcome": "2 objects"}]
        }"#;
        insta::assert_snapshot!(shown(answer));
    }

    #[test]
    fn a_node_with_nothing_to_do_says_so_in_a_line() {
        assert_eq!(
            shown(r#"{"enabled": true}"#),
            "0 waiting, 0 being fetched; 0 requests brought 0 objects\n"
        );
        assert_eq!(
            shown(r#"{"enabled": false, "queue_length": 2}"#),
            "sync is switched off (sync_enabled), 2 waiting\n"
        );
    }
}
