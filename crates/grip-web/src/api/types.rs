//! Responses of the JSON API: written by the handlers, read by the command line.
//!
//! Where a feature has a report of its own, that is serialised as it is.

mod orders;

use std::collections::BTreeMap;

use grip_grasp::{Block, Explanation, Removed, RepositoryFacts, WaitingFacts};
use grip_index::{MovedVersion, RepoFacts, SourceStatus, Status, SumDbStatus, TagFacts};
use grip_ingest::{Gap, Retained};
use grip_queue::{Cause, JobFacts, KindStats, State};
use grip_resolve::{Pin, Source};
use grip_types::Identifier;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use self::orders::*;
use crate::{
    Backend, FollowTotals, HostBudget, RelayStatus, ReplicaReport, ReplicationTotals, SyncTotals,
    UrlAttempt,
};

/// `GET /api/v1/status`
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct NodeStatus {
    pub version: String,
    pub commit: Option<String>,
    /// Where clients reach it, as announcements list it.
    pub url: String,
    pub uptime_seconds: u64,
    pub ready: bool,
    /// What it cannot work without, part by part; empty if it is ready.
    pub missing: BTreeMap<String, String>,
    /// What works, but not as it was meant to.
    pub degraded: BTreeMap<String, String>,
    /// Those that lists show.
    pub repositories: u64,
    pub events: u64,
    pub relay_clients: u64,
    /// Pushes under way.
    pub pushes: u64,
    /// Events that are held until their git data arrives.
    pub waiting: u64,
    /// Those that expired and whose data is still looked for.
    pub wanted: u64,
    pub oldest_wait_seconds: Option<u64>,
    pub sync: SyncSummary,
    pub jobs: JobTotals,
    /// Events and pushes refused since the start, by cause.
    pub refused: BTreeMap<String, u64>,
    /// Shown to the operator alone, like the next.
    pub disks: Vec<DiskStatus>,
    pub store: Option<StoreStatus>,
}

/// The sync with other servers in a few figures.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct SyncSummary {
    pub enabled: bool,
    /// Identifiers that wait for their next attempt.
    pub queue_length: u64,
    /// Those that are fetched at this moment.
    pub running: u64,
    pub relays: u64,
    pub relays_failing: u64,
    pub hosts: u64,
    pub hosts_failing: u64,
    /// Repositories whose data is waited for and whose newest attempt failed.
    pub fetches_failing: u64,
    /// The first few of what fails, each with its cause; shown to the operator alone.
    pub failing: Vec<Failing>,
}

/// A host or relay that does not give what it is asked for.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Failing {
    pub url: String,
    pub reason: String,
    pub next_step: String,
}

/// Jobs of the work queue, of all kinds.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct JobTotals {
    pub due: u64,
    /// Failed for good, until the operator tries again.
    pub dead: u64,
}

/// A disk that the node writes to.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct DiskStatus {
    /// What lies on it.
    pub holds: String,
    pub free_bytes: u64,
    pub total_bytes: u64,
    /// Below it pushes and events are refused.
    pub floor_bytes: u64,
}

/// How full the event store is.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct StoreStatus {
    pub used_bytes: u64,
    pub limit_bytes: u64,
}

/// `GET /api/v1/sync`
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
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
    pub replication: ReplicationTotals,
}

/// One identifier that waits for its next attempt.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct Queued {
    pub identifier: Identifier,
    /// Unix milliseconds.
    pub next_attempt: i64,
    pub attempts: u32,
    pub in_progress: bool,
}

/// `GET /api/v1/explain/<subject>`
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
pub struct Explained {
    #[serde(flatten)]
    pub explanation: Explanation,
    /// What its author or the operator should do next; none where all is well.
    #[serde(default)]
    pub next_step: Option<String>,
    /// The search for its data, by identifier; empty where nothing is missing.
    pub sync: Vec<Search>,
    /// Of a repository, the other servers that its announcements list.
    #[serde(default)]
    pub replicas: Vec<ReplicaReport>,
}

/// The search for the data of one identifier.
#[derive(Debug, Deserialize, JsonSchema, Serialize)]
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
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct WaitingEvents {
    /// Listed or not.
    pub total: usize,
    pub waiting: Vec<WaitingFacts>,
}

