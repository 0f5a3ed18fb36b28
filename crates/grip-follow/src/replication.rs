//! Replication: which listed servers have the effective state of each repository, and since when.
//!
//! Relays are judged by what following them tells anyway: a state that one delivers is there, one
//! that a reconciliation or a small request by id does not find is not. Clone URLs are asked for the
//! refs that the state names, seldom and one at a time.

mod git;
mod replica;
mod replicas;
mod rows;

use std::{
    collections::{BTreeMap, BTreeSet, HashSet},
    sync::Arc,
};

use grip_nostr::{EventId, FollowedRepository, RepoAddr};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Mutex as AsyncMutex;
use url::Url;

use self::{
    replica::Place,
    replicas::{Listed, Replicas},
    rows::Rows,
};
use crate::{RelayHealth, RelayStatus, RelayUrl, session::Item};

pub(crate) use self::git::probe_for_ever;
pub use self::git::{RefsError, RefsFuture, RemoteRefs};

/// Clone URLs of one repository that are asked, in the order of its announcements.
const MAX_CLONES: usize = 8;

/// How a listed server stands to the effective state of a repository.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplicaStatus {
    /// It has the effective state.
    Current,
    /// It has an older one, or only a part of the refs.
    Behind,
    /// It has none.
    Absent,
    Unreachable,
    /// Not looked at since the state became effective.
    #[default]
    Unknown,
}

impl ReplicaStatus {
    pub const ALL: [Self; 5] = [
        Self::Current,
        Self::Behind,
        Self::Absent,
        Self::Unreachable,
        Self::Unknown,
    ];

    pub fn label(self) -> &'static str {
        match self {
            Self::Current => "current",
            Self::Behind => "behind",
            Self::Absent => "absent",
            Self::Unreachable => "unreachable",
            Self::Unknown => "unknown",
        }
    }
}

/// What a server is listed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplicaKind {
    Relay,
    Git,
}

/// One listed server of a repository. Times are unix milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
pub struct ReplicaReport {
    /// Its URL, without user name and password.
    pub url: String,
    pub kind: ReplicaKind,
    pub status: ReplicaStatus,
    /// Since when it is so; none while nothing is known.
    pub since: Option<i64>,
    pub checked_at: Option<i64>,
    /// When the newest state that was seen there was signed (unix seconds).
    pub state_at: Option<u64>,
    /// How much older that is than the effective state.
    pub behind_seconds: Option<u64>,
    /// What went wrong, or how much is missing.
    pub note: Option<String>,
}

/// Replicas of all served repositories, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, JsonSchema, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplicationTotals {
    /// By [`ReplicaStatus::label`].
    pub relays: BTreeMap<String, u64>,
    pub git: BTreeMap<String, u64>,
    /// Repositories that list other servers, none of which is known to have the effective state.
    pub repositories_alone: u64,
    /// The longest time that a server that was looked at lacks an effective state, in seconds.
    pub longest_lag_seconds: u64,
}

/// What is known of all replicas, shared by the tasks that learn it.
pub(crate) struct Replication {
    replicas: Mutex<Replicas>,
    /// Locked while rows are written, so that an older one never replaces a newer.
    rows: AsyncMutex<Rows>,
}

impl Replication {
    pub(crate) fn new(db: grip_db::Db) -> Self {
        Self {
            replicas: Mutex::default(),
            rows: AsyncMutex::new(Rows(db)),
        }
    }

    /// Takes what an earlier run knew.
    pub(crate) async fn restore(&self) {
        let saved = self.rows.lock().await.load().await;
        self.replicas.lock().restored = saved;
    }

    /// Notes which servers are listed from now on. `may_ask` says which clone URLs may be asked.
    pub(crate) fn update(
        &self,
        repositories: &[FollowedRepository],
        relays_of: impl Fn(&FollowedRepository) -> BTreeSet<RelayUrl>,
        may_ask: impl Fn(&Url) -> bool,
        now: i64,
    ) {
        let listed = repositories.iter().filter_map(|repository| {
            let relays = relays_of(repository).into_iter().map(Place::Relay);
            let clones = clones(repository, &may_ask).into_iter().map(Place::Git);
            Some(Listed {
                addr: repository.addr.clone(),
                state: repository.state?,
                places: relays.chain(clones).collect(),
            })
        });
        let listed: Vec<Listed> = listed.collect();
        self.replicas.lock().update(listed, now);
    }

