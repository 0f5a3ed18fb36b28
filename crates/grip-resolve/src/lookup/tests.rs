use std::sync::Arc;

use bytes::Bytes;
use grip_dht::{
    RecordKey, RequestError, Response,
    testing::{Fault, Member, Network as Memory},
};
use grip_testkit::Author;

use super::*;
use crate::testing::{Script, manifest_of, ms, peer};

mod liars;
mod retries;
mod routes;

/// A node in a network in memory, and what it looks for.
struct Scene {
    memory: Memory,
    network: Arc<Network>,
    options: Options,
    author: Author,
    manifest: Manifest,
}

impl Scene {
    fn new(members: usize) -> Self {
        let memory = Memory::new(members);
        memory.latency(ms(20));
        let author = Author::new();
        let own: Arc<Member> = memory.member(0);
        Self {
            network: network(own),
            manifest: manifest_of(&author, "x", 9),
            options: Options::default(),
            memory,
            author,
        }
    }

    fn by_id(&self) -> Key {
        Key::Manifest(self.manifest.id())
    }

    fn by_name(&self) -> Key {
        Key::Name(self.manifest.name())
    }

    /// The peers in the order in which they would be asked for `key`.
    async fn peers(&self, key: &Key) -> Vec<PeerName> {
        let nearest = self.network.dht.local_response(&key.record()).await.closer;
        nearest.into_iter().map(|peer| peer.id).collect()
    }

    /// The member of the network that is farthest from `key`, ourselves left out.
    fn farthest(&self, key: &Key) -> PeerName {
        let own = &self.memory.names()[0];
        let mut members = self.memory.by_distance(&key.record());
        members.retain(|member| member != own);
        members.pop().unwrap()
    }

    fn put(&self, peer: &PeerName, key: &Key) {
        self.leave(peer, key, &self.manifest);
    }

    fn leave(&self, peer: &PeerName, key: &Key, manifest: &Manifest) {
        let bytes = manifest.bytes().clone();
        self.memory.put(peer, &key.record(), bytes);
    }

    fn stall(&self, peers: &[PeerName]) {
        for peer in peers {
            self.memory.fault(peer, Fault::Stall);
        }
    }

    async fn lookup(&self, key: &Key) -> Result<Found, ResolveError> {
        let deadline = Instant::now() + self.options.deadline;
        self.network
            .lookup(key, None, &self.options, deadline)
            .await
    }

    /// Looks `key` up, and finds what it is about.
    async fn finds(&self, key: &Key) -> Found {
        let found = self.lookup(key).await.unwrap();
        assert_eq!(found.manifest, self.manifest);
        found
    }

    fn counters(&self) -> crate::Counters {
        self.network.counters.snapshot()
    }
}

fn network(dht: Arc<dyn Dht>) -> Arc<Network> {
    Arc::new(network_with(dht, Options::default().breaker))
}

fn network_with(dht: Arc<dyn Dht>, breaker: BreakerOptions) -> Network {
    let group = TaskGroup::new("test");
    Network::new(dht, breaker, Arc::default(), group.token(), group)
}

#[tokio::test(start_paused = true)]
async fn when_the_first_wave_answers_no_further_peer_is_asked() {
    let scene = Scene::new(40);
    for key in [scene.by_id(), scene.by_name()] {
        let before = scene.memory.asked_total();
        let peers = scene.peers(&key).await;
        peers[..3].iter().for_each(|peer| scene.put(peer, &key));
        let began = Instant::now();
        let found = scene.finds(&key).await;
        assert_eq!((found.hops, found.asked), (1, 3));
        assert_eq!(began.elapsed(), ms(20));
        assert_eq!(scene.memory.asked_total() - before, 3);
    }
    assert_eq!(scene.counters().hedges_total, 0);
}

#[tokio::test(start_paused = true)]
async fn a_stalled_alpha_peer_is_overtaken_by_beta_and_its_request_is_closed() {
    let scene = Scene::new(40);
    let key = scene.by_id();
    let peers = scene.peers(&key).await;
    peers[..5].iter().for_each(|peer| scene.put(peer, &key));
    scene.stall(&peers[..3]);
    let began = Instant::now();
    let found = scene.finds(&key).await;
    let took = began.elapsed();
    assert!((ms(140)..=ms(200)).contains(&took), "{took:?}");
    assert_eq!(found.asked, 5);
    assert_eq!(scene.counters().hedges_total, 2);
    for stalled in &peers[..3] {
        assert_eq!(scene.memory.cancelled(stalled), 1);
    }
    assert_eq!(scene.memory.asked(&peers[5]), 0);
}

