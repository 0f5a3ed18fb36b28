//! Members, their faults, and what was asked of them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::Member;
use crate::{
    Counters, Distance, LocalRecords, Peer, PeerName, RecordKey, RecordValidator, RequestError,
    Response, Verdict, limits,
};

/// How a member misbehaves when asked.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Never answers; ends only when the request is dropped.
    Stall,
    /// Answers with this value, whatever the key.
    Lie(Bytes),
    /// Refuses at once, as one that has too much to do.
    Busy,
    /// Fails with this error after the latency.
    Error(RequestError),
    /// Takes the request and breaks the connection in the middle of the answer.
    Close,
}

/// A network of members that know of each other as a real table would.
///
/// Cheap to clone; all clones are the same network.
#[derive(Clone)]
pub struct Network {
    inner: Arc<Inner>,
}

struct Inner {
    names: Vec<PeerName>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    nodes: HashMap<PeerName, Node>,
    latency: Duration,
    /// In the command of asking.
    log: Vec<(PeerName, RecordKey)>,
}

#[derive(Default)]
struct Node {
    known: Vec<PeerName>,
    values: BTreeMap<RecordKey, Bytes>,
    /// Keys of the values that are its own.
    published: BTreeSet<RecordKey>,
    providers: BTreeMap<RecordKey, BTreeSet<PeerName>>,
    local: Option<Arc<dyn LocalRecords>>,
    validator: Option<Arc<dyn RecordValidator>>,
    fault: Option<Fault>,
    latency: Option<Duration>,
    asked: u64,
    cancelled: u64,
    counters: Counters,
}

/// What is to be done with one request.
pub(super) struct Plan {
    pub fault: Option<Fault>,
    pub latency: Duration,
    pub local: Option<Arc<dyn LocalRecords>>,
}

impl Network {
    /// `n` members; each knows up to 20 peers of every distance, as a real table does.
    pub fn new(n: usize) -> Self {
        Self::with_bucket(n, limits::PEERS)
    }

    /// As [`Network::new`] with smaller tables, so that a lookup takes more hops.
    pub fn with_bucket(n: usize, bucket: usize) -> Self {
        let names: Vec<PeerName> = (0..n).map(name).collect();
        let node = |own: &PeerName| Node {
            known: table(own, &names, bucket),
            ..Node::default()
        };
        let nodes = names.iter().map(|own| (own.clone(), node(own))).collect();
        let state = Mutex::new(State {
            nodes,
            ..State::default()
        });
        let inner = Arc::new(Inner { names, state });
        Self { inner }
    }

    /// The names of all members, in the command of their numbers.
    pub fn names(&self) -> &[PeerName] {
        &self.inner.names
    }

    /// The network as member `i` sees it.
    pub fn member(&self, i: usize) -> Arc<Member> {
        Arc::new(Member::new(self.clone(), self.inner.names[i].clone()))
    }

    /// All members, the nearest to `key` first.
    pub fn by_distance(&self, key: &RecordKey) -> Vec<PeerName> {
        sorted(self.inner.names.clone(), key)
    }

    /// Makes `peer` misbehave until that is undone.
    pub fn fault(&self, peer: &PeerName, fault: impl Into<Option<Fault>>) {
        self.with(peer, |node| node.fault = fault.into());
    }

    /// How long every member takes to answer, unless it has a latency of its own.
    pub fn latency(&self, latency: Duration) {
        self.inner.state.lock().latency = latency;
    }

    pub fn latency_of(&self, peer: &PeerName, latency: Duration) {
        self.with(peer, |node| node.latency = Some(latency));
    }

    /// What `peer` itself has.
    pub fn local(&self, peer: &PeerName, local: Arc<dyn LocalRecords>) {
        self.with(peer, |node| node.local = Some(local));
    }

    /// Who decides what `peer` stores; without one it stores everything.
    pub fn validator(&self, peer: &PeerName, validator: Arc<dyn RecordValidator>) {
        self.with(peer, |node| node.validator = Some(validator));
    }

    /// Lays a value at `peer`, unjudged.
    pub fn put(&self, peer: &PeerName, key: &RecordKey, value: impl Into<Bytes>) {
        self.with(peer, |node| node.values.insert(key.clone(), value.into()));
    }

    /// Adds `provider` to the providers of `key` at `peer`.
    pub fn provide(&self, peer: &PeerName, key: &RecordKey, provider: &PeerName) {
        let provider = provider.clone();
        self.with(peer, |node| {
            node.providers
                .entry(key.clone())
                .or_default()
                .insert(provider)
        });
    }

    /// What `peer` says that it has counted.
    pub fn counters(&self, peer: &PeerName, counters: Counters) {
        self.with(peer, |node| node.counters = counters);
    }

    pub(super) fn counters_of(&self, peer: &PeerName) -> Counters {
        self.with(peer, |node| node.counters)
    }

    /// What is stored at `peer`.
    pub fn held(&self, peer: &PeerName, key: &RecordKey) -> Option<Bytes> {
        self.with(peer, |node| node.values.get(key).cloned())
    }

    /// How often `peer` was asked.
    pub fn asked(&self, peer: &PeerName) -> u64 {
        self.with(peer, |node| node.asked)
    }

    /// How many requests to `peer` were dropped before it had answered.
    pub fn cancelled(&self, peer: &PeerName) -> u64 {
        self.with(peer, |node| node.cancelled)
    }

