//! Fixtures of the unit tests.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use grip_dht::{
    Counters, Dht, Peer, PeerName, PublishFuture, Published, Reachability, RecordKey, RequestError,
    RequestFuture, Response, Status,
};
use grip_nostr::{
    Event, EventsFuture, RepoAddr, RepositoryEvents, ServedEvents, ServedRepositories, Timestamp,
};
use grip_tasks::{CancellationToken, ChangeSet, Live, TaskGroup};
use grip_testkit::Author;
use parking_lot::Mutex;
use tokio::sync::RwLock;

use crate::{
    HostHealth, Identity, Key, LocalManifests, Manifest, Options, Parts, ResolveError,
    ResolveParams, Resolved, Resolver,
};

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

static ANNOUNCEMENTS: Mutex<BTreeMap<(String, String), Event>> = Mutex::new(BTreeMap::new());

/// A manifest of `author`'s repository `name` with a state signed `age` seconds after its first.
pub(crate) fn manifest_of(author: &Author, name: &str, age: u64) -> Manifest {
    let at = |seconds| Timestamp::from_secs(1_700_000_000 + seconds);
    let oid = "1111111111111111111111111111111111111111";
    // Signed once: a second signature of the same announcement is another manifest.
    let mut signed = ANNOUNCEMENTS.lock();
    let announcement = signed
        .entry((author.hex(), name.to_owned()))
        .or_insert_with(|| author.announcement_at("git.example", name, vec![], at(0)))
        .clone();
    drop(signed);
    let state = author.state_at(name, &[("refs/heads/main", oid)], None, at(age));
    Manifest::make(announcement, vec![], Some(state)).unwrap()
}

pub(crate) fn peer(n: u64) -> Peer {
    let digest = blake3::hash(&n.to_be_bytes());
    let bytes = [
        &[0x00, 0x24, 0x08, 0x01, 0x12, 0x20],
        digest.as_bytes().as_slice(),
    ]
    .concat();
    Peer {
        id: PeerName::from_bytes(&bytes).unwrap(),
        addresses: vec![],
    }
}

/// Repositories in memory.
#[derive(Default)]
pub(crate) struct Repos {
    served: Mutex<BTreeMap<RepoAddr, Manifest>>,
    changes: Arc<ChangeSet<RepoAddr>>,
    pub broken: AtomicBool,
    /// While it is held for writing, no manifest is read.
    pub reading: RwLock<()>,
    pub reads: AtomicU64,
}

impl Repos {
    pub fn local_manifests(self: &Arc<Self>) -> Arc<LocalManifests> {
        self.changes.follow();
        let group = TaskGroup::new("test");
        LocalManifests::new(Arc::clone(self) as _, Arc::clone(&self.changes), group)
    }

    pub fn serve(&self, manifest: &Manifest) {
        let name = manifest.name();
        self.served.lock().insert(name.clone(), manifest.clone());
        self.changes.add(&name);
    }

    pub fn remove(&self, name: &RepoAddr) {
        self.remove_silently(name);
        self.changes.add(name);
    }

    pub fn remove_silently(&self, name: &RepoAddr) {
        self.served.lock().remove(name);
    }
}

impl ServedRepositories for Repos {
    fn is_served(&self, repo: &RepoAddr) -> bool {
        self.served.lock().contains_key(repo)
    }

    fn page(&self, after: Option<&RepoAddr>, limit: usize) -> Vec<RepoAddr> {
        let served = self.served.lock();
        let names = served.keys();
        let later = names.filter(|name| after.is_none_or(|after| *name > after));
        later.take(limit).cloned().collect()
    }
}

impl ServedEvents for Repos {
    fn events<'a>(&'a self, repo: &'a RepoAddr) -> EventsFuture<'a> {
        self.reads.fetch_add(1, Relaxed);
        Box::pin(async {
            let _reading = self.reading.read().await;
            if self.broken.load(Relaxed) {
                return Err("the disk is on fire".into());
            }
            let manifest = self.served.lock().get(repo).cloned();
            Ok(manifest.map(|manifest| RepositoryEvents {
                announcement: manifest.announcement().event.clone(),
                others: manifest.via().iter().map(|it| it.event.clone()).collect(),
                state: manifest.state().map(|state| state.event.clone()),
            }))
        })
    }
}

type Answering = dyn Fn(&Peer, &RecordKey) -> Result<Response, RequestError> + Send + Sync;

