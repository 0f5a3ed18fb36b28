//! Everything the node has acknowledged, and whether it is still served.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Node, Project, RelayClient, git, until_ok};
use nostr::prelude::{Event, EventId, PublicKey};
use serde_json::json;

/// Everything the node has acknowledged, over all its lives.
#[derive(Default)]
pub struct Ledger {
    events: BTreeMap<EventId, Event>,
    /// Events whose deletion was acknowledged.
    deleted: BTreeSet<EventId>,
    /// By the path of the repository and the name of the ref.
    refs: BTreeMap<(String, String), RefHistory>,
    /// Repositories that were withdrawn, by the coordinates of their announcements.
    withdrawn: BTreeMap<String, Withdrawn>,
    /// Acknowledged updates of refs.
    updates: usize,
    /// Acknowledged withdrawals and returns of repositories.
    withdrawals: usize,
    checks: u32,
}

/// A repository whose announcement was deleted.
struct Withdrawn {
    path: String,
    /// Neither its end nor its return is under way, so that nothing of it is served.
    is_certain: bool,
}

/// How often a repository that could not be read whole is read again.
const FSCK_RETRIES: usize = 3;

/// Where a ref was to go, one place after the other; none where it was to be removed.
#[derive(Default)]
struct RefHistory {
    attempts: Vec<Option<String>>,
    /// The last of them that was acknowledged.
    acknowledged: Option<usize>,
}

impl RefHistory {
    /// The ref is where it was acknowledged to be, or where a later attempt took it whose answer was
    /// lost.
    fn allows(&self, now: Option<&String>) -> bool {
        let Some(acknowledged) = self.acknowledged else {
            return true;
        };
        let mut since = self.attempts[acknowledged..].iter();
        since.any(|attempt| attempt.as_ref() == now)
    }
}

impl Ledger {
    pub fn said_ok(&mut self, event: Event) {
        self.events.insert(event.id, event);
    }

    /// An event is about to be deleted: until that is acknowledged nobody knows whether it is.
    pub fn deleting(&mut self, id: &EventId) {
        self.events.remove(id);
    }

    pub fn deleted(&mut self, id: EventId) {
        self.deleted.insert(id);
    }

    /// A ref is about to be pushed; none if the state removes it.
    pub fn attempts(&mut self, path: &str, name: &str, tip: Option<&str>) {
        let key = (path.to_owned(), name.to_owned());
        let history = self.refs.entry(key).or_default();
        history.attempts.push(tip.map(str::to_owned));
    }

    /// The last attempt of this ref was acknowledged.
    pub fn pushed(&mut self, path: &str, name: &str) {
        let key = (path.to_owned(), name.to_owned());
        if let Some(history) = self.refs.get_mut(&key) {
            history.acknowledged = history.attempts.len().checked_sub(1);
            self.updates += 1;
        }
    }

    /// A repository is about to be withdrawn: until that is acknowledged nobody knows whether it is.
    pub fn withdrawing(&mut self, project: &Project) {
        let path = project.path();
        let withdrawn = Withdrawn {
            path,
            is_certain: false,
        };
        self.withdrawn.insert(project.coordinate(), withdrawn);
    }

    pub fn withdrawn(&mut self, project: &Project) {
        if let Some(withdrawn) = self.withdrawn.get_mut(&project.coordinate()) {
            withdrawn.is_certain = true;
        }
        self.withdrawals += 1;
    }

    /// A repository is about to be announced, also for the first time.
    pub fn returning(&mut self, project: &Project) {
        if let Some(withdrawn) = self.withdrawn.get_mut(&project.coordinate()) {
            withdrawn.is_certain = false;
        }
    }

    /// All that was acknowledged before is served again.
    pub fn returned(&mut self, project: &Project) {
        if self.withdrawn.remove(&project.coordinate()).is_some() {
            self.withdrawals += 1;
        }
    }

    pub fn acknowledged(&self) -> usize {
        self.events.len() + self.deleted.len() + self.updates + self.withdrawals
    }

