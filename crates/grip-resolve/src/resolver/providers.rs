//! Providers of a key: clone URLs, ranked.

use std::time::Duration;

use futures_util::future::join_all;
use grip_dht::{Peer, PeerName};
use grip_limits::Verdict;
use grip_types::Domain;
use moka::future::Cache as Store;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, timeout_at};
use url::Url;

use super::{Core, ResolveParams, Resolver};
use crate::{
    Key, Manifest, ManifestId, NodeRecord, Options, ResolveError, Source,
    cache::Answer,
    counters::count,
    node_record::{age, unix_now},
    node_record_key,
    provider_ranking::{Candidate, NamedBy, Provider, rank},
};

/// Most providers in an answer.
pub const MAX_LIMIT: usize = 100;
/// Most nodes whose records are requested for one answer.
const MAX_NODES: usize = 8;
/// Node records in the cache, and for how long; "has none" is cached as well.
const MAX_NODE_RECORDS: u64 = 4_096;
const NODE_RECORD_TTL: Duration = Duration::from_secs(5 * 60);

pub(super) fn node_records() -> Store<PeerName, Option<NodeRecord>> {
    let store = Store::builder().max_capacity(MAX_NODE_RECORDS);
    store.time_to_live(NODE_RECORD_TTL).build()
}

/// The providers of a manifest, the best first.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct Ranked {
    #[schemars(with = "String")]
    pub id: ManifestId,
    /// `<npub>/<identifier>`
    pub name: String,
    pub source: Source,
    pub providers: Vec<Provider>,
}

impl Resolver {
    /// The best providers of what `key` names, for a caller in `region`.
    ///
    /// Within the same deadline and under the same bounds as [`Resolver::resolve`]. Nodes whose
    /// records do not arrive in time are left out.
    pub async fn providers(
        &self,
        key: &Key,
        limit: usize,
        region: Option<&str>,
        params: ResolveParams,
    ) -> Result<Ranked, ResolveError> {
        let core = self.core();
        let began = Instant::now();
        let options = core.options.get();
        let (answer, source) = core.answer(key, params, &options, began).await?;
        let deadline = began
            + params
                .deadline
                .unwrap_or(options.deadline)
                .min(options.deadline);
        let mut candidates = core.named_by_owner(&answer.manifest);
        candidates.extend(core.named_by_nodes(&answer, &options, deadline).await);
        Ok(Ranked {
            id: answer.manifest.id(),
            name: answer.manifest.name().to_string(),
            source,
            providers: rank(candidates, &options.ranking, region, limit.min(MAX_LIMIT)),
        })
    }
}

impl Core {
    fn named_by_owner(&self, manifest: &Manifest) -> Vec<Candidate> {
        let signed = manifest.announcement().event.created_at.as_secs();
        let age = age(signed, unix_now());
        let urls = manifest.urls().iter().cloned();
        let named = urls.map(|url| self.candidate(url, NamedBy::Owner, age, None));
        named.collect()
    }

    async fn named_by_nodes(
        &self,
        answer: &Answer,
        options: &Options,
        deadline: Instant,
    ) -> Vec<Candidate> {
        let nodes = answer.providers.iter().take(MAX_NODES);
        let records = nodes.map(|peer| self.node_record(peer, options, deadline));
        let path = answer.manifest.name().path();
        let mut named = Vec::new();
        for record in join_all(records).await.into_iter().flatten() {
            let age = age(record.issued, unix_now());
            for url in record.urls.iter().filter_map(|url| below(url, &path)) {
                let by = NamedBy::Node(record.peer.clone());
                named.push(self.candidate(url, by, age, record.region.clone()));
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
        let health = Domain::of(&url).map(|host| (self.health)(&host));
        Candidate {
            health: health.unwrap_or_default(),
            url,
            named_by,
            age,
            region,
        }
    }

    /// The current record of a node, from the cache or from the node itself.
    async fn node_record(
        &self,
        peer: &Peer,
        options: &Options,
        deadline: Instant,
    ) -> Option<NodeRecord> {
        let record = match self.node_records.get(&peer.id).await {
            Some(cached) => cached?,
            None => self.request_node_record(peer, options, deadline).await?,
        };
        Some(record).filter(|record| record.is_current(unix_now()))
    }

    async fn request_node_record(
        &self,
        peer: &Peer,
        options: &Options,
        deadline: Instant,
    ) -> Option<NodeRecord> {
        let network = self.network.as_ref()?;
        let began = Instant::now();
        let permit = network.acquire(peer).ok()?;
        count(&self.counters.questions_total);
        network.budget.count(began);
        let key = node_record_key(&peer.id);
        let full = began + options.request_timeout;
        let value = match timeout_at(deadline.min(full), network.dht.request(peer, &key)).await {
            Ok(Ok(response)) => response.value,
            Ok(Err(error)) => {
                permit.failed(error);
                return None;
            }
            // Our own deadline was shorter, which says nothing about the peer.
            Err(_) if deadline < full => return None,
            Err(_) => {
                permit.failed(network.silence(peer));
                return None;
            }
        };
        let record = value.map(|value| NodeRecord::decode(&value)).transpose();
        match record {
            Ok(record) if record.iter().all(|record| record.peer == peer.id) => {
                permit.answered(Verdict::Success);
                let cached = record.clone();
                self.node_records.insert(peer.id.clone(), cached).await;
                record
            }
            _ => {
                count(&self.counters.lies_total);
                permit.answered(Verdict::Failure);
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
