//! The state of sync as a page for people.

use std::{fmt::Write as _, time::Duration};

use grip_limits::BreakerState;
use grip_web::{Backend, HostBudget, RelayHealth, RelayStatus, UrlAttempt, api_types::SyncStatus};

use crate::commands::{
    table::{BOLD, DIM, Table, YELLOW, counted, gauge, more, section},
    when::{self, Now},
};

pub(super) fn page(status: &SyncStatus, now: Now) -> String {
    let mut out = head(status);
    section(&mut out, "next attempts", queue(status, now));
    more(&mut out, status.queue_length, status.queue.len());
    section(&mut out, "relays", relays(status, now));
    more(&mut out, status.relays_total, status.relays.len());
    section(&mut out, "hosts", hosts(status));
    more(&mut out, status.hosts_total, status.hosts.len());
    section(&mut out, "recent attempts", attempts(&status.tried, now));
    out
}

fn head(status: &SyncStatus) -> String {
    let (waiting, totals) = (status.queue_length, status.totals);
    if !status.enabled {
        return format!(
            "{YELLOW}sync is switched off{YELLOW:#} (sync_enabled), {waiting} waiting\n"
        );
    }
    let mut out = format!(
        "{BOLD}{waiting}{BOLD:#} waiting, {} being fetched; {} fetched {}\n",
        totals.running,
        counted(totals.requests_total, "request"),
        counted(totals.oids_fetched_total, "object"),
    );
    let _ = match &status.throttle {
        Some(Backend::Fallback {
            reason, percent, ..
        }) => writeln!(
            out,
            "{YELLOW}Redis cannot be reached{YELLOW:#} ({reason}): using {percent} % of each host's limits"
        ),
        Some(Backend::Redis) => writeln!(out, "{DIM}limits are shared by Redis{DIM:#}"),
        Some(Backend::Memory) | None => Ok(()),
    };
    out
}

fn queue(status: &SyncStatus, now: Now) -> Option<String> {
    let mut table = Table::new(["repository", "next", "failed"], 0);
    for queued in &status.queue {
        let next = if queued.in_progress {
            "fetching".to_owned()
        } else {
            now.millis(queued.next_attempt)
        };
        table.row([&queued.identifier, &next, &queued.attempts]);
    }
    (!status.queue.is_empty()).then(|| table.render())
}

fn relays(status: &SyncStatus, now: Now) -> Option<String> {
    let titles = [
        "relay",
        "state",
        "repositories",
        "new events",
        "subscriptions",
        "note",
    ];
    let mut table = Table::new(titles, 0);
    for relay in &status.relays {
        table.row([
            &relay.relay,
            &relay_state(relay),
            &relay.repositories,
            &relay.events_taken,
            &gauge(
                relay.subscriptions as u32,
                relay.subscription_limit as u32,
                5,
            ),
            &note(relay, now),
        ]);
    }
    (!status.relays.is_empty()).then(|| table.render())
}

fn relay_state(relay: &RelayStatus) -> &'static str {
    match relay.health {
        RelayHealth::Healthy if relay.is_reading_history => "reading history",
        RelayHealth::Healthy => "ok",
        RelayHealth::Disconnected => "not connected",
        RelayHealth::Degraded => "history incomplete",
        RelayHealth::Dead => "dead",
        RelayHealth::RateLimited => "rate limited",
        RelayHealth::PolicyLimited => "refuses requests",
    }
}

fn note(relay: &RelayStatus, now: Now) -> String {
    let Some(error) = &relay.last_error else {
        return String::new();
    };
    let mut note = error.clone();
    if let Some(at) = relay.next_attempt {
        let _ = write!(note, "; next attempt {}", now.millis(at));
    }
    if !relay.next_step.is_empty() {
        let _ = write!(note, "; next step: {}", relay.next_step);
    }
    note
}

fn hosts(status: &SyncStatus) -> Option<String> {
    let mut table = Table::new(["host", "at once", "in a minute", "state"], 0);
    for host in &status.hosts {
        table.row([
            &host.domain,
            &gauge(host.in_flight, host.in_flight_limit, 5),
            &gauge(host.started, host.window_limit, 6),
            &state(host),
        ]);
    }
    (!status.hosts.is_empty()).then(|| table.render())
}

fn state(host: &HostBudget) -> String {
    match (&host.closed_why, host.closed_ms, host.breaker) {
        (Some(why), Some(ms), _) => format!("{why}, {}", when::span(Duration::from_millis(ms))),
        (_, _, BreakerState::Closed) => "ok".to_owned(),
        (_, _, BreakerState::Open) => "failing, not asked".to_owned(),
        (_, _, BreakerState::HalfOpen) => "was failing".to_owned(),
    }
}

/// Recent attempts; none if there were none. URLs are shown whole, so that they can be copied.
pub(crate) fn attempts(attempts: &[UrlAttempt], now: Now) -> Option<String> {
    let mut out = String::new();
    for one in attempts {
        let (when, took) = (now.millis(one.at), when::took(one.duration_ms));
        let _ = writeln!(out, "  {}", one.url);
        let _ = writeln!(out, "    {DIM}{when}, took {took}:{DIM:#} {}", one.outcome);
        if !one.next_step.is_empty() {
            let _ = writeln!(out, "    {DIM}next step:{DIM:#} {}", one.next_step);
        }
    }
    (!out.is_empty()).then_some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::table::unstyled;

    fn shown(answer: &str) -> String {
        let status = serde_json::from_str(answer).unwrap();
        let page = unstyled(&page(&status, Now::at(1000)));
        for line in page.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        page
    }

    #[test]
    fn one_is_not_several() {
        let page = shown(r#"{"enabled": true, "requests_total": 1, "oids_fetched_total": 1}"#);
        assert!(page.contains("1 request fetched 1 object\n"), "{page}");
    }

    #[test]
    fn people_see_the_queue_the_budgets_and_the_last_tries() {
        let answer = r#"{
            "enabled": true, "queue_length": 3, "running": 1, "attempts_total": 9,
            "requests_total": 12, "oids_fetched_total": 34,
            "throttle": {"backend": "fallback", "since": 1, "percent": 25, "reason": "connection refused"},
            "queue": [
                {"identifier": "tide-table", "next_attempt": 1000000, "attempts": 0, "in_progress": true},
                {"identifier": "a repository with a name that goes on and on, far beyond what fits",
                 "next_attempt": 1075000, "attempts": 2, "in_progress": false}],
            "hosts_total": 2, "hosts": [
                {"domain": "git.example", "in_flight": 2, "in_flight_limit": 5, "started": 12,
                 "window_limit": 30, "breaker": "passing", "requests_total": 12, "failures_total": 0},
                {"domain": "slow.example", "in_flight": 0, "in_flight_limit": 5, "started": 1,
                 "window_limit": 30, "breaker": "passing", "requests_total": 1, "failures_total": 1,
                 "closed_ms": 250000,
                 "closed_why": "asks us to wait"}],
            "tried": [{"identifier": "tides", "url": "https://git.example/tides.git", "at": 980000,
                "duration_ms": 1840, "outcome": "2 objects", "oids_fetched": 2, "is_success": true}]
        }"#;
        insta::assert_snapshot!(shown(answer));
    }

    #[test]
    fn a_node_with_nothing_to_do_says_so_in_a_line() {
        assert_eq!(
            shown(r#"{"enabled": true}"#),
            "0 waiting, 0 being fetched; 0 requests fetched 0 objects\n"
        );
        assert_eq!(
            shown(r#"{"enabled": false, "queue_length": 2}"#),
            "sync is switched off (sync_enabled), 2 waiting\n"
        );
    }
}