/// A network whose responses are made by a function, each after a moment, and that notes what is
/// published.
pub(crate) struct Script {
    pub roots: Vec<Peer>,
    pub known_peers: AtomicUsize,
    pub latency: Duration,
    /// Whether the peers are connected while they are silent.
    pub is_connected: AtomicBool,
    pub answer: Box<Answering>,
    pub asked: AtomicU64,
    pub publish_latency: Duration,
    /// The key of every publication.
    pub publications: Mutex<Vec<RecordKey>>,
    /// What is published now.
    pub records: Mutex<BTreeMap<RecordKey, Bytes>>,
}

impl Script {
    pub fn new(
        roots: Vec<Peer>,
        answer: impl Fn(&Peer, &RecordKey) -> Result<Response, RequestError> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            known_peers: AtomicUsize::new(roots.len()),
            roots,
            latency: ms(10),
            is_connected: AtomicBool::new(true),
            answer: Box::new(answer),
            asked: AtomicU64::new(0),
            publish_latency: ms(0),
            publications: Mutex::default(),
            records: Mutex::default(),
        })
    }

    /// A network without peers.
    pub fn empty(publish_latency: Duration) -> Arc<Self> {
        let network = Self::new(vec![], |_, _| Err(RequestError::NoRoute));
        let network = Arc::into_inner(network).expect("because it was just made");
        Arc::new(Self {
            publish_latency,
            ..network
        })
    }
}

impl Dht for Script {
    fn local_response<'a>(&'a self, _: &'a RecordKey) -> BoxFuture<'a, Response> {
        let closer = self.roots.clone();
        Box::pin(async {
            Response {
                closer,
                ..Response::default()
            }
        })
    }

    fn request<'a>(&'a self, peer: &'a Peer, key: &'a RecordKey) -> RequestFuture<'a> {
        self.asked.fetch_add(1, Relaxed);
        Box::pin(async move {
            tokio::time::sleep(self.latency).await;
            (self.answer)(peer, key)
        })
    }

    fn is_connected(&self, _: &PeerName) -> bool {
        self.is_connected.load(Relaxed)
    }

    fn publish(&self, key: RecordKey, value: Option<Bytes>) -> PublishFuture<'_> {
        Box::pin(async move {
            self.publications.lock().push(key.clone());
            if !self.publish_latency.is_zero() {
                tokio::time::sleep(self.publish_latency).await;
            }
            self.records.lock().insert(key, value.unwrap_or_default());
            Ok(Published { stored_at: 0 })
        })
    }

    fn withdraw<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, ()> {
        Box::pin(async {
            self.records.lock().remove(key);
        })
    }

    fn status(&self) -> Status {
        Status {
            peer: peer(0).id,
            listening: vec![],
            external: vec![],
            reachability: Reachability::Unknown,
            connected_peers: 0,
            known_peers: self.known_peers.load(Relaxed),
            records: 0,
            provided_keys: 0,
            published_keys: 0,
            max_published: usize::MAX,
            counters: Counters::default(),
        }
    }
}

/// Not from the cache, and from the network as well.
pub(crate) const FRESH: ResolveParams = ResolveParams {
    fresh: true,
    deadline: None,
};

/// A resolver, and all that it was made of.
pub(crate) struct Node {
    pub resolver: Resolver,
    pub repos: Arc<Repos>,
    pub local_manifests: Arc<LocalManifests>,
    pub options: Arc<Live<Options>>,
    pub draining: CancellationToken,
    pub group: TaskGroup,
}

impl Node {
    pub fn new(dht: Option<Arc<dyn Dht>>, options: Options) -> Self {
        let repos = Arc::new(Repos::default());
        let local_manifests = repos.local_manifests();
        Self::with(dht, options, repos, local_manifests, None)
    }

    pub fn with(
        dht: Option<Arc<dyn Dht>>,
        options: Options,
        repos: Arc<Repos>,
        local_manifests: Arc<LocalManifests>,
        identity: Option<Identity>,
    ) -> Self {
        let options = Arc::new(Live::new(options));
        let draining = CancellationToken::new();
        let group = TaskGroup::new("test");
        let resolver = Resolver::start(Parts {
            dht,
            local_manifests: Arc::clone(&local_manifests),
            health: Arc::new(|_| HostHealth::default()),
            options: Arc::clone(&options),
            identity,
            draining: draining.clone(),
            group: group.clone(),
        });
        Self {
            resolver,
            repos,
            local_manifests,
            options,
            draining,
            group,
        }
    }

    pub async fn resolve(&self, key: &Key) -> Result<Resolved, ResolveError> {
        let params = ResolveParams::default();
        self.resolver.resolve(key, params).await
    }

    pub async fn resolve_fresh(&self, key: &Key) -> Result<Resolved, ResolveError> {
        self.resolver.resolve(key, FRESH).await
    }
}
