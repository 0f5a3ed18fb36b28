//! Everything the node has acknowledged, and whether it is still served.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Node, RelayClient, git};
use nostr::prelude::{Event, EventId};
use serde_json::json;

/// Everything the node has acknowledged, over all its lives.
#[derive(Default)]
pub struct Ledger {
    events: BTreeMap<EventId, Event>,
    /// `(url, ref)` → tip; later pushes of one ref replace earlier.
    pushes: BTreeMap<(String, String), String>,
    checks: u32,
}

impl Ledger {
    pub fn said_ok(&mut self, event: Event) {
        self.events.insert(event.id, event);
    }

    pub fn pushed(&mut self, url: &str, name: &str, tip: &str) {
        let key = (url.to_owned(), name.to_owned());
        self.pushes.insert(key, tip.to_owned());
    }

    pub fn acknowledged(&self) -> usize {
        self.events.len() + self.pushes.len()
    }

    pub fn summary(&self) -> String {
        let (events, pushes) = (self.events.len(), self.pushes.len());
        format!(
            "{events} events and {pushes} refs acknowledged, {} checks",
            self.checks
        )
    }

    /// Compares all that was said with what the node serves and holds now.
    pub async fn check(&mut self, node: &Node) -> Result<()> {
        self.checks += 1;
        let mut relay = node.connect().await?;
        let served = self.served(&mut relay).await?;
        for event in self.events.values() {
            if !served.contains_key(&event.id) && !self.is_overtaken(event, &served) {
                must_be_held(node, event).await?;
            }
        }
        for event in served.values().filter(|event| event.kind.as_u16() == 30618) {
            self.state_is_proven(node, event).await?;
        }
        for ((url, name), tip) in &self.pushes {
            push_stands(url, name, tip).await?;
        }
        Ok(())
    }

    async fn served(&self, relay: &mut RelayClient) -> Result<BTreeMap<EventId, Event>> {
        let ids: Vec<String> = self.events.keys().map(EventId::to_hex).collect();
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
        for event in relay.query(&[json!({"kinds": [30617, 30618]})]).await? {
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
        let checked = git::run(&path, ["fsck", "--full", "--strict"]).await?;
        checked.text().context("fsck")?;
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

/// The ref is where it was pushed, or further on.
async fn push_stands(url: &str, name: &str, tip: &str) -> Result<()> {
    let refs = git::ls_remote(url).await?;
    let now = refs.iter().find(|(ref_name, _)| ref_name == name);
    let (_, now) =
        now.with_context(|| format!("{name} was acknowledged and is gone from {url}"))?;
    if now == tip || name.starts_with("refs/nostr/") {
        ensure!(now == tip, "{name} moved to {now}");
        return Ok(());
    }
    // A later push went through although its answer was lost: history goes on from ours.
    let clone = grip_testkit::WorkTree::clone(url, &["--bare"]).await?;
    let reached = clone.run(["merge-base", "--is-ancestor", tip, now]).await?;
    ensure!(reached.ok, "{name} at {now} lost the acknowledged {tip}");
    Ok(())
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