#[tokio::test(start_paused = true)]
async fn one_stalled_peer_delays_nothing_while_others_answer() {
    let scene = Scene::new(40);
    let key = scene.by_name();
    let peers = scene.peers(&key).await;
    peers[1..4].iter().for_each(|peer| scene.put(peer, &key));
    scene.memory.fault(&peers[0], Fault::Stall);
    let began = Instant::now();
    scene.finds(&key).await;
    assert_eq!(began.elapsed(), ms(20));
    assert_eq!(scene.memory.cancelled(&peers[0]), 1);
}

#[tokio::test(start_paused = true)]
async fn resolve_ends_at_the_deadline_when_everybody_stalls() {
    let scene = Scene::new(40);
    let key = scene.by_name();
    scene.stall(scene.memory.names());
    let began = Instant::now();
    assert_eq!(scene.lookup(&key).await, Err(ResolveError::Timeout));
    assert_eq!(began.elapsed(), ms(1_200));
    assert_eq!(scene.memory.asked_total(), scene.memory.cancelled_total());
    assert!(scene.memory.asked_total() <= u64::from(scene.options.max_requests));
}

#[tokio::test(start_paused = true)]
async fn what_few_hold_is_found_over_several_hops() {
    let scene = Scene {
        memory: Memory::with_bucket(400, 3),
        ..Scene::new(2)
    };
    let scene = Scene {
        network: network(scene.memory.member(0)),
        ..scene
    };
    scene.memory.latency(ms(20));
    let key = scene.by_name();
    let holders = scene.memory.by_distance(&key.record());
    let known = scene.peers(&key).await;
    let unknown = holders[..20].iter().filter(|peer| !known.contains(peer));
    unknown.for_each(|peer| scene.put(peer, &key));
    let found = scene.finds(&key).await;
    assert!(found.hops >= 2, "{found:?}");
}

