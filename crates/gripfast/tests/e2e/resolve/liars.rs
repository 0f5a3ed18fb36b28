//! Members of the network that lie: about values, providers, addresses, node records and times.
//!
//! Each is a member like any other, in the routing tables of all, and near to some of the keys. It
//! takes every record that is given to it and keeps none. What it says differs by its number, so that
//! [`LIES`] of them tell every lie.

use std::{
    collections::HashMap,
    future::pending,
    net::TcpListener,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures_util::future::{BoxFuture, try_join_all};
use grip_dht::{
    Dht as _, LocalRecords, Peer, PeerName, RecordKey, RecordValidator, Response, Verdict,
    kademlia::{self, Kademlia},
    limits,
};
use grip_resolve::{Key, NodeKey, node_record_key};
use grip_tasks::TaskGroup;
use grip_testkit::{Node, until_true};
use parking_lot::Mutex;

use crate::resolve::net::Served;

const DAY: u64 = 24 * 60 * 60;

/// A member that provides everything and has none of it.
pub struct Liar {
    dht: Kademlia,
    lies: Arc<Lies>,
    _group: TaskGroup,
    /// Takes connections and says nothing.
    _silent: TcpListener,
}

/// What a liar says under the keys that are looked for.
#[derive(Clone, Copy)]
enum Value {
    Garbage,
    /// The manifest of another repository.
    Foreign,
    /// An older manifest of the same repository, well signed.
    Outdated,
    /// Nothing at all, however long one waits.
    Silence,
    /// That it has none.
    None,
}

/// One for each liar, in turn.
const VALUES: [Value; LIES] = [
    Value::Garbage,
    Value::Outdated,
    Value::Silence,
    Value::Foreign,
    Value::None,
];

/// Liars that tell every lie among them.
pub const LIES: usize = 5;

/// The answers of a liar.
struct Lies {
    value: Value,
    /// Its node record: no value of it may count.
    node_record: (RecordKey, Bytes),
    /// Honest peers at an address that is not theirs, and peers that do not exist.
    misplaced: Vec<Peer>,
    invented: Vec<Peer>,
    /// By the record of a key: an older manifest, if it is a name.
    outdated: Mutex<HashMap<RecordKey, Bytes>>,
    foreign: Mutex<Option<Bytes>>,
}

impl LocalRecords for Lies {
    fn value<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Option<Bytes>> {
        Box::pin(async move {
            let (own, record) = &self.node_record;
            if key == own {
                return Some(record.clone());
            }
            match self.value {
                Value::Garbage => Some(Bytes::from_static(b"no manifest at all")),
                Value::Foreign => self.foreign.lock().clone(),
                Value::Outdated => self.outdated.lock().get(key).cloned(),
                Value::Silence => pending().await,
                Value::None => None,
            }
        })
    }

    /// The true peers are left out, or named where they are not.
    fn alter(&self, key: &RecordKey, response: Response) -> Response {
        if *key == self.node_record.0 {
            return response;
        }
        let half = limits::PEERS / 2;
        let some = |peers: &[Peer]| peers.iter().take(half).cloned().collect::<Vec<_>>();
        Response {
            value: response.value,
            providers: [some(&self.invented), some(&self.misplaced)].concat(),
            closer: [some(&self.misplaced), some(&self.invented)].concat(),
        }
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
    /// The nth liar, in the network of `nodes`.
    pub async fn start(n: usize, nodes: &[Node]) -> Result<Self> {
        let number = u8::try_from(n)?;
        let seed = [200 + number; 32];
        let silent = TcpListener::bind((format!("127.0.0.{}", 100 + number).as_str(), 0))?;
        // Where nobody is, or where somebody takes connections and says nothing.
        let at = silent.local_addr()?;
        let port = if n.is_multiple_of(2) { 9 } else { at.port() };
        let elsewhere = format!("/ip4/{}/tcp/{port}", at.ip());
        let misplaced = |id: PeerName| Peer {
            id,
            addresses: vec![elsewhere.clone()],
        };
        let mut honest = Vec::new();
        for node in nodes {
            honest.push(peer(node).await?);
        }
        let invented = (0..limits::PEERS as u8).map(|i| {
            let key = NodeKey::from_seed(&[seed[0], i].repeat(16).try_into().expect("32 bytes"));
            misplaced(key.peer().clone())
        });
        let lies = Arc::new(Lies {
            value: VALUES[n % LIES],
            node_record: node_record(n, &seed)?,
            misplaced: honest.iter().map(|it| misplaced(it.id.clone())).collect(),
            invented: invented.collect(),
            outdated: Mutex::default(),
            foreign: Mutex::default(),
        });
        let mut options = kademlia::Options::new(seed);
        options.listen = vec!["/ip4/127.0.0.1/tcp/0".to_owned()];
        let first = honest.first().context("nobody is there")?;
        options.bootstrap = vec![format!("{}/p2p/{}", first.addresses[0], first.id)];
        options.lan_only = true;
        options.external = vec![elsewhere];
        let group = TaskGroup::new("liar");
        let dht =
            kademlia::start(options, Arc::clone(&lies) as _, Arc::new(Forgetful), &group).await?;
        until_true("the liar knows somebody", || dht.status().known_peers > 0).await?;
        Ok(Self {
            dht,
            lies,
            _group: group,
            _silent: silent,
        })
    }

    pub fn name(&self) -> String {
        self.dht.status().peer.to_string()
    }

    /// Claims to provide all that is served.
    pub async fn claim(&self, served: &[Served]) -> Result<()> {
        let last = served.last().context("nothing is served")?;
        *self.lies.foreign.lock() = Some(last.outdated.bytes().clone());
        let mut claims = Vec::new();
        for repo in served {
            let name = Key::Name(repo.outdated.name()).record();
            let older = repo.outdated.bytes().clone();
            self.lies.outdated.lock().insert(name.clone(), older);
            claims.extend([name, Key::parse(&repo.id)?.record()]);
        }
        let claims = claims.into_iter().map(|key| self.dht.publish(key, None));
        try_join_all(claims).await?;
        Ok(())
    }

    /// Names peers that do not exist to Kademlia's own searches, too.
    pub async fn mislead(&self) {
        for peer in &self.lies.invented {
            self.dht.learn(peer).await;
        }
    }
}

/// A node as the network knows it.
async fn peer(node: &Node) -> Result<Peer> {
    let status = node.json("/api/v1/resolve").await?;
    let network = &status["network"];
    let (at, name) = (network["listening"][0].as_str(), network["peer"].as_str());
    Ok(Peer {
        id: PeerName::parse(name.context("no name")?)?,
        addresses: vec![at.context("no address")?.to_owned()],
    })
}

/// A node record with somebody else's URL: from the future, of long ago, of another node, or none.
fn node_record(n: usize, seed: &[u8; 32]) -> Result<(RecordKey, Bytes)> {
    let key = NodeKey::from_seed(seed);
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let urls = vec!["http://127.0.0.99:9/".parse()?];
    let record = match n % 4 {
        0 => key.sign(urls, None, now + DAY)?,
        1 => key.sign(urls, None, now - 3 * DAY)?,
        2 => NodeKey::from_seed(&[199; 32]).sign(urls, None, now)?,
        _ => Bytes::from_static(b"[\"gripfast-node\",1]"),
    };
    Ok((node_record_key(key.peer()), record))
}
