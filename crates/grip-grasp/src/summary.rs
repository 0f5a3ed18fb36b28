//! Facts for pages and metrics.

use std::{collections::BTreeMap, time::Duration};

use grip_git::{CacheUse, MemoryUse, StagedTotals};
use grip_nostr::{Announcement, PublicKey, RepoAddr, values};
use grip_purgatory::Counts;
use grip_types::{Oid, RefName, Service};
use nostr::prelude::ToBech32;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use url::Url;

use crate::{
    CollectionTotals, Grasp, RepositoryStatus,
    admission::{Announcements, View, ViewError, effective_state},
    error::GraspError,
    grasp::{Core, now},
    release::served_states_of,
};

/// How many refs a summary lists; the counts are always whole.
const MAX_LISTED: usize = 200;
/// How many other servers it names.
const MAX_ELSEWHERE: usize = 10;

/// What a page shows of a repository.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct RepositorySummary {
    pub npub: String,
    pub identifier: String,
    pub name: String,
    pub description: String,
    pub status: RepositoryStatus,
    pub clone_url: String,
    /// `nostr://…`, which git-remote-nostr clones.
    pub nostr_url: String,
    /// Web pages the owner names.
    pub web: Vec<String>,
    /// Where else its owner keeps it, without user names and passwords.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elsewhere: Vec<String>,
    /// Who may move its refs, as npubs, its owner first if it is one of them.
    pub maintainers: Vec<String>,
    /// How they came to it, and who is invited, one sentence each.
    #[serde(default)]
    pub roles: Vec<String>,
    /// It is here because the operator archives it (GRASP-05).
    #[serde(default)]
    pub is_archived: bool,
    pub head: Option<RefName>,
    pub branches: usize,
    pub tags: usize,
    /// `refs/nostr/*`.
    pub pull_requests: usize,
    /// The first branches and tags.
    pub refs: Vec<ListedRef>,
    /// The state that speaks for it.
    pub state: Option<StateFacts>,
    /// States that wait for git data.
    pub held_states: usize,
    /// Its owner has left: read-only until this time, then archived (unix milliseconds).
    pub withdrawn_until: Option<i64>,
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct ListedRef {
    pub name: RefName,
    pub oid: Oid,
}

/// A state as its author signed it.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub struct StateFacts {
    pub id: String,
    pub author: String,
    pub created_at: u64,
}

/// Numbers for metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    pub purgatory: Counts,
    /// How long the entry that waits longest has waited.
    pub oldest_wait: Option<Duration>,
    pub repositories: usize,
    /// What is below `/prs/`.
    pub contributed: StagedTotals,
    pub pushes: usize,
    pub git_memory: MemoryUse,
    /// Packs of a cluster on this disk.
    pub pack_cache: CacheUse,
    /// Removal of objects that nothing needs.
    pub collection: CollectionTotals,
    /// Identifiers at work, and those who wait for them.
    pub turns: usize,
    pub waiting: usize,
    /// Events and pushes refused since the start, by cause.
    pub refused: BTreeMap<&'static str, u64>,
}