/// `GET /api/v1/repos`, `GET /api/v1/repos/sizes`
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct RepositoryList {
    /// Listed or not.
    pub total: usize,
    pub repositories: Vec<RepositoryFacts>,
}

/// `POST /api/v1/repos/remove`, `POST /api/v1/events/remove`
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct RemovalReport {
    /// Nothing was removed: this is what would be.
    pub dry_run: bool,
    #[serde(flatten)]
    pub removed: Removed,
}

/// `GET /api/v1/blocks`
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct BlockList {
    pub blocks: Vec<Block>,
}

/// `GET /api/v1/queue`
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Jobs {
    pub kinds: Vec<KindStats>,
    pub jobs: Vec<JobFacts>,
    /// The value of `after` for the jobs that follow; none on the last page.
    pub next: Option<i64>,
}

/// `GET /api/v1/queue/causes`
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct FailureCauses {
    pub causes: Vec<Cause>,
}

/// `POST /api/v1/queue/revive`
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Revived {
    /// How many jobs are due now.
    pub revived: usize,
}

/// `GET /api/v1/index`
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct IndexStatus {
    /// Without its sources: those follow.
    #[serde(flatten)]
    pub status: Status,
    pub sources: Vec<IndexSource>,
}

/// `GET /api/v1/index/sumdb`
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct SumDbView {
    #[serde(flatten)]
    pub status: SumDbStatus,
    /// Where it answers.
    pub url: String,
    /// The latest versions whose tags lead to something else than what was logged.
    pub moved_versions: Vec<MovedVersion>,
}

/// A source with the work on it.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct IndexSource {
    #[serde(flatten)]
    pub status: SourceStatus,
    #[serde(flatten)]
    pub work: IndexWork,
}

/// When something is looked at next, and what went wrong the last time.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct IndexWork {
    pub state: Option<State>,
    pub next_due_ms: Option<i64>,
    pub attempts: i64,
    pub last_error: Option<String>,
}

/// `GET /api/v1/index/repos/<name>`
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct IndexedRepo {
    pub name: String,
    pub facts: Option<RepoFacts>,
    pub work: IndexWork,
    pub tags: Vec<IndexedTag>,
    pub next: Option<String>,
}

/// A tag, and whether it is in the feed.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct IndexedTag {
    #[serde(flatten)]
    pub tag: TagFacts,
    pub in_feed: bool,
}

/// `GET /resolve/<key>`, whose manifest is sent as it is behind these.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
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
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ResolvedManifest {
    #[serde(flatten)]
    pub facts: ResolvedFacts,
    /// Format, version, announcement, announcements on the way, state, URLs.
    pub manifest: Vec<Value>,
}

/// `GET /api/v1/resolve`, as far as the pins go.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct PinList {
    pub pins: Vec<Pin>,
}

/// `POST /admin/pin`, `/admin/unpin` and `/admin/reindex`
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ResolverOrder {
    pub action: String,
    /// The key, or "everything".
    pub subject: String,
    /// One word and, where there is one, an id or a number.
    pub outcome: String,
    /// It was carried out before, under the same idempotency key.
    pub repeated: bool,
}

/// `GET /api/v1/github/gaps`
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Gaps {
    pub gaps: Vec<Gap>,
    pub next: Option<i64>,
}

/// `POST /api/v1/github/retention`
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Retention {
    pub dry_run: bool,
    pub gone: Retained,
}

/// `POST /api/v1/backup`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct FrozenState {
    /// False while it is being laid out: ask again.
    pub is_complete: bool,
    /// Directories and files of the machine that the node runs on.
    pub git: String,
    pub events: String,
    /// A file, or a directory of rows where the database is a server.
    pub database: Option<String>,
    /// Files of the repositories, so far.
    pub links: u64,
    /// Repositories and stores of objects of which that are all files, so far.
    pub trees: u64,
    /// How many there are; 0 before the first.
    pub total_trees: u64,
    /// Bytes of events and database that were copied, so far.
    pub copied_bytes: u64,
    /// About how many there are.
    pub total_bytes: u64,
}