    pub fn asked_total(&self) -> u64 {
        self.inner.state.lock().log.len() as u64
    }

    pub fn cancelled_total(&self) -> u64 {
        let state = self.inner.state.lock();
        state.nodes.values().map(|node| node.cancelled).sum()
    }

    /// Every request so far, in the command of asking.
    pub fn log(&self) -> Vec<(PeerName, RecordKey)> {
        self.inner.state.lock().log.clone()
    }

    /// What `own` sees of `key` without asking anybody.
    pub(super) fn local_response(&self, own: &PeerName, key: &RecordKey) -> Response {
        let is_own = self.with(own, |node| node.published.contains(key));
        let mut here = self.answer(own, key, own);
        here.value = here.value.filter(|_| !is_own);
        here
    }

    pub(super) fn publish(&self, own: &PeerName, key: &RecordKey, value: Bytes) {
        self.put(own, key, value);
        self.with(own, |node| node.published.insert(key.clone()));
    }

    /// Drops the value of our own under `key`, if there is one.
    pub(super) fn unpublish(&self, own: &PeerName, key: &RecordKey) {
        self.with(own, |node| {
            if node.published.remove(key) {
                node.values.remove(key);
            }
        });
    }

    pub(super) fn sizes(&self, own: &PeerName) -> [usize; 3] {
        self.with(own, |node| {
            [node.known.len(), node.values.len(), node.providers.len()]
        })
    }

    /// Counts a request in; nothing if there is no such member.
    pub(super) fn begin(&self, to: &PeerName, key: &RecordKey) -> Option<Plan> {
        let mut state = self.inner.state.lock();
        state.log.push((to.clone(), key.clone()));
        let latency = state.latency;
        let node = state.nodes.get_mut(to)?;
        node.asked += 1;
        Some(Plan {
            fault: node.fault.clone(),
            latency: node.latency.unwrap_or(latency),
            local: node.local.clone(),
        })
    }

    pub(super) fn cancel(&self, to: &PeerName) {
        self.with(to, |node| node.cancelled += 1);
    }

    /// What `to` knows of `key`, for `requester`.
    pub(super) fn answer(&self, to: &PeerName, key: &RecordKey, requester: &PeerName) -> Response {
        let (value, providers) = self.with(to, |node| {
            let providers = node.providers.get(key).cloned().unwrap_or_default();
            (node.values.get(key).cloned(), providers)
        });
        let mut closer = sorted(self.with(to, |node| node.known.clone()), key);
        closer.retain(|peer| peer != requester);
        closer.truncate(limits::PEERS);
        let providers = providers.into_iter().take(limits::PEERS);
        Response {
            value,
            providers: providers.map(peer).collect(),
            closer: closer.into_iter().map(peer).collect(),
        }
    }

    /// Offers a value to `peer`; says whether it is held now.
    pub(super) fn offer(&self, peer: &PeerName, key: &RecordKey, value: &Bytes) -> bool {
        let (validator, held) = self.with(peer, |node| {
            (node.validator.clone(), node.values.get(key).cloned())
        });
        let verdict = validator.map_or_else(
            || Verdict::Keep(value.clone()),
            |validator| validator.validate(key, value, held.as_deref()),
        );
        match verdict {
            Verdict::Keep(value) => {
                self.put(peer, key, value);
                true
            }
            Verdict::Ignore => held.is_some(),
            Verdict::Refuse(_) => false,
        }
    }

    pub(super) fn forget(&self, provider: &PeerName, key: &RecordKey) {
        self.with(provider, |node| {
            node.values.remove(key);
            node.published.remove(key);
        });
        for node in self.inner.state.lock().nodes.values_mut() {
            if let Some(providers) = node.providers.get_mut(key) {
                providers.remove(provider);
            }
        }
    }

    fn with<T>(&self, peer: &PeerName, change: impl FnOnce(&mut Node) -> T) -> T {
        let mut state = self.inner.state.lock();
        let node = state.nodes.get_mut(peer);
        change(node.expect("because tests name members only"))
    }
}

/// The name of member `i`, shaped as names of ed25519 keys are.
fn name(i: usize) -> PeerName {
    let mut bytes = vec![0x00, 0x24, 0x08, 0x01, 0x12, 0x20];
    bytes.extend_from_slice(&Sha256::digest((i as u64).to_be_bytes()));
    PeerName::from_bytes(&bytes).expect("because a name of 38 bytes is a name")
}

pub(super) fn peer(id: PeerName) -> Peer {
    let addresses = vec![format!("/memory/{}", id.as_str())];
    Peer { id, addresses }
}

fn sorted(mut names: Vec<PeerName>, key: &RecordKey) -> Vec<PeerName> {
    names.sort_by_cached_key(|name| key.distance(name));
    names
}

/// Up to `bucket` peers of every distance.
fn table(own: &PeerName, names: &[PeerName], bucket: usize) -> Vec<PeerName> {
    let mut full: HashMap<u32, usize> = HashMap::new();
    let others = names.iter().filter(|name| *name != own);
    let room = |name: &&PeerName| {
        let bits = Distance::between(own.place(), name.place()).shared_bits();
        let count = full.entry(bits).or_default();
        *count += 1;
        *count <= bucket
    };
    others.filter(room).cloned().collect()
}
