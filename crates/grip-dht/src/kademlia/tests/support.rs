//! Nodes for tests, and a peer whose streams the test serves.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use grip_tasks::{Ended, TaskGroup};
use grip_testkit::until;
use libp2p::{
    PeerId, Stream, StreamProtocol, Swarm, futures::StreamExt as _, identity::Keypair,
    swarm::SwarmEvent,
};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, oneshot};

use crate::{
    Dht as _, LocalRecords, Peer, PeerName, RecordKey, RecordValidator, Verdict,
    kademlia::{
        self, Kademlia, Options, behaviour,
        request_streams::{REQUEST_PROTOCOL, RequestStreams, Waiting},
        stats::Stats,
        swarm_task::Command,
    },
};

pub(super) fn key(text: &str) -> RecordKey {
    RecordKey::new(text).unwrap()
}

/// Records of a node; can be made to stall.
#[derive(Default)]
pub(super) struct Mine {
    values: Mutex<HashMap<RecordKey, Bytes>>,
    stalls: Mutex<bool>,
    pub asked: Notify,
    pub left: Notify,
}

impl Mine {
    pub(super) fn has(&self, key: &RecordKey, value: impl Into<Bytes>) {
        self.values.lock().insert(key.clone(), value.into());
    }

    pub(super) fn stall(&self) {
        *self.stalls.lock() = true;
    }
}

impl LocalRecords for Mine {
    fn value<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, Option<Bytes>> {
        Box::pin(async move {
            if *self.stalls.lock() {
                let _leaving = Leaving(&self.left);
                self.asked.notify_one();
                std::future::pending::<()>().await;
            }
            self.values.lock().get(key).cloned()
        })
    }
}

struct Leaving<'a>(&'a Notify);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// Refuses what begins with "bad"; of two values the later in the alphabet stays.
pub(super) struct Strict;

impl RecordValidator for Strict {
    fn validate(&self, _: &RecordKey, offered: &[u8], held: Option<&[u8]>) -> Verdict {
        if offered.starts_with(b"bad") {
            Verdict::Refuse("it is bad".to_owned())
        } else if held.is_some_and(|held| held >= offered) {
            Verdict::Ignore
        } else {
            Verdict::Keep(Bytes::copy_from_slice(offered))
        }
    }
}

/// Believes everything.
pub(super) struct Careless;

impl RecordValidator for Careless {
    fn validate(&self, _: &RecordKey, offered: &[u8], _: Option<&[u8]>) -> Verdict {
        Verdict::Keep(Bytes::copy_from_slice(offered))
    }
}

pub(super) struct Node {
    pub dht: Kademlia,
    pub mine: Arc<Mine>,
    pub group: TaskGroup,
}

/// Options of a node on loopback that believes others about loopback addresses.
pub(super) fn options(seed: u8) -> Options {
    let mut options = Options::new([seed; 32]);
    options.listen = vec!["/ip4/127.0.0.1/tcp/0".to_owned()];
    options.allow_non_global = true;
    // Many nodes of unoptimised code share few processors.
    options.connect_timeout = Duration::from_secs(30);
    options
}

impl Node {
    pub(super) async fn start(options: Options) -> Self {
        Self::validated(options, Arc::new(Strict)).await
    }

    pub(super) async fn validated(options: Options, validator: Arc<dyn RecordValidator>) -> Self {
        let group = TaskGroup::new("test");
        let mine = Arc::new(Mine::default());
        let local = Arc::clone(&mine) as Arc<dyn LocalRecords>;
        let dht = kademlia::start(options, local, validator, &group).await;
        let dht = dht.expect("the node starts");
        Self { dht, mine, group }
    }

    /// A node that has joined `first`; both know each other.
    pub(super) async fn joining(seed: u8, first: &Self) -> Self {
        let mut options = options(seed);
        options.bootstrap = vec![first.place()];
        let node = Self::start(options).await;
        node.knows(1).await;
        first.knows(1).await;
        node
    }

    /// `n` nodes that all know each other.
    pub(super) async fn net(n: usize) -> Vec<Self> {
        let mut nodes: Vec<Self> = Vec::new();
        for i in 0..n {
            let mut options = options(i as u8 + 1);
            options.bootstrap = nodes.first().map(Self::place).into_iter().collect();
            nodes.push(Self::start(options).await);
        }
        for node in &nodes {
            node.knows(n - 1).await;
        }
        nodes
    }

