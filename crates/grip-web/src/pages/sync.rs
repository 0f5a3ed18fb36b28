//! The page of what is fetched from elsewhere.

use askama::Template;
use http::StatusCode;

use super::{CounterView, Frame, Notice, counters, distance};
use crate::{
    Backend, Breaker, HostBudget, UrlAttempt, api,
    api_types::Queued,
    metrics::unix_now_ms,
    request_context::{HttpResult, RequestContext},
};

/// Entries of each list.
const LISTED: usize = 20;

#[derive(Template)]
#[template(path = "sync.html")]
struct SyncPage {
    frame: Frame,
    notice: Option<Notice>,
    counters: Vec<CounterView>,
    hosts: Vec<HostLine>,
    more_hosts: usize,
    queue: Vec<QueueLine>,
    more_queue: usize,
    attempts: Vec<AttemptLine>,
}

/// A host with its budgets.
struct HostLine {
    name: String,
    /// None while nothing keeps us from asking it.
    closed: Option<String>,
    in_flight: Bar,
    window: Bar,
    totals: String,
}

/// A budget as a picture: how much of it is used.
pub(super) struct Bar {
    pub(super) used: u32,
    pub(super) limit: u32,
}

impl Bar {
    /// The width of the filled part, out of 100.
    pub(super) fn percent(&self) -> u64 {
        match self.limit {
            0 => 100,
            limit => (u64::from(self.used) * 100 / u64::from(limit)).min(100),
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.used >= self.limit
    }
}

struct QueueLine {
    identifier: String,
    next: String,
    attempts: u32,
    in_progress: bool,
}

struct AttemptLine {
    identifier: String,
    url: String,
    when: String,
    took: String,
    outcome: String,
    is_success: bool,
}

pub(crate) fn page(cx: &RequestContext<'_>) -> HttpResult {
    let (app, sync, now) = (cx.app, &cx.app.web.sync, unix_now_ms());
    let totals = sync.get().map(|r| r.totals()).unwrap_or_default();
    let waiting = app.web.grasp.sync_queue_len();
    let queue = api::sync::queue(app, LISTED).into_iter();
    let queue: Vec<_> = queue.map(|queued| queue_line(queued, now)).collect();
    let hosts = sync.hosts();
    let attempts = sync.get().map(|r| r.recent(LISTED)).unwrap_or_default();
    let page = SyncPage {
        frame: cx.frame(),
        notice: notice(sync.backend()),
        counters: counters([
            ("repositories waiting", waiting as u64),
            ("being fetched", totals.running as u64),
            ("requests since the start", totals.requests_total),
            ("objects fetched", totals.oids_fetched_total),
        ]),
        more_hosts: hosts.len().saturating_sub(LISTED),
        hosts: hosts.iter().take(LISTED).map(host_line).collect(),
        more_queue: waiting.saturating_sub(queue.len()),
        queue,
        attempts: attempts.into_iter().map(|t| attempt_line(t, now)).collect(),
    };
    super::render(StatusCode::OK, &page)
}

fn notice(backend: Option<Backend>) -> Option<Notice> {
    Some(match backend {
        None => Notice::new(
            "Sync is switched off.",
            "The git data of waiting events must be pushed here.",
        ),
        Some(backend) => Notice::new("Held back.", format!("{}.", backend.warning()?)),
    })
}

fn queue_line(queued: Queued, now: i64) -> QueueLine {
    QueueLine {
        next: if queued.in_progress {
            String::new()
        } else {
            distance(queued.next_attempt, now)
        },
        identifier: queued.identifier.to_string(),
        attempts: queued.attempts,
        in_progress: queued.in_progress,
    }
}

fn host_line(host: &HostBudget) -> HostLine {
    let requests = super::count(host.requests_total, "request", "requests");
    HostLine {
        name: host.domain.to_string(),
        closed: closed(host),
        in_flight: Bar {
            used: host.in_flight,
            limit: host.in_flight_limit,
        },
        window: Bar {
            used: host.started,
            limit: host.window_limit,
        },
        totals: match host.failures_total {
            0 => requests,
            failures => format!("{requests}, {} failed", super::grouped(failures)),
        },
    }
}

/// Why a host is not asked, if so.
fn closed(host: &HostBudget) -> Option<String> {
    match (&host.closed_why, host.closed_ms, host.breaker) {
        (Some(why), Some(ms), _) => Some(format!("{why}: {}", super::took(ms))),
        (_, _, Breaker::Shut) => Some("failing, not asked".to_owned()),
        (_, _, Breaker::Probing) => Some("was failing, one request at a time".to_owned()),
        _ => None,
    }
}

fn attempt_line(tried: UrlAttempt, now: i64) -> AttemptLine {
    AttemptLine {
        identifier: tried.identifier.to_string(),
        url: tried.url,
        when: distance(tried.at, now),
        took: super::took(tried.duration_ms),
        outcome: tried.outcome,
        is_success: tried.is_success,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_never_longer_than_its_frame() {
        let percent = |used, limit| Bar { used, limit }.percent();
        assert_eq!(percent(2, 5), 40);
        assert_eq!(percent(7, 5), 100);
        assert_eq!(percent(0, 0), 100);
        assert_eq!(percent(u32::MAX, u32::MAX), 100);
    }
}
