//! The status of each relay, for operators and metrics (G02-45).

use std::{
    collections::{BTreeMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    RelayUrl,
    memory::Memory,
    plan::Values,
    session::{Fate, SessionStatus},
};

/// How a relay stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RelayHealth {
    Healthy,
    Disconnected,
    /// Connected, but its history is not whole.
    Degraded,
    /// Without success for a day.
    Dead,
    RateLimited,
    /// It refuses some requests.
    PolicyLimited,
}

impl RelayHealth {
    pub const ALL: [Self; 6] = [
        Self::Healthy,
        Self::Disconnected,
        Self::Degraded,
        Self::Dead,
        Self::RateLimited,
        Self::PolicyLimited,
    ];

    pub fn label(self) -> &'static str {
        match self {
            Self::Healthy => "healthy",
            Self::Disconnected => "disconnected",
            Self::Degraded => "degraded",
            Self::Dead => "dead",
            Self::RateLimited => "rate_limited",
            Self::PolicyLimited => "policy_limited",
        }
    }
}

/// One followed relay. Times are unix milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RelayStatus {
    #[schemars(with = "String")]
    pub relay: RelayUrl,
    pub health: RelayHealth,
    /// Since when it is connected, or is not.
    pub since: Option<i64>,
    /// When it is dialled next, where it is not connected.
    pub next_attempt: Option<i64>,
    pub last_error: Option<String>,
    /// What to do about it; empty while it is connected.
    #[serde(default)]
    pub next_step: String,
    pub repositories: usize,
    pub subscriptions: usize,
    pub subscription_limit: usize,
    /// Most filters of one request.
    pub filters: usize,
    /// The largest page of history seen.
    pub page: u64,
    pub is_reading_history: bool,
    /// How history is read: `nip77`, `req`, or `everything` where all that the relay has is compared
    /// at once.
    pub history_by: String,
    /// The last full reading of its history began then.
    pub full_at: Option<i64>,
    pub events_received: u64,
    pub events_taken: u64,
    /// Messages and bytes of them since the start, both ways.
    pub messages: u64,
    pub bytes_received: u64,
    pub bytes_sent: u64,
}

/// Why a relay is not reached, and what to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) reason: String,
    pub(crate) next_step: &'static str,
}

/// What a worker knows beside its memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    /// Why it is not reached, if it is not.
    pub(crate) failure: Option<Failure>,
    pub(crate) repositories: usize,
    pub(crate) session: Option<SessionStatus>,
    pub(crate) received: u64,
    pub(crate) taken: u64,
    pub(crate) messages: u64,
    pub(crate) bytes_received: u64,
    pub(crate) bytes_sent: u64,
}

/// The status of all relays, and counts over all of them.
#[derive(Default)]
pub(crate) struct Board {
    relays: Mutex<BTreeMap<RelayUrl, RelayStatus>>,
    counts: [AtomicU64; 6],
    /// Authors whose lists of relays were looked up with success, by relay.
    asked: Mutex<BTreeMap<RelayUrl, Values>>,
    asked_changes: AtomicU64,
    pub(crate) dials: AtomicU64,
    pub(crate) dials_failed: AtomicU64,
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct FollowTotals {
    pub dials_total: u64,
    pub dials_failed_total: u64,
    pub events_taken_total: u64,
    pub events_known_total: u64,
    pub events_refused_total: u64,
    /// Unreadable, forged, or not asked for.
    pub events_worthless_total: u64,
    pub events_failed_total: u64,
    /// Not wanted, of relays that are asked for everything.
    pub events_foreign_total: u64,
}

impl Board {
    pub(crate) fn count(&self, fate: Fate) {
        let at = match fate {
            Fate::Taken => 0,
            Fate::Known => 1,
            Fate::Refused => 2,
            Fate::Worthless => 3,
            Fate::Failed | Fate::OverShare => 4,
            Fate::Foreign(_) => 5,
        };
        self.counts[at].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn totals(&self) -> FollowTotals {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        FollowTotals {
            dials_total: get(&self.dials),
            dials_failed_total: get(&self.dials_failed),
            events_taken_total: get(&self.counts[0]),
            events_known_total: get(&self.counts[1]),
            events_refused_total: get(&self.counts[2]),
            events_worthless_total: get(&self.counts[3]),
            events_failed_total: get(&self.counts[4]),
            events_foreign_total: get(&self.counts[5]),
        }
    }

    pub(crate) fn show(&self, relay: &RelayUrl, memory: &Memory, report: &Report, now: u64) {
        let status = status(relay, memory, report, now);
        self.relays.lock().insert(relay.clone(), status);
    }

    pub(crate) fn remove(&self, relay: &RelayUrl) {
        self.relays.lock().remove(relay);
        self.asked.lock().remove(relay);
    }

    /// Notes whose lists a relay was asked for; says whether that is news.
    pub(crate) fn note_asked(&self, relay: &RelayUrl, authors: Values) -> bool {
        let mut asked = self.asked.lock();
        let is_new = asked.get(relay) != Some(&authors);
        if is_new {
            asked.insert(relay.clone(), authors);
            self.asked_changes.fetch_add(1, Ordering::Relaxed);
        }
        is_new
    }

    /// Another number whenever other lists were looked up.
    pub(crate) fn asked_revision(&self) -> u64 {
        self.asked_changes.load(Ordering::Relaxed)
    }

    /// Authors whose lists were looked up anywhere.
    pub(crate) fn asked(&self) -> HashSet<Arc<str>> {
        let asked = self.asked.lock();
        let authors = asked.values().flat_map(|authors| authors.iter());
        authors.cloned().collect()
    }

    pub(crate) fn relays(&self) -> Vec<RelayStatus> {
        self.relays.lock().values().cloned().collect()
    }
}

fn status(relay: &RelayUrl, memory: &Memory, report: &Report, now: u64) -> RelayStatus {
    let (health, progress) = (&memory.health, &memory.progress);
    let session = report.session.unwrap_or_default();
    let is_connected = health.is_connected();
    let failure = report.failure.as_ref();
    RelayStatus {
        relay: relay.clone(),
        health: if !is_connected && health.is_dead(now) {
            RelayHealth::Dead
        } else if !is_connected {
            RelayHealth::Disconnected
        } else if progress.is_rate_limited(now) {
            RelayHealth::RateLimited
        } else if progress.is_refused(now) {
            RelayHealth::PolicyLimited
        } else if session.has_failed {
            RelayHealth::Degraded
        } else {
            RelayHealth::Healthy
        },
        since: health.since().map(millis),
        next_attempt: (!is_connected).then(|| millis(health.next_dial().max(now))),
        last_error: failure.map(|failure| failure.reason.clone()),
        next_step: failure.map_or("", |failure| failure.next_step).to_owned(),
        repositories: report.repositories,
        subscriptions: session.subscriptions,
        subscription_limit: session.budget,
        filters: session.filters,
        page: session.page,
        is_reading_history: session.is_in_pass,
        history_by: match session {
            SessionStatus {
                by_everything: true,
                ..
            } => "everything",
            SessionStatus { by_nip77: true, .. } => "nip77",
            _ => "req",
        }
        .to_owned(),
        full_at: progress.full_at().map(millis),
        events_received: report.received,
        events_taken: report.taken,
        messages: report.messages,
        bytes_received: report.bytes_received,
        bytes_sent: report.bytes_sent,
    }
}

fn millis(seconds: u64) -> i64 {
    i64::try_from(seconds.saturating_mul(1_000)).unwrap_or(i64::MAX)
}
