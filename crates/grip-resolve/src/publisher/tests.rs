use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use grip_dht::{
    AskError, Dht, DhtError, Peer, Published, RecordKey, Reply, testing::Network as Memory,
};
use grip_nostr::Timestamp;
use grip_testkit::{Author, events::tag};
use parking_lot::Mutex;
use tokio::time::sleep;

use crate::{
    Ask, Key, Manifest, Options, ResolveError, Source,
    testing::{Node, Script, manifest_of, ms},
};

/// Two nodes of a network in memory; the first serves.
fn two() -> (Memory, Node, Node) {
    let memory = Memory::new(24);
    memory.latency(ms(5));
    let [one, two] = [0, 1].map(|i| Node::new(Some(memory.member(i)), Options::default()));
    for (name, node) in memory.names().iter().zip([&one, &two]) {
        memory.judge(name, node.shelf.clone());
        memory.local(name, node.shelf.clone());
    }
    (memory, one, two)
}

fn fresh() -> Ask {
    Ask {
        fresh: true,
        ..Ask::default()
    }
}

async fn found(node: &Node, manifest: &Manifest) -> bool {
    let by_name = node
        .resolver
        .resolve(&Key::Name(manifest.name()), fresh())
        .await;
    let by_id = node
        .resolver
        .resolve(&Key::Manifest(manifest.id()), fresh())
        .await;
    let is_it = |answer: Result<crate::Resolved, ResolveError>| {
        answer.is_ok_and(|found| found.id == manifest.id() && found.source == Source::Dht)
    };
    is_it(by_name) && is_it(by_id)
}

#[tokio::test(start_paused = true)]
async fn what_is_served_here_is_found_from_elsewhere() {
    let (_memory, one, two) = two();
    let author = Author::new();
    let names = (0..40).map(|n| format!("r{n}"));
    let served: Vec<Manifest> = names.map(|name| manifest_of(&author, &name, 1)).collect();
    served.iter().for_each(|manifest| one.repos.serve(manifest));
    sleep(ms(5_000)).await;
    for manifest in &served {
        assert!(found(&two, manifest).await);
    }
    let status = one.resolver.status().publisher;
    assert_eq!((status.told, status.due, status.pass), (40, 0, None));
}

#[tokio::test(start_paused = true)]
async fn a_change_is_told_at_once_and_the_old_id_is_withdrawn() {
    let (memory, one, two) = two();
    let author = Author::new();
    let (old, new) = (manifest_of(&author, "x", 1), manifest_of(&author, "x", 2));
    one.repos.serve(&old);
    sleep(ms(1_000)).await;
    assert!(found(&two, &old).await);
    one.repos.serve(&new);
    sleep(ms(1_000)).await;
    assert!(found(&two, &new).await);
    let own = &memory.names()[0];
    assert_eq!(memory.held(own, &Key::Manifest(old.id()).record()), None);
    assert!(
        memory
            .held(own, &Key::Manifest(new.id()).record())
            .is_some()
    );
}

