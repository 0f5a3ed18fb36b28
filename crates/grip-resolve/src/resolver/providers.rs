//! Where something can be had.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use grip_dht::{Peer, PeerName};
use grip_types::Domain;
use moka::future::Cache as Store;
use serde::Serialize;
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::{Ask, Core, Resolver};
use crate::{
    Card, Key, Manifest, ManifestId, ResolveError, Source,
    breaker::Outcome,
    cache::Answer,
    counters::count,
    node_record,
    rank::{Candidate, NamedBy, Provider, rank},
    shelf::now,
};

/// Most providers in an answer.
pub const MAX_LIMIT: usize = 100;
/// Nodes whose cards are asked for, for one answer.
const MAX_NODES: usize = 8;
/// Cards remembered, and for how long; "has none" counts as a card.
const CARDS: u64 = 4_096;
const CARD_TTL: Duration = Duration::from_secs(5 * 60);

pub(super) fn cards() -> Store<PeerName, Option<Card>> {
    let cards = Store::builder().max_capacity(CARDS);
    cards.time_to_live(CARD_TTL).build()
}

/// Who has something, the best first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ranked {
    pub id: ManifestId,
    /// `<npub>/<identifier>`
    pub name: String,
    pub source: Source,
    pub providers: Vec<Provider>,
}

impl Resolver {
    /// The best places to have what `key` names, for somebody in `region`.
    ///
    /// Within the same deadline and under the same bounds as [`Resolver::resolve`]. Nodes whose
    /// cards do not come in time are left out.
    pub async fn providers(
        &self,
        key: &Key,
        limit: usize,
        region: Option<&str>,
        ask: Ask,
    ) -> Result<Ranked, ResolveError> {
        let core = self.core();
        let began = Instant::now();
        let (answer, source) = core.answer(key, ask, began).await?;
        let options = core.options.load_full();
        let deadline = began
            + ask
                .deadline
                .unwrap_or(options.deadline)
                .min(options.deadline);
        let mut candidates = core.named_by_owner(&answer.manifest);
        candidates.extend(core.named_by_nodes(&answer, deadline).await);
        Ok(Ranked {
            id: answer.manifest.id(),
            name: answer.manifest.name().to_string(),
            source,
            providers: rank(candidates, &options.rank, region, limit.min(MAX_LIMIT)),
        })
    }
}

impl Core {
    fn named_by_owner(&self, manifest: &Manifest) -> Vec<Candidate> {
        let signed = manifest.announcement().event.created_at.as_secs();
        let age = Duration::from_secs(now().saturating_sub(signed));
        let urls = manifest.urls().iter().cloned();
        let named = urls.map(|url| self.candidate(url, NamedBy::Owner, age, None));
        named.collect()
    }

    async fn named_by_nodes(&self, answer: &Answer, deadline: Instant) -> Vec<Candidate> {
        let nodes = answer.providers.iter().take(MAX_NODES);
        let cards: Vec<_> = nodes.map(|peer| self.card(peer, deadline)).collect();
        let cards = stream::iter(cards).buffer_unordered(MAX_NODES);
        let cards: Vec<Option<Card>> = cards.collect().await;
        let path = answer.manifest.name().path();
        let mut named = Vec::new();
        for card in cards.into_iter().flatten() {
            let age = Duration::from_secs(now().saturating_sub(card.issued));
            for url in &card.urls {
                let by = NamedBy::Node(card.peer.clone());
                let url = below(url, &path);
                named.extend(url.map(|url| self.candidate(url, by, age, card.region.clone())));
            }
        }
        named
    }

    fn candidate(
        &self,
        url: Url,
        named_by: NamedBy,
        age: Duration,
        region: Option<String>,
    ) -> Candidate {
        let health = Domain::of(&url).map(|host| self.health.of(&host));
        Candidate {
            health: health.unwrap_or_default(),
            url,
            named_by,
            age,
            region,
        }
    }

    /// The card of a node, from itself.
    async fn card(&self, peer: &Peer, deadline: Instant) -> Option<Card> {
        if let Some(card) = self.cards.get(&peer.id).await {
            return card.filter(|card| card.is_current(now()));
        }
        let network = self.network.as_ref()?;
        let options = self.options.load_full();
        let began = Instant::now();
        let pass = network.breakers.admit(&peer.id, options.hedge, began);
        let pass = pass.ok()?;
        count(&self.counters.questions_total);
        network.budget.count(began);
        let record = node_record(&peer.id);
        let full = began + options.question;
        let reply = timeout_at(deadline.min(full), network.dht.ask(peer, &record)).await;
        let value = match reply {
            Ok(Ok(reply)) => reply.value,
            Ok(Err(error)) if !error.is_fault_of_peer() => {
                pass.end(Outcome::Neither);
                return None;
            }
            // It was we who had no time: the pass knows whether that speaks against the peer.
            Err(_) if deadline < full => return None,
            Ok(Err(_)) | Err(_) => {
                pass.end(Outcome::Bad);
                return None;
            }
        };
        let card = value.map(|value| Card::decode(&value));
        let is_true = |card: &Card| card.peer == peer.id;
        match card {
            Some(Ok(card)) if is_true(&card) => {
                pass.end(Outcome::Good);
                self.cards.insert(peer.id.clone(), Some(card.clone())).await;
                Some(card).filter(|card| card.is_current(now()))
            }
            None => {
                pass.end(Outcome::Good);
                self.cards.insert(peer.id.clone(), None).await;
                None
            }
            Some(_) => {
                count(&self.counters.lies_total);
                pass.end(Outcome::Bad);
                None
            }
        }
    }
}

/// `path` below a base URL, whether or not that ends in a slash.
fn below(base: &Url, path: &str) -> Option<Url> {
    let mut base = base.clone();
    base.set_query(None);
    if !base.path().ends_with('/') {
        base.set_path(&format!("{}/", base.path()));
    }
    base.join(path).ok()
}
