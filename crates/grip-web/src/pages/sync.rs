//! The page of what is fetched from elsewhere.

use askama::Template;
use grip_limits::BreakerState;
use http::StatusCode;

use super::{CounterView, Frame, Notice, Now, counters};
use crate::{
    Backend, HostBudget, RelayHealth, RelayStatus, UrlAttempt, api,
    api_types::Queued,
    app::App,
    error::WebError,
    request_context::{HttpResult, RequestContext},
};

/// Entries of each list.
const LISTED: usize = 20;

#[derive(Template)]
#[template(path = "sync.html", blocks = ["live"])]
struct SyncPage {
    frame: Frame,
    now: Now,
    notice: Option<Notice>,
    counters: Vec<CounterView>,
    hosts: Vec<HostBudget>,
    more_hosts: usize,
    queue: Vec<Queued>,
    more_queue: usize,
    attempts: Vec<UrlAttempt>,
    relays: Vec<RelayStatus>,
    more_relays: usize,
}

/// A budget as a picture: how much of it is used.
pub(super) struct Bar {
    pub(super) used: u32,
    pub(super) limit: u32,
}

impl Bar {
    pub(super) fn new(used: &u32, limit: &u32) -> Self {
        let (used, limit) = (*used, *limit);
        Self { used, limit }
    }

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

pub(crate) fn page(cx: &RequestContext<'_>) -> HttpResult {
    let frame = cx.frame().about(
        "Sync",
        "Git data that events wait for, and the hosts it is fetched from",
    );
    let page = SyncPage::read(cx.app, frame, Now::new());
    super::render(StatusCode::OK, &page)
}

/// The part of the page that changes.
pub(crate) fn live(app: &App, frame: Frame) -> Result<String, WebError> {
    let page = SyncPage::read(app, frame, Now::stopped());
    super::html(&page.as_live())
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

impl SyncPage {
    fn read(app: &App, frame: Frame, now: Now) -> Self {
        let sync = &app.web.sync;
        let totals = sync.get().map(|r| r.totals()).unwrap_or_default();
        let waiting = app.web.grasp.sync_queue_len();
        let queue = api::sync::queue(app, LISTED);
        let mut hosts = sync.hosts();
        let more_hosts = hosts.len().saturating_sub(LISTED);
        hosts.truncate(LISTED);
        let mut relays = sync.relays();
        let more_relays = relays.len().saturating_sub(LISTED);
        relays.truncate(LISTED);
        Self {
            frame,
            now,
            notice: notice(sync.backend()),
            counters: counters([
                ("repositories waiting", waiting as u64),
                ("being fetched", totals.running as u64),
                ("requests since the start", totals.requests_total),
                ("objects fetched", totals.oids_fetched_total),
            ]),
            hosts,
            more_hosts,
            more_queue: waiting.saturating_sub(queue.len()),
            queue,
            attempts: sync.get().map(|r| r.recent(LISTED)).unwrap_or_default(),
            relays,
            more_relays,
        }
    }

    fn totals(&self, host: &HostBudget) -> String {
        let requests = super::count(host.requests_total, "request", "requests");
        match host.failures_total {
            0 => requests,
            failures => format!("{requests}, {} failed", super::grouped(failures)),
        }
    }

    fn repositories(&self, relay: &RelayStatus) -> String {
        super::count(relay.repositories as u64, "repository", "repositories")
    }

    fn received(&self, relay: &RelayStatus) -> String {
        let received = super::count(relay.events_received, "event", "events");
        format!(
            "{received} received, {} new",
            super::grouped(relay.events_taken)
        )
    }

    /// What an operator should know of a relay, if anything.
    fn trouble(&self, relay: &RelayStatus) -> Option<String> {
        let words = match relay.health {
            RelayHealth::Healthy if relay.is_reading_history => "reading history",
            RelayHealth::Healthy => return None,
            RelayHealth::Disconnected => "not connected",
            RelayHealth::Degraded => "history incomplete",
            RelayHealth::Dead => "dead for a day",
            RelayHealth::RateLimited => "refuses by rate limit",
            RelayHealth::PolicyLimited => "refuses some requests",
        };
        Some(words.to_owned())
    }

    /// Why a host is not asked, if so.
    fn closed(&self, host: &HostBudget) -> Option<String> {
        match (&host.closed_why, host.closed_ms, host.breaker) {
            (Some(why), Some(ms), _) => Some(format!("{why}: {}", super::took(&ms))),
            (_, _, BreakerState::Open) => Some("failing, not asked".to_owned()),
            (_, _, BreakerState::HalfOpen) => Some("was failing, one request at a time".to_owned()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_never_longer_than_its_frame() {
        let percent = |used: u32, limit: u32| Bar::new(&used, &limit).percent();
        assert_eq!(percent(2, 5), 40);
        assert_eq!(percent(7, 5), 100);
        assert_eq!(percent(0, 0), 100);
        assert_eq!(percent(u32::MAX, u32::MAX), 100);
    }
}