    /// Says whether it is worth checking the signature of a state that a relay delivered again.
    pub(crate) fn is_news(&self, relay: &RelayUrl, state: &EventId, now: i64) -> bool {
        self.replicas.lock().is_news(relay, state, now)
    }

    /// Notes states that a relay delivered, whose signatures were checked.
    pub(crate) fn seen(&self, relay: &RelayUrl, states: &[EventId], now: i64) {
        self.replicas.lock().seen(relay, states, now);
    }

    /// The effective states that a relay is listed for.
    pub(crate) fn expected(&self, relay: &RelayUrl) -> Vec<EventId> {
        self.replicas.lock().expected(relay)
    }

    /// Notes that of `judged` a relay has all but `lacking`.
    pub(crate) fn compared(
        &self,
        relay: &RelayUrl,
        judged: &[EventId],
        lacking: &HashSet<[u8; 32]>,
        now: i64,
    ) {
        self.replicas.lock().compared(relay, judged, lacking, now);
    }

    /// The same for the repositories of these identifiers alone.
    pub(crate) fn compared_of(
        &self,
        relay: &RelayUrl,
        judged: &[EventId],
        identifiers: &[Arc<str>],
        lacking: &HashSet<[u8; 32]>,
        now: i64,
    ) {
        let identifiers: HashSet<&str> = identifiers.iter().map(|it| &**it).collect();
        let mut replicas = self.replicas.lock();
        let judged = replicas.of_identifiers(relay, judged, &identifiers);
        replicas.compared(relay, &judged, lacking, now);
    }

    /// States that a relay has to be asked for, with the time of each; these count as asked.
    pub(crate) fn take_due(&self, relay: &RelayUrl, most: usize, now: i64) -> Vec<Item> {
        self.replicas.lock().take_due(relay, most, now)
    }

    /// Forgets what a relay delivered that is followed no more.
    pub(crate) fn forget_relay(&self, relay: &RelayUrl) {
        self.replicas.lock().recent.remove(relay);
    }

    /// Writes what has changed.
    pub(crate) async fn save(&self) {
        let rows = self.rows.lock().await;
        let (changed, gone) = self.replicas.lock().take_changes();
        if let Err((changed, gone)) = rows.save(changed, gone).await {
            self.replicas.lock().put_back(changed, gone);
        }
    }

    pub(crate) fn report(&self, addr: &RepoAddr, relays: &[RelayStatus]) -> Vec<ReplicaReport> {
        self.replicas
            .lock()
            .report(addr, &|relay| down(relays, relay))
    }

    pub(crate) fn totals(&self, relays: &[RelayStatus], now: i64) -> ReplicationTotals {
        self.replicas
            .lock()
            .totals(&|relay| down(relays, relay), now)
    }
}

/// Since when a relay is not connected and why; none of one that is.
fn down(relays: &[RelayStatus], relay: &RelayUrl) -> Option<(Option<i64>, Option<String>)> {
    let found = relays.binary_search_by(|status| status.relay.cmp(relay));
    let status = &relays[found.ok()?];
    let is_down = matches!(status.health, RelayHealth::Disconnected | RelayHealth::Dead);
    is_down.then(|| (status.since, status.last_error.clone()))
}

/// The clone URLs of a repository that may be asked, each in one spelling.
fn clones(repository: &FollowedRepository, may_ask: impl Fn(&Url) -> bool) -> Vec<Arc<str>> {
    let mut found: Vec<Arc<str>> = Vec::new();
    for text in &repository.clones {
        let Ok(mut url) = Url::parse(text) else {
            continue;
        };
        let is_plain = url.username().is_empty() && url.password().is_none();
        url.set_fragment(None);
        let is_new = !found.iter().any(|known| **known == *url.as_str());
        if found.len() < MAX_CLONES && is_plain && is_new && may_ask(&url) {
            found.push(url.as_str().into());
        }
    }
    found
}