/// What was asked for could not be read.
#[derive(Debug, thiserror::Error)]
#[error("what is known of it could not be read")]
pub struct LookError(#[source] Box<dyn std::error::Error + Send + Sync>);

impl From<GraspError> for LookError {
    fn from(error: GraspError) -> Self {
        Self(Box::new(error))
    }
}

impl Grasp {
    /// What a page shows of a repository; none if it is not here.
    pub async fn summary(&self, addr: &RepoAddr) -> Result<Option<RepositorySummary>, LookError> {
        let addr = addr.clone();
        let look = move |core: &Core| core.summary(&addr);
        Ok(self.core.blocking("grasp.look", look).await??)
    }

    /// Every hosted repository, by name.
    pub fn repositories(&self) -> Vec<(RepoAddr, RepositoryStatus)> {
        self.core.hosted.all()
    }

    pub fn stats(&self) -> Stats {
        let core = &self.core;
        let (purgatory, oldest_wait) = {
            let purgatory = core.purgatory.lock();
            (purgatory.count(), purgatory.oldest_age(now()))
        };
        Stats {
            purgatory,
            oldest_wait,
            repositories: core.hosted.len(),
            contributed: core.repositories.contributor_totals(),
            pushes: core.pushes.total(),
            git_memory: core.repositories.memory_use(),
            pack_cache: core.repositories.cache_use(),
            collection: core.collecting.totals(),
            turns: core.lanes.in_use(),
            waiting: core.lanes.waiting(),
            refused: core.refusals.counts(),
        }
    }
}

impl Core {
    /// Blocks.
    pub(crate) fn summary(&self, addr: &RepoAddr) -> Result<Option<RepositorySummary>, GraspError> {
        let Some(status) = self.hosted.status(addr) else {
            return Ok(None);
        };
        let snapshot = self.repositories.refs(addr);
        let snapshot = snapshot.map_err(GraspError::repository(addr))?;
        let count = |is: fn(&RefName) -> bool| snapshot.iter().filter(|r| is(&r.name)).count();
        let listed = snapshot
            .iter()
            .filter(|r| r.name.is_state_ref())
            .take(MAX_LISTED);
        let listed = listed.map(|r| ListedRef {
            name: r.name.clone(),
            oid: r.oid,
        });
        let mut summary = RepositorySummary {
            npub: addr.npub(),
            identifier: addr.identifier.as_str().to_owned(),
            name: addr.identifier.as_str().to_owned(),
            description: String::new(),
            status,
            clone_url: format!("{}/{}", self.policy.load().service.http_url(), addr.path()),
            nostr_url: format!("nostr://{}/{}", addr.npub(), addr.identifier.encoded()),
            web: Vec::new(),
            elsewhere: Vec::new(),
            maintainers: Vec::new(),
            roles: Vec::new(),
            is_archived: false,
            head: snapshot.head_ref().map(|head| head.name.clone()),
            branches: count(RefName::is_head),
            tags: count(RefName::is_tag),
            pull_requests: count(RefName::is_under_nostr),
            refs: listed.collect(),
            state: None,
            held_states: self.purgatory.lock().find_state(&addr.identifier).len(),
            withdrawn_until: self.withdrawals.until(addr).map(|until| until.get()),
        };
        self.look(|view| {
            let announcements = Announcements::load_of(addr, view, &self.policy.load())?;
            if let Some((announcement, _)) = announcements.of(&addr.owner) {
                let policy = self.policy.load();
                summary.announce(announcement, &policy.service);
                summary.is_archived = policy.archive.selects(announcement);
            }
            summary.speak_for(addr, &announcements, view)
        })?;
        Ok(Some(summary))
    }
}

impl RepositorySummary {
    fn announce(&mut self, announcement: &Announcement, here: &Service) {
        self.name = announcement.name().to_owned();
        self.description = announcement.description().to_owned();
        let web = values(&announcement.event, "web").map(str::to_owned);
        self.web = web.collect();
        let urls = announcement
            .clone
            .iter()
            .filter_map(|url| Url::parse(url).ok());
        let others = urls.filter(|url| here.segments_of(url, &["http", "https"]).is_none());
        let shown = others.filter_map(|mut url| {
            // Those of a kind that has no user cannot be set either.
            let _ = url.set_username("");
            let _ = url.set_password(None);
            url.has_host().then(|| url.to_string())
        });
        self.elsewhere = shown.take(MAX_ELSEWHERE).collect();
    }

    fn speak_for(
        &mut self,
        addr: &RepoAddr,
        announcements: &Announcements,
        view: &dyn View,
    ) -> Result<(), ViewError> {
        let set = announcements.set_of(&addr.owner);
        let mut keys: Vec<_> = set.iter().collect();
        keys.sort_by_key(|key| **key != addr.owner);
        self.maintainers = keys.into_iter().map(npub).collect();
        self.roles = set.in_words(npub);
        let members = set.iter().copied().collect();
        let states = served_states_of(&addr.identifier, &members, view)?;
        self.state = effective_state(&set, &states).map(|state| StateFacts {
            id: state.event.id.to_hex(),
            author: npub(&state.event.pubkey),
            created_at: state.event.created_at.as_secs(),
        });
        Ok(())
    }
}

pub(crate) fn npub(key: &PublicKey) -> String {
    key.to_bech32().expect("every public key has an npub")
}