#[tokio::test(start_paused = true)]
async fn what_outgrows_a_record_leaves_no_record_of_ours_behind() {
    let (memory, one, _two) = two();
    let author = Author::new();
    let small = manifest_of(&author, "x", 1);
    one.repos.serve(&small);
    sleep(ms(1_000)).await;
    let records = [Key::Name(small.name()), Key::Manifest(small.id())].map(|key| key.record());
    let held = |record: &RecordKey| memory.held(&memory.names()[0], record);
    assert!(records.iter().all(|record| held(record).is_some()));
    let (long, at) = ("x".repeat(70 << 10), Timestamp::from_secs(1_700_000_009));
    let long = vec![tag(["description", &long])];
    let announcement = author.announcement_at("git.example", "x", long, at);
    let large = Manifest::make(announcement, vec![], None).unwrap();
    assert!(!large.fits_a_record() && large.name() == small.name());
    one.repos.serve(&large);
    sleep(ms(1_000)).await;
    assert!(records.iter().all(|record| held(record).is_none()));
    assert_eq!(one.resolver.counters().published_total, 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_is_withdrawn_and_forgotten_here() {
    let (memory, one, _two) = two();
    let manifest = manifest_of(&Author::new(), "x", 1);
    one.repos.serve(&manifest);
    sleep(ms(1_000)).await;
    let key = Key::Name(manifest.name());
    let here = one.resolver.resolve(&key, Ask::default()).await;
    assert_eq!(here.unwrap().source, Source::Local);
    one.repos.remove(&manifest.name());
    sleep(ms(1_000)).await;
    assert_eq!(memory.held(&memory.names()[0], &key.record()), None);
    assert_eq!(one.resolver.status().publisher.told, 0);
    assert_eq!(one.resolver.counters().withdrawn_total, 1);
    let here = one.resolver.resolve(&key, Ask::default()).await;
    // Others may still have it for a while; this node has not.
    assert_eq!(here.unwrap().source, Source::Dht);
}

#[tokio::test(start_paused = true)]
async fn everything_is_told_again_after_half_of_the_time_records_live() {
    let (_memory, one, _two) = two();
    one.repos.serve(&manifest_of(&Author::new(), "x", 1));
    sleep(ms(1_000)).await;
    assert_eq!(one.resolver.counters().published_total, 1);
    let half = one.options.load().publish.record_ttl / 2;
    sleep(half - ms(2_000)).await;
    assert_eq!(one.resolver.counters().published_total, 1);
    sleep(ms(2_000)).await;
    assert_eq!(one.resolver.counters().published_total, 2);
}

#[tokio::test(start_paused = true)]
async fn a_pass_notices_what_went_without_a_word_and_reindexing_is_one() {
    let (_memory, one, _two) = two();
    let author = Author::new();
    let [gone, kept] = ["gone", "kept"].map(|name| manifest_of(&author, name, 1));
    one.repos.serve(&gone);
    one.repos.serve(&kept);
    sleep(ms(1_000)).await;
    one.repos.remove_silently(&gone.name());
    let passes = one.resolver.status().publisher.passes_total;
    one.resolver.core().publisher.reindex();
    sleep(ms(1_000)).await;
    let status = one.resolver.status().publisher;
    assert_eq!((status.told, status.passes_total), (1, passes + 1));
    assert_eq!(one.resolver.counters().published_total, 3);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_is_not_withdrawn_but_tried_again() {
    let (memory, one, _two) = two();
    let author = Author::new();
    let (old, new) = (manifest_of(&author, "x", 1), manifest_of(&author, "x", 2));
    one.repos.serve(&old);
    sleep(ms(1_000)).await;
    one.repos.broken.store(true, Relaxed);
    one.repos.serve(&new);
    sleep(ms(1_000)).await;
    let held = || memory.held(&memory.names()[0], &Key::Name(old.name()).record());
    assert_eq!(held().as_ref(), Some(old.bytes()));
    assert_eq!(one.resolver.counters().withdrawn_total, 0);
    one.repos.broken.store(false, Relaxed);
    sleep(ms(31_000)).await;
    assert_eq!(held().as_ref(), Some(new.bytes()));
}

#[tokio::test(start_paused = true)]
async fn tellings_are_spaced_and_few_at_once() {
    let (_memory, one, _two) = two();
    let author = Author::new();
    for n in 0..100 {
        one.repos.serve(&manifest_of(&author, &format!("r{n}"), 1));
    }
    sleep(ms(1_010)).await;
    // One every 20 ms.
    let told = one.resolver.counters().published_total;
    assert!((45..=52).contains(&told), "{told}");
    sleep(ms(1_500)).await;
    assert_eq!(one.resolver.counters().published_total, 100);
    let _ = one.group.shutdown(ms(100)).await;
    assert!(one.group.status().iter().all(|kind| kind.running == 0));
}

/// A network that grows: it says how many it knows, and counts what it is told.
#[derive(Default)]
struct Growing {
    known: AtomicUsize,
    told: AtomicUsize,
}

impl Dht for Growing {
    fn here<'a>(&'a self, _: &'a RecordKey) -> BoxFuture<'a, Reply> {
        Box::pin(async { Reply::default() })
    }

    fn ask<'a>(&'a self, _: &'a Peer, _: &'a RecordKey) -> BoxFuture<'a, Result<Reply, AskError>> {
        Box::pin(async { Err(AskError::NoRoute) })
    }

    fn publish(
        &self,
        _: RecordKey,
        _: Option<Bytes>,
    ) -> BoxFuture<'_, Result<Published, DhtError>> {
        self.told.fetch_add(1, Relaxed);
        let stored_at = self.known.load(Relaxed);
        Box::pin(async move { Ok(Published { stored_at }) })
    }

    fn withdraw<'a>(&'a self, _: &'a RecordKey) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn status(&self) -> grip_dht::Status {
        grip_dht::Status {
            known_peers: self.known.load(Relaxed),
            ..Script::new(vec![], |_, _| Err(AskError::NoRoute)).status()
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_told_to_nobody_is_told_again_as_the_network_grows() {
    let network = Arc::new(Growing::default());
    let node = Node::new(Some(network.clone()), Options::default());
    node.repos.serve(&manifest_of(&Author::new(), "x", 1));
    let retry = node.options.load().publish.retry;
    // By its name and by its id, each time.
    for (known, told) in [(0, 2), (1, 4), (1, 4), (2, 6), (3, 6), (20, 8), (400, 8)] {
        network.known.store(known, Relaxed);
        sleep(retry + ms(1_000)).await;
        assert_eq!(network.told.load(Relaxed), told, "with {known} peers");
    }
}

/// A network that takes its time to hear something, and remembers it.
#[derive(Default)]
struct Slow {
    told: Mutex<BTreeMap<RecordKey, Bytes>>,
    /// How often each was told.
    times: Mutex<BTreeMap<RecordKey, usize>>,
}

impl Slow {
    fn knows(&self) -> BTreeMap<RecordKey, Bytes> {
        self.told.lock().clone()
    }

    fn times(&self, key: &Key) -> usize {
        let times = self.times.lock();
        times.get(&key.record()).copied().unwrap_or_default()
    }
}

impl Dht for Slow {
    fn here<'a>(&'a self, _: &'a RecordKey) -> BoxFuture<'a, Reply> {
        Box::pin(async { Reply::default() })
    }

    fn ask<'a>(&'a self, _: &'a Peer, _: &'a RecordKey) -> BoxFuture<'a, Result<Reply, AskError>> {
        Box::pin(async { Err(AskError::NoRoute) })
    }

    fn publish(
        &self,
        key: RecordKey,
        value: Option<Bytes>,
    ) -> BoxFuture<'_, Result<Published, DhtError>> {
        Box::pin(async move {
            *self.times.lock().entry(key.clone()).or_default() += 1;
            sleep(ms(100)).await;
            self.told.lock().insert(key, value.unwrap_or_default());
            Ok(Published { stored_at: 1 })
        })
    }

    fn withdraw<'a>(&'a self, key: &'a RecordKey) -> BoxFuture<'a, ()> {
        Box::pin(async {
            self.told.lock().remove(key);
        })
    }

    fn status(&self) -> grip_dht::Status {
        Script::new(vec![], |_, _| Err(AskError::NoRoute)).status()
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_while_it_is_told_of_is_withdrawn_all_the_same() {
    let network = Arc::new(Slow::default());
    let node = Node::new(Some(network.clone()), Options::default());
    let manifest = manifest_of(&Author::new(), "x", 1);
    let by_name = Key::Name(manifest.name());
    // First while its id is told, which comes before its name, then while its name is.
    for (after, times) in [(ms(50), 0), (ms(150), 1)] {
        node.repos.serve(&manifest);
        sleep(after).await;
        assert_eq!(network.times(&by_name), times);
        node.repos.remove(&manifest.name());
        sleep(ms(1_000)).await;
        assert_eq!(network.knows(), BTreeMap::new());
        assert_eq!(node.resolver.status().publisher.told, 0);
        assert_eq!(network.times(&by_name), times);
    }
}

#[tokio::test(start_paused = true)]
async fn what_changes_while_it_is_told_of_is_told_of_next() {
    for after in [ms(50), ms(150)] {
        let network = Arc::new(Slow::default());
        let node = Node::new(Some(network.clone()), Options::default());
        let author = Author::new();
        let [old, new] = [1, 2].map(|age| manifest_of(&author, "x", age));
        // The first pass, which sees nothing.
        sleep(ms(1_000)).await;
        node.repos.serve(&old);
        sleep(after).await;
        node.repos.serve(&new);
        sleep(ms(1_000)).await;
        let keys = [Key::Name(new.name()), Key::Manifest(new.id())];
        let expected = keys.map(|key| (key.record(), new.bytes().clone()));
        assert_eq!(network.knows(), BTreeMap::from(expected));
        assert_eq!(network.times(&Key::Manifest(old.id())), 1);
        let status = node.resolver.status().publisher;
        assert_eq!((status.told, status.due), (1, 0));
    }
}