#[tokio::test(start_paused = true)]
async fn one_response_is_enough_when_no_other_peer_has_it() {
    let scene = Scene::new(40);
    let key = scene.by_name();
    let peers = scene.peers(&key).await;
    scene.put(&peers[2], &key);
    let began = Instant::now();
    scene.finds(&key).await;
    // When all have answered, and not later.
    assert!(began.elapsed() < ms(20 + 500), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn providers_are_asked_before_nearer_peers() {
    let scene = Scene::new(64);
    let key = scene.by_id();
    let peers = scene.peers(&key).await;
    let all = scene.memory.by_distance(&key.record());
    let far = all.iter().rev().find(|name| !peers.contains(name));
    let far = far.filter(|name| **name != scene.network.own).unwrap();
    scene.put(far, &key);
    scene.memory.provide(&peers[0], &key.record(), far);
    let found = scene.lookup(&key).await.unwrap();
    assert_eq!((found.hops, found.asked), (2, 6));
    assert_eq!(found.providers[0].id, *far);
    assert_eq!(scene.memory.log()[3].0, *far);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_no_peer_has_is_unknown_and_without_peers_too() {
    for members in [40, 1] {
        let scene = Scene::new(members);
        let found = scene.lookup(&scene.by_id()).await;
        assert_eq!(found, Err(ResolveError::Unknown));
    }
}

#[tokio::test(start_paused = true)]
async fn under_overload_hedges_stay_within_their_share() {
    let scene = Scene::new(60);
    for name in scene.memory.names() {
        scene.memory.latency_of(name, ms(400));
    }
    let scene = Arc::new(scene);
    let lookups = (0..400_u32).map(|n| {
        let scene = Arc::clone(&scene);
        async move {
            let key = Key::Manifest(crate::ManifestId::of(&n.to_be_bytes()));
            let _ = scene.lookup(&key).await;
        }
    });
    futures_util::future::join_all(lookups).await;
    let counters = scene.counters();
    let allowed = 10 + counters.questions_total * 5 / 100;
    assert!(counters.hedges_total <= allowed, "{counters:?}");
    assert!(counters.hedges_total > 10 && counters.hedges_denied_total > 400);
}

#[tokio::test(start_paused = true)]
async fn the_stop_of_the_node_ends_a_lookup_at_once() {
    let scene = Scene::new(40);
    scene.stall(scene.memory.names());
    let key = scene.by_name();
    let began = Instant::now();
    let stop = async {
        tokio::time::sleep(ms(300)).await;
        scene.network.group.shutdown(ms(100)).await
    };
    let (found, ended) = tokio::join!(scene.lookup(&key), stop);
    assert_eq!(found, Err(ResolveError::Canceled));
    assert_eq!(began.elapsed(), ms(300));
    assert_eq!(ended, grip_tasks::Ended::Drained);
    assert_eq!(scene.memory.asked_total(), scene.memory.cancelled_total());
}

#[tokio::test(start_paused = true)]
async fn a_stored_record_is_found_without_peers() {
    let scene = Scene::new(3);
    let own = scene.memory.names()[0].clone();
    for peer in &scene.memory.names()[1..] {
        scene
            .memory
            .fault(peer, Fault::Error(RequestError::NoRoute));
    }
    for key in [scene.by_id(), scene.by_name()] {
        assert!(scene.lookup(&key).await.is_err(), "nothing is here yet");
        scene.put(&own, &key);
        let found = scene.lookup(&key).await.unwrap();
        assert_eq!((found.manifest, found.hops), (scene.manifest.clone(), 0));
    }
    // A digest is settled by it, whatever other peers are there.
    let before = scene.memory.asked_total();
    assert_eq!(scene.lookup(&scene.by_id()).await.unwrap().asked, 0);
    assert_eq!(scene.memory.asked_total(), before);
    let (garbage, key) = (Bytes::from_static(b"garbage"), scene.by_name());
    scene.memory.put(&own, &key.record(), garbage);
    assert!(scene.lookup(&key).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_stored_manifest_of_a_name_is_no_second_response() {
    let scene = Scene::new(40);
    let key = scene.by_name();
    let own = scene.memory.names()[0].clone();
    let stale = manifest_of(&scene.author, "x", 1).bytes().clone();
    scene.memory.put(&own, &key.record(), stale.clone());
    let peers = scene.peers(&key).await;
    // Who left the old one here says it again; those after it have the new one, and are slower.
    scene.memory.put(&peers[0], &key.record(), stale);
    for peer in &peers[1..3] {
        scene.put(peer, &key);
        scene.memory.latency_of(peer, ms(100));
    }
    let began = Instant::now();
    scene.finds(&key).await;
    assert_eq!(began.elapsed(), ms(100));
}

#[tokio::test(start_paused = true)]
async fn a_known_provider_is_asked_first() {
    let scene = Scene::new(200);
    let key = scene.by_id();
    let own = scene.memory.names()[0].clone();
    let provider = scene.farthest(&key);
    scene.put(&provider, &key);
    scene.memory.provide(&own, &key.record(), &provider);
    let found = scene.lookup(&key).await.unwrap();
    assert_eq!(scene.memory.log()[0].0, provider);
    assert_eq!((found.hops, found.providers[0].id.clone()), (1, provider));
}

#[tokio::test(start_paused = true)]
async fn a_provider_is_awaited_before_peers_that_hold_an_older_manifest() {
    for (latency, took, is_heard) in [(100, 100, true), (400, 20 + 150, false)] {
        let scene = Scene::new(200);
        let key = scene.by_name();
        let own = scene.memory.names()[0].clone();
        let owner = scene.farthest(&key);
        scene.put(&owner, &key);
        scene.memory.latency_of(&owner, ms(latency));
        scene.memory.provide(&own, &key.record(), &owner);
        let outgrown = manifest_of(&scene.author, "x", 1);
        let peers = scene.peers(&key).await;
        let others = peers.iter().filter(|peer| **peer != owner);
        others.for_each(|peer| scene.leave(peer, &key, &outgrown));
        let began = Instant::now();
        let found = scene.lookup(&key).await.unwrap().manifest;
        assert_eq!(found == scene.manifest, is_heard);
        assert_eq!(began.elapsed(), ms(took));
    }
}
