//! Gathers what the page of sync shows.

use std::sync::Arc;

use http::{Response, StatusCode};

use crate::{
    Backend, Breaker, HostBudget, SyncTotals, Tried, api,
    app::{App, Asked},
    body::Body,
    error::WebError,
    metrics::unix_now_ms,
    pages::{
        self, CounterView, Frame, Notice,
        sync::{Bar, HostLine, QueueLine, SyncPage, TriedLine},
    },
};

/// How much of each list is shown.
const HOSTS: usize = 20;
const QUEUE: usize = 20;
const TRIED: usize = 20;

/// The page of what is fetched from elsewhere.
pub(crate) async fn sync(app: &Arc<App>, asked: &Asked) -> Result<Response<Body>, WebError> {
    let now = unix_now_ms();
    let report = app.sync().get();
    let totals = report.map(|r| r.totals()).unwrap_or_default();
    let queue_len = app.grasp().sync_queue_len();
    let queue: Vec<_> = api::sync::queue(app, QUEUE)
        .into_iter()
        .map(|queued| QueueLine {
            next: match queued.in_progress {
                true => String::new(),
                false => pages::distance(queued.next_attempt, now),
            },
            identifier: queued.identifier.to_string(),
            attempts: queued.attempts,
            in_progress: queued.in_progress,
        })
        .collect();
    let hosts = app.sync().hosts();
    let tried = report.map(|r| r.recent(TRIED)).unwrap_or_default();
    let page = SyncPage {
        frame: Frame::new(&asked.settings, app.build()),
        notice: notice(app.sync().backend()),
        counters: counters(queue_len, totals),
        more_hosts: hosts.len().saturating_sub(HOSTS),
        hosts: hosts.iter().take(HOSTS).map(host_line).collect(),
        more_queue: queue_len.saturating_sub(queue.len()),
        queue,
        tried: tried.into_iter().map(|t| tried_line(t, now)).collect(),
    };
    pages::draw(StatusCode::OK, &page)
}

fn notice(backend: Option<Backend>) -> Option<Notice> {
    let (title, why) = match backend {
        None => (
            "Sync is switched off.",
            "What events wait for must be pushed here.".to_owned(),
        ),
        Some(backend) => ("Held back.", format!("{}.", backend.trouble()?)),
    };
    Some(Notice {
        title,
        why,
        missing: Vec::new(),
        until: None,
    })
}

fn counters(queue: usize, totals: SyncTotals) -> Vec<CounterView> {
    let counter = |label, value: u64| CounterView {
        label,
        value: pages::grouped(value),
    };
    vec![
        counter("repositories wait", queue as u64),
        counter("being fetched", totals.running as u64),
        counter("requests since the start", totals.requests_total),
        counter("objects found", totals.oids_fetched_total),
    ]
}

fn host_line(host: &HostBudget) -> HostLine {
    HostLine {
        name: host.domain.to_string(),
        closed: closed(host),
        slots: Bar {
            used: host.in_flight,
            limit: host.in_flight_limit,
        },
        window: Bar {
            used: host.started,
            limit: host.window_limit,
        },
        totals: totals(host),
    }
}

fn totals(host: &HostBudget) -> String {
    let requests = match host.requests_total {
        1 => "1 request".to_owned(),
        many => format!("{} requests", pages::grouped(many)),
    };
    match host.failures_total {
        0 => requests,
        failures => format!("{requests}, {} failed", pages::grouped(failures)),
    }
}

/// Why a host is left alone, if it is.
fn closed(host: &HostBudget) -> Option<String> {
    match (&host.closed_why, host.closed_ms, host.breaker) {
        (Some(why), Some(ms), _) => Some(format!("{why}: {}", pages::took(ms))),
        (_, _, Breaker::Shut) => Some("failing, left alone".to_owned()),
        (_, _, Breaker::Probing) => Some("was failing, tried carefully".to_owned()),
        _ => None,
    }
}

fn tried_line(tried: Tried, now: i64) -> TriedLine {
    TriedLine {
        identifier: tried.identifier.to_string(),
        url: tried.url,
        when: pages::distance(tried.at, now),
        took: pages::took(tried.duration_ms),
        outcome: tried.outcome,
        is_success: tried.is_success,
    }
}