    pub fn summary(&self) -> String {
        let (events, deleted) = (self.events.len(), self.deleted.len());
        format!(
            "{events} events, {deleted} deletions, {} updates of refs and {} withdrawals and returns \
             acknowledged, {} checks",
            self.updates, self.withdrawals, self.checks
        )
    }

    /// Compares all that was said with what the node serves and holds now.
    pub async fn check(&mut self, node: &Node) -> Result<()> {
        self.checks += 1;
        // A node of a cluster whose leader is not sure of its lead refuses clients for a moment.
        let connecting = async || Ok(Some(node.connect().await?));
        let mut relay = until_ok("the relay takes connections", connecting).await?;
        let served = self.served(&mut relay).await?;
        for event in self.events.values() {
            let is_expected = !self.withdrawn.contains_key(&coordinate(event));
            let is_missing = !served.contains_key(&event.id) && !self.is_overtaken(event, &served);
            if is_expected && is_missing {
                must_be_held(node, event).await?;
            }
        }
        for event in served.values() {
            let withdrawn = self.withdrawn.get(&coordinate(event));
            ensure!(
                withdrawn.is_none_or(|withdrawn| !withdrawn.is_certain),
                "{} of a repository that was withdrawn is served: kind {}",
                event.id,
                event.kind.as_u16()
            );
        }
        let undone = self.deleted.iter().find(|id| served.contains_key(*id));
        ensure!(undone.is_none(), "{undone:?} was deleted and is served");
        let states = served.values().filter(|event| is_state(event));
        for (at, state) in states.clone().enumerate() {
            let of_same = |other: &&Event| {
                other.pubkey == state.pubkey && other.tags.identifier() == state.tags.identifier()
            };
            let others = states.clone().skip(at + 1).filter(of_same).count();
            ensure!(others == 0, "{} is served beside another one", state.id);
            self.state_is_proven(node, state).await?;
        }
        for request in served.values().filter(|event| is_pull_request(event)) {
            let tip = request.tags.iter().find(|tag| tag.kind() == "c");
            let tip = tip.and_then(|tag| tag.content()).context("no tip")?;
            let path = repository_of(node, &coordinate(request))?;
            let found = git::run(&path, ["cat-file", "-e", tip]).await?;
            ensure!(found.ok, "{} names {tip}, which is not here", request.id);
        }
        self.withdrawn_are_gone(node).await?;
        self.refs_stand(node).await
    }

    async fn withdrawn_are_gone(&self, node: &Node) -> Result<()> {
        for withdrawn in self.withdrawn.values().filter(|it| it.is_certain) {
            let path = &withdrawn.path;
            let refs = git::ls_remote(&format!("{}{path}", node.http_url())).await;
            ensure!(refs.is_err(), "{path} was withdrawn and has {refs:?}");
        }
        Ok(())
    }

    /// Every ref is where it was pushed, or further on.
    async fn refs_stand(&self, node: &Node) -> Result<()> {
        let mut listed: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
        for ((path, name), history) in &self.refs {
            let is_withdrawn = self.withdrawn.values().any(|it| it.path == *path);
            if history.acknowledged.is_none() || is_withdrawn {
                continue;
            }
            if !listed.contains_key(path.as_str()) {
                let refs = git::ls_remote(&format!("{}{path}", node.http_url())).await?;
                listed.insert(path, refs.into_iter().collect());
            }
            let now = listed[path.as_str()].get(name);
            ensure!(
                history.allows(now),
                "{name} of {path} is at {now:?}, and was acknowledged at {:?} of {:?}",
                history.acknowledged,
                history.attempts
            );
        }
        Ok(())
    }