/// `POST /api/v1/events/compact`
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct CompactionReport {
    /// False while it goes on: ask again.
    pub compacted: bool,
    /// Bytes of the new file, so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub copied_bytes: Option<u64>,
    /// About how many it will have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_before: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_after: Option<u64>,
}

/// `POST /api/v1/check`
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct CheckPage {
    /// How many identifiers were looked at.
    pub identifiers: usize,
    /// How many there are on all pages.
    pub total: usize,
    /// Where the next page begins; none if this was the last.
    pub next: Option<String>,
    pub disagreements: Vec<DisagreementFacts>,
}

/// What was taken out of service and is kept.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct HeldBackList {
    /// All there are, of which `held` may be a part.
    pub total: usize,
    pub held: Vec<HeldBackFacts>,
}

/// What is kept of one repository.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct HeldBackFacts {
    /// `npub/identifier`; none for events of no repository.
    pub repository: Option<String>,
    /// `nip09`, `blacklist`, `whitelist` or `archive`.
    pub reason: String,
    pub events: u64,
    /// Archived copies of its refs.
    pub archives: u64,
    /// When the first of it is destroyed (unix milliseconds).
    pub until: i64,
}

impl From<Vec<grip_grasp::HeldBack>> for HeldBackList {
    fn from(listed: Vec<grip_grasp::HeldBack>) -> Self {
        let facts = |it: grip_grasp::HeldBack| HeldBackFacts {
            repository: it.repository.map(|addr| addr.to_string()),
            reason: it.reason.to_owned(),
            events: it.events,
            archives: it.archives,
            until: i64::try_from(it.until.as_secs().saturating_mul(1000)).unwrap_or(i64::MAX),
        };
        Self {
            total: listed.len(),
            held: listed.into_iter().map(facts).collect(),
        }
    }
}

/// A point in which relay and git do not agree.
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct DisagreementFacts {
    /// `npub/identifier.git`, or the identifier alone.
    pub repository: String,
    pub identifier: String,
    pub kind: String,
    pub text: String,
    /// Whether a repair has settled it; none where none was asked for.
    pub repaired: Option<bool>,
}

/// `POST /api/v1/check/restore`
#[derive(Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct RestoredRepository {
    /// Bytes of the pack that was put into the store; 0 if nothing of it was missing.
    pub pack_bytes: u64,
    /// Repositories that could not be read, and were set aside and made again.
    pub remade: Vec<String>,
    /// In what relay and git do not agree now.
    pub disagreements: Vec<DisagreementFacts>,
}

impl From<grip_grasp::RestoredObjects> for RestoredRepository {
    fn from(restored: grip_grasp::RestoredObjects) -> Self {
        let left = restored.left.iter();
        Self {
            pack_bytes: restored.pack_bytes,
            remade: restored
                .remade
                .iter()
                .map(grip_types::RepoAddr::path)
                .collect(),
            disagreements: left
                .map(|it| DisagreementFacts::new(it, Some(false)))
                .collect(),
        }
    }
}

impl DisagreementFacts {
    fn new(it: &grip_grasp::Disagreement, repaired: Option<bool>) -> Self {
        let identifier = it.identifier.as_str().to_owned();
        let repository = it.repository.as_ref();
        Self {
            repository: repository.map_or_else(|| identifier.clone(), grip_types::RepoAddr::path),
            identifier,
            kind: it.fault.kind().to_owned(),
            text: it.fault.to_string(),
            repaired,
        }
    }
}

impl CheckPage {
    /// The page for programs; `was_repair` where what was found was to be settled.
    pub(crate) fn new(checked: grip_grasp::Checked, was_repair: bool) -> Self {
        let grip_grasp::Checked {
            identifiers,
            total,
            next,
            found,
            left,
        } = checked;
        // A repair may turn one into another: what is damaged is missing once it was set aside.
        let is_left = |it: &grip_grasp::Disagreement| {
            let mut left = left.iter();
            left.any(|left| left.identifier == it.identifier && left.repository == it.repository)
        };
        let of = |it: grip_grasp::Disagreement| {
            let repaired = was_repair.then(|| !is_left(&it));
            DisagreementFacts::new(&it, repaired)
        };
        Self {
            identifiers,
            total,
            next: next.map(|next| next.as_str().to_owned()),
            disagreements: found.into_iter().map(of).collect(),
        }
    }
}