    pub(super) async fn knows(&self, n: usize) {
        let known = || async { (self.dht.status().known_peers >= n).then_some(()) };
        let knows = until("the node knows the others", known).await;
        knows.unwrap_or_else(|error| panic!("{error}: {:?}", self.dht.status()));
    }

    pub(super) async fn holds(&self, n: usize) {
        let holds = || async { (self.dht.status().records >= n).then_some(()) };
        until("the node holds the record", holds).await.unwrap();
    }

    /// Until when the record under `key` is held.
    pub(super) async fn expiry(&self, key: &RecordKey) -> Option<std::time::Instant> {
        let (expiry, expires) = oneshot::channel();
        let key = key.clone();
        let asked = self
            .dht
            .commands
            .send(Command::Expiry { key, expiry })
            .await;
        assert!(asked.is_ok(), "the node runs");
        expires.await.unwrap()
    }

    pub(super) fn name(&self) -> PeerName {
        self.dht.status().peer
    }

    pub(super) fn peer(&self) -> Peer {
        let status = self.dht.status();
        Peer {
            id: status.peer,
            addresses: status.listening,
        }
    }

    /// The address with the name, for others to begin with.
    pub(super) fn place(&self) -> String {
        let peer = self.peer();
        format!("{}/p2p/{}", peer.addresses[0], peer.id)
    }

    pub(super) async fn stop(&self) {
        let ended = self.group.shutdown(Duration::from_secs(10)).await;
        assert_eq!(ended, Ended::Drained);
        let running = self.group.status().into_iter().map(|task| task.running);
        assert_eq!(running.sum::<usize>(), 0);
    }
}

/// A peer that speaks the request protocol and hands every stream to the test.
pub(super) struct Raw {
    pub peer: Peer,
    pub streams: mpsc::Receiver<(PeerId, Stream)>,
    opens: mpsc::Sender<(Peer, Waiting)>,
    group: TaskGroup,
}

impl Raw {
    pub(super) async fn start() -> Self {
        Self::speaking(REQUEST_PROTOCOL).await
    }

    /// A peer that speaks `protocol` instead.
    pub(super) async fn speaking(protocol: StreamProtocol) -> Self {
        let keys = Keypair::generate_ed25519();
        let own = keys.public().to_peer_id();
        let name = kademlia::address::name(&own).unwrap();
        let stats = Arc::new(Stats::new(name.clone()));
        let (sender, streams) = mpsc::channel(64);
        let on_stream = Arc::new(move |peer, stream| {
            let _ = sender.try_send((peer, stream));
        });
        let asking = RequestStreams::new(protocol, on_stream);
        let transport = behaviour::transport(&options(0), &keys, HashSet::new(), &stats);
        let config = libp2p::swarm::Config::without_executor()
            .with_idle_connection_timeout(Duration::from_secs(60));
        let mut swarm = Swarm::new(transport.unwrap(), asking, own, config);
        swarm
            .listen_on("/ip4/127.0.0.1/tcp/0".parse().unwrap())
            .unwrap();
        let address = loop {
            if let SwarmEvent::NewListenAddr { address, .. } = swarm.select_next_some().await {
                break address;
            }
        };
        let group = TaskGroup::new("raw");
        let (opens, mut opening) = mpsc::channel::<(Peer, Waiting)>(1);
        group.spawn("raw", async move {
            loop {
                tokio::select! {
                    _ = swarm.select_next_some() => {}
                    Some((peer, waiting)) = opening.recv() => {
                        let id = kademlia::address::id(&peer.id).unwrap();
                        let addresses = peer.addresses.iter().map(|it| it.parse().unwrap());
                        swarm.behaviour_mut().open(id, addresses.collect(), waiting);
                    }
                }
            }
        });
        let peer = Peer {
            id: name,
            addresses: vec![address.to_string()],
        };
        Self {
            peer,
            streams,
            opens,
            group,
        }
    }

    /// Opens a stream to `peer`.
    pub(super) async fn open(&self, peer: Peer) -> Stream {
        let (waiting, opened) = oneshot::channel();
        assert!(self.opens.send((peer, waiting)).await.is_ok());
        opened.await.unwrap().unwrap()
    }

    pub(super) async fn stop(self) {
        let _ = self.group.shutdown(Duration::ZERO).await;
    }
}
