//! Everything the node has acknowledged, and whether it is still served.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Node, RelayClient, git, until_ok};
use nostr::prelude::{Event, EventId};
use serde_json::json;

/// Everything the node has acknowledged, over all its lives.
#[derive(Default)]
pub struct Ledger {
    events: BTreeMap<EventId, Event>,
    /// Events whose deletion was acknowledged.
    deleted: BTreeSet<EventId>,
    /// By the path of the repository and the name of the ref.
    refs: BTreeMap<(String, String), RefHistory>,
    /// Acknowledged updates of refs.
    updates: usize,
    checks: u32,
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

    pub fn acknowledged(&self) -> usize {
        self.events.len() + self.deleted.len() + self.updates
    }

    pub fn summary(&self) -> String {
        let (events, deleted) = (self.events.len(), self.deleted.len());
        format!(
            "{events} events, {deleted} deletions and {} updates of refs acknowledged, {} checks",
            self.updates, self.checks
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
            if !served.contains_key(&event.id) && !self.is_overtaken(event, &served) {
                must_be_held(node, event).await?;
            }
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
        self.refs_stand(node).await
    }

    /// Every ref is where it was pushed, or further on.
    async fn refs_stand(&self, node: &Node) -> Result<()> {
        let mut listed: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
        for ((path, name), history) in &self.refs {
            if history.acknowledged.is_none() {
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
        // States that were released although their OK never came count as well.
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
        addressable && served.values().any(replaces)
    }

    /// Every object a served state names is here, and the repository is sound.
    async fn state_is_proven(&self, node: &Node, state: &Event) -> Result<()> {
        let identifier = state
            .tags
            .identifier()
            .context("a state has an identifier")?;
        let npub = grip_testkit::events::npub(&state.pubkey);
        let path = node
            .data_dir()
            .join("git")
            .join(npub)
            .join(format!("{identifier}.git"));
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
