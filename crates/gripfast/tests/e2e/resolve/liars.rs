//! Members of the network that lie: about values, providers, addresses, node records and times.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures_util::future::BoxFuture;
use grip_dht::{
    Dht as _, LocalRecords, RecordKey, RecordValidator, Verdict,
    kademlia::{self, Kademlia},
};
use grip_resolve::{Key, NodeKey, node_record_key};
use grip_tasks::TaskGroup;
use grip_testkit::{Node, until_true};

use crate::resolve::net::Repo;

/// A member that provides everything and has none of it.
pub struct Liar {
    _dht: Kademlia,
    _group: TaskGroup,
}

/// The answers of a liar.
struct Lies {
    /// Its own node record, from the future and with somebody else's URL.
    node_record: (RecordKey, Bytes),
    /// Answers every other key.
    value: Option<Bytes>,
}

impl LocalRecords for Lies {
    fn value<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Option<Bytes>> {
        let (own, record) = &self.node_record;
        let value = if key == own {
            Some(record.clone())
        } else {
            self.value.clone()
        };
        Box::pin(async { value })
    }
}

/// Takes what others store, and throws it away.
struct Forgetful;

impl RecordValidator for Forgetful {
    fn validate(&self, _: &RecordKey, _: &[u8], _: Option<&[u8]>) -> Verdict {
        Verdict::Ignore
    }
}

impl Liar {
    /// The nth liar, in the network of `first`, as a provider of all that is served.
    pub async fn start(n: usize, first: &Node, served: &[(Repo, String)]) -> Result<Self> {
        let status = first.json("/api/v1/resolve").await?;
        let network = &status["network"];
        let (at, peer) = (network["listening"][0].as_str(), network["peer"].as_str());
        let (at, peer) = (at.context("no address")?, peer.context("no name")?);
        let seed = [200 + u8::try_from(n)?; 32];
        let foreign = served.first().context("nothing is served")?.0.key();
        let foreign = first.get(&format!("/resolve/{foreign}?raw=true")).await?;
        let lies = Arc::new(Lies {
            node_record: node_record(&seed)?,
            value: match n % 3 {
                0 => Some(Bytes::from_static(b"no manifest at all")),
                1 => Some(foreign.body.into()),
                _ => None,
            },
        });
        let mut options = kademlia::Options::new(seed);
        options.listen = vec!["/ip4/127.0.0.1/tcp/0".to_owned()];
        options.bootstrap = vec![format!("{at}/p2p/{peer}")];
        options.lan_only = true;
        // Where nobody is.
        options.external = vec![format!("/ip4/127.0.0.{}/tcp/9", 100 + n)];
        let group = TaskGroup::new("liar");
        let dht = kademlia::start(options, lies, Arc::new(Forgetful), &group).await?;
        until_true("the liar is known", || dht.status().known_peers > 0).await?;
        for (repo, id) in served {
            for key in [&repo.key(), id] {
                let record = Key::parse(key)?.record();
                dht.publish(record, None).await?;
            }
        }
        Ok(Self {
            _dht: dht,
            _group: group,
        })
    }
}

fn node_record(seed: &[u8; 32]) -> Result<(RecordKey, Bytes)> {
    let key = NodeKey::from_seed(seed);
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let url = "http://127.0.0.99:9/".parse()?;
    let record = key.sign(vec![url], None, now + 24 * 60 * 60)?;
    Ok((node_record_key(key.peer()), record))
}
