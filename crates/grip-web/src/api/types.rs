//! Responses of the JSON API: written by the handlers, read by the command line.
//!
//! Where a feature has a report of its own, that is serialised as it is.

use grip_grasp::{Explanation, WaitingFacts};
use grip_index::{RepoFacts, SourceStatus, Status, TagFacts};
use grip_ingest::{Gap, Retained};
use grip_queue::{JobFacts, KindStats, State};
use grip_resolve::Source;
use grip_types::Identifier;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{Backend, FollowTotals, HostBudget, RelayStatus, SyncTotals, UrlAttempt};

/// `GET /api/v1/sync`
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct SyncStatus {
    pub enabled: bool,
    pub queue_length: usize,
    pub queue: Vec<Queued>,
    #[serde(flatten)]
    pub totals: SyncTotals,
    pub throttle: Option<Backend>,
    pub hosts_total: usize,
    pub hosts: Vec<HostBudget>,
    pub tried: Vec<UrlAttempt>,
    pub relays_total: usize,
    pub relays: Vec<RelayStatus>,
    pub followed: FollowTotals,
}

/// One identifier that waits for its next attempt.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Queued {
    pub identifier: Identifier,
    /// Unix milliseconds.
    pub next_attempt: i64,
    pub attempts: u32,
    pub in_progress: bool,
}

/// `GET /api/v1/explain/<subject>`
#[derive(Debug, Deserialize, Serialize)]
pub struct Explained {
    #[serde(flatten)]
    pub explanation: Explanation,
    /// The search for its data, by identifier; empty where nothing is missing.
    pub sync: Vec<Search>,
}

/// The search for the data of one identifier.
#[derive(Debug, Deserialize, Serialize)]
pub struct Search {
    pub identifier: Identifier,
    pub attempts: u32,
    /// Unix milliseconds.
    pub next_attempt: Option<i64>,
    pub in_progress: bool,
    /// Newest first.
    pub tried: Vec<UrlAttempt>,
}

/// `GET /api/v1/purgatory`
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct WaitingEvents {
    /// Listed or not.
    pub total: usize,
    pub waiting: Vec<WaitingFacts>,
}

/// `GET /api/v1/queue`
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Jobs {
    pub kinds: Vec<KindStats>,
    pub jobs: Vec<JobFacts>,
    /// The value of `after` for the jobs that follow; none on the last page.
    pub next: Option<i64>,
}

/// `GET /api/v1/index`
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct IndexStatus {
    /// Without its sources: those follow.
    #[serde(flatten)]
    pub status: Status,
    pub sources: Vec<IndexSource>,
}

/// A source with the work on it.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct IndexSource {
    #[serde(flatten)]
    pub status: SourceStatus,
    #[serde(flatten)]
    pub work: IndexWork,
}

/// When something is looked at next, and what went wrong the last time.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct IndexWork {
    pub state: Option<State>,
    pub next_due_ms: Option<i64>,
    pub attempts: i64,
    pub last_error: Option<String>,
}

/// `GET /api/v1/index/repos/<name>`
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct IndexedRepo {
    pub name: String,
    pub facts: Option<RepoFacts>,
    pub work: IndexWork,
    pub tags: Vec<IndexedTag>,
    pub next: Option<String>,
}

/// A tag, and whether it is in the feed.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct IndexedTag {
    #[serde(flatten)]
    pub tag: TagFacts,
    pub in_feed: bool,
}

/// `GET /resolve/<key>`, whose manifest is sent as it is behind these.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct ResolvedFacts {
    pub id: String,
    /// `<npub>/<identifier>`
    pub name: String,
    pub source: Option<Source>,
    pub hops: u32,
    pub asked: u32,
    pub took_ms: f64,
}

/// The same with the manifest.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResolvedManifest {
    #[serde(flatten)]
    pub facts: ResolvedFacts,
    /// Format, version, announcement, announcements on the way, state, URLs.
    pub manifest: Vec<Value>,
}

/// `GET /api/v1/github/gaps`
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Gaps {
    pub gaps: Vec<Gap>,
    pub next: Option<i64>,
}

/// `POST /api/v1/github/retention`
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct Retention {
    pub dry_run: bool,
    pub gone: Retained,
}

/// `POST /api/v1/check`
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct CheckPage {
    /// How many identifiers were looked at.
    pub identifiers: usize,
    /// Where the next page begins; none if this was the last.
    pub next: Option<String>,
    pub disagreements: Vec<DisagreementFacts>,
}

/// What was taken out of service and is kept.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct HeldBackList {
    pub held: Vec<HeldBackFacts>,
}

/// What is kept of one repository.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct HeldBackFacts {
    /// `npub/identifier`; none for events of no repository.
    pub repository: Option<String>,
    /// `nip09`, `blacklist`, `whitelist` or `archive`.
    pub reason: String,
    pub events: u64,
    /// Archived copies of its refs.
    pub archives: u64,
    /// When the first of it is destroyed, in unix seconds.
    pub until: u64,
}

impl From<Vec<grip_grasp::HeldBack>> for HeldBackList {
    fn from(listed: Vec<grip_grasp::HeldBack>) -> Self {
        let facts = |it: grip_grasp::HeldBack| HeldBackFacts {
            repository: it.repository.map(|addr| addr.to_string()),
            reason: it.reason.to_owned(),
            events: it.events,
            archives: it.archives,
            until: it.until.as_secs(),
        };
        Self {
            held: listed.into_iter().map(facts).collect(),
        }
    }
}

/// A point in which relay and git do not agree.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct DisagreementFacts {
    /// `npub/identifier.git`, or the identifier alone.
    pub repository: String,
    pub kind: String,
    pub text: String,
}

impl From<grip_grasp::Checked> for CheckPage {
    fn from(checked: grip_grasp::Checked) -> Self {
        let facts = |it: grip_grasp::Disagreement| DisagreementFacts {
            repository: it.repository.as_ref().map_or_else(
                || it.identifier.as_str().to_owned(),
                grip_types::RepoAddr::path,
            ),
            kind: it.fault.kind().to_owned(),
            text: it.fault.to_string(),
        };
        Self {
            identifiers: checked.identifiers,
            next: checked.next.map(|next| next.as_str().to_owned()),
            disagreements: checked.found.into_iter().map(facts).collect(),
        }
    }
}