    async fn served(&self, relay: &mut RelayClient) -> Result<BTreeMap<EventId, Event>> {
        let ids = self.events.keys().chain(&self.deleted);
        let ids: Vec<String> = ids.map(EventId::to_hex).collect();
        let mut served = BTreeMap::new();
        for some in ids.chunks(400) {
            for event in relay.query(&[json!({"ids": some, "limit": 500})]).await? {
                ensure!(
                    served.insert(event.id, event).is_none(),
                    "an event was sent twice"
                );
            }
        }
        // What was released although its OK never came counts as well.
        let owners: BTreeSet<String> = self
            .events
            .values()
            .filter(|event| event.kind.is_addressable())
            .map(|event| event.pubkey.to_hex())
            .collect();
        let states = json!({"kinds": [30617, 30618], "authors": owners});
        for event in relay.query(&[states]).await? {
            served.insert(event.id, event);
        }
        let coordinates: BTreeSet<String> = self.events.values().map(coordinate).collect();
        let requests = json!({"kinds": [1618], "#a": coordinates, "limit": 5_000});
        for event in relay.query(&[requests]).await? {
            served.insert(event.id, event);
        }
        Ok(served)
    }

    /// A newer version of the same address is served or was itself acknowledged.
    fn is_overtaken(&self, event: &Event, served: &BTreeMap<EventId, Event>) -> bool {
        let replaces = |other: &Event| {
            other.kind == event.kind
                && other.pubkey == event.pubkey
                && other.tags.identifier() == event.tags.identifier()
                && other.created_at > event.created_at
        };
        let addressable = event.kind.is_addressable();
        // The announcement of a return may be held, and the one that was deleted before it is gone.
        let acknowledged = self.events.values().filter(|other| !is_state(other));
        addressable && served.values().chain(acknowledged).any(replaces)
    }

    /// Every object a served state names is here, and the repository is sound.
    async fn state_is_proven(&self, node: &Node, state: &Event) -> Result<()> {
        let path = repository_of(node, &coordinate(state))?;
        is_sound(&path).await.context("fsck")?;
        for tag in state
            .tags
            .iter()
            .filter(|tag| tag.kind().starts_with("refs/"))
        {
            let oid = tag.content().context("a ref has a value")?;
            let found = git::run(&path, ["cat-file", "-e", oid]).await?;
            ensure!(found.ok, "{} names {oid}, which is not here", tag.kind());
        }
        Ok(())
    }
}

/// Fails if a repository is damaged. Packs that the node replaces meanwhile are gone for a git that began
/// with them, and not for the next one; damage stays.
async fn is_sound(path: &Path) -> Result<()> {
    let mut checked = git::run(path, ["fsck", "--full", "--strict"]).await?;
    for _ in 0..FSCK_RETRIES {
        if checked.ok {
            break;
        }
        checked = git::run(path, ["fsck", "--full", "--strict"]).await?;
    }
    checked.text().map(drop)
}

/// The coordinate of the announcement that an event belongs to; empty if it names none.
fn coordinate(event: &Event) -> String {
    if let (true, Some(identifier)) = (event.kind.is_addressable(), event.tags.identifier()) {
        return format!("30617:{}:{identifier}", event.pubkey);
    }
    let mut tags = event.tags.iter();
    let named = tags.find(|tag| tag.kind() == "a");
    named
        .and_then(|tag| tag.content())
        .unwrap_or_default()
        .to_owned()
}

/// Where a node has the repository of a coordinate.
fn repository_of(node: &Node, coordinate: &str) -> Result<PathBuf> {
    let mut parts = coordinate.splitn(3, ':').skip(1);
    let (owner, identifier) = (parts.next(), parts.next());
    let owner = PublicKey::parse(owner.context("no owner")?)?;
    let identifier = identifier.context("no identifier")?;
    let npub = grip_testkit::events::npub(&owner);
    let root = node.data_dir().join("git");
    Ok(root.join(npub).join(format!("{identifier}.git")))
}

fn is_pull_request(event: &Event) -> bool {
    event.kind.as_u16() == 1618
}

fn is_state(event: &Event) -> bool {
    event.kind.as_u16() == 30618
}

async fn must_be_held(node: &Node, event: &Event) -> Result<()> {
    let explained = node.explain(&event.id.to_hex()).await?;
    let kind = event.kind.as_u16();
    ensure!(
        explained["status"] == "held",
        "kind {kind} was answered OK true and is neither served nor held: {explained}"
    );
    Ok(())
}
