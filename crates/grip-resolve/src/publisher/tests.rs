use std::{collections::BTreeMap, sync::atomic::Ordering::Relaxed};

use grip_dht::{RecordKey, testing::Network as Memory};
use grip_nostr::Timestamp;
use grip_testkit::{Author, events::tag};
use tokio::time::sleep;

use crate::{
    Key, Manifest, Options, Source,
    testing::{Node, Script, manifest_of, ms},
};

/// Two nodes of a network in memory; the first serves.
fn two() -> (Memory, Node, Node) {
    let memory = Memory::new(24);
    memory.latency(ms(5));
    let [one, two] = [0, 1].map(|i| Node::new(Some(memory.member(i)), Options::default()));
    for (name, node) in memory.names().iter().zip([&one, &two]) {
        memory.validator(name, node.local_manifests.clone());
        memory.local(name, node.local_manifests.clone());
    }
    (memory, one, two)
}

async fn found(node: &Node, manifest: &Manifest) -> bool {
    for key in [Key::Name(manifest.name()), Key::Manifest(manifest.id())] {
        let answer = node.resolve_fresh(&key).await;
        let is_it =
            |found: crate::Resolved| (found.id, found.source) == (manifest.id(), Source::Dht);
        if !answer.is_ok_and(is_it) {
            return false;
        }
    }
    true
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
    assert_eq!((status.published, status.due, status.scan), (40, 0, None));
}

#[tokio::test(start_paused = true)]
async fn a_change_is_published_at_once_and_the_old_id_is_withdrawn() {
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
    let here = one.resolve(&key).await;
    assert_eq!(here.unwrap().source, Source::Local);
    one.repos.remove(&manifest.name());
    sleep(ms(1_000)).await;
    assert_eq!(memory.held(&memory.names()[0], &key.record()), None);
    assert_eq!(one.resolver.status().publisher.published, 0);
    assert_eq!(one.resolver.counters().withdrawn_total, 1);
    let here = one.resolve(&key).await;
    // Others may still have it for a while; this node has not.
    assert_eq!(here.unwrap().source, Source::Dht);
}

#[tokio::test(start_paused = true)]
async fn everything_is_published_again_after_a_third_of_the_time_records_live() {
    let (_memory, one, _two) = two();
    one.repos.serve(&manifest_of(&Author::new(), "x", 1));
    sleep(ms(1_000)).await;
    assert_eq!(one.resolver.counters().published_total, 1);
    let third = one.options.get().publish.record_ttl / 3;
    sleep(third - ms(2_000)).await;
    assert_eq!(one.resolver.counters().published_total, 1);
    sleep(ms(2_000)).await;
    assert_eq!(one.resolver.counters().published_total, 2);
}

#[tokio::test(start_paused = true)]
async fn a_scan_notices_removals_without_a_notice_and_reindexing_is_one() {
    let (_memory, one, _two) = two();
    let author = Author::new();
    let [gone, kept] = ["gone", "kept"].map(|name| manifest_of(&author, name, 1));
    one.repos.serve(&gone);
    one.repos.serve(&kept);
    sleep(ms(1_000)).await;
    one.repos.remove_silently(&gone.name());
    let scans = one.resolver.status().publisher.scans_total;
    one.resolver.core().publisher.reindex();
    sleep(ms(1_000)).await;
    let status = one.resolver.status().publisher;
    assert_eq!((status.published, status.scans_total), (1, scans + 1));
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
async fn publications_are_spaced_and_few_at_once() {
    let (_memory, one, _two) = two();
    let author = Author::new();
    for n in 0..100 {
        one.repos.serve(&manifest_of(&author, &format!("r{n}"), 1));
    }
    sleep(ms(1_010)).await;
    // One every 20 ms.
    let published = one.resolver.counters().published_total;
    assert!((45..=52).contains(&published), "{published}");
    sleep(ms(1_500)).await;
    assert_eq!(one.resolver.counters().published_total, 100);
    let _ = one.group.shutdown(ms(100)).await;
    assert!(one.group.status().iter().all(|kind| kind.running == 0));
}

#[tokio::test(start_paused = true)]
async fn everything_is_published_again_as_the_network_grows() {
    let network = Script::empty(ms(0));
    let node = Node::new(Some(network.clone()), Options::default());
    node.repos.serve(&manifest_of(&Author::new(), "x", 1));
    let retry = node.options.get().publish.retry;
    // By its name and by its id, each time.
    for (known, published) in [(0, 2), (1, 4), (1, 4), (2, 6), (3, 6), (20, 8), (400, 8)] {
        network.known_peers.store(known, Relaxed);
        sleep(retry + ms(1_000)).await;
        assert_eq!(
            network.publications.lock().len(),
            published,
            "with {known} peers"
        );
    }
}

fn times(network: &Script, key: &Key) -> usize {
    let publications = network.publications.lock();
    publications
        .iter()
        .filter(|it| **it == key.record())
        .count()
}

#[tokio::test(start_paused = true)]
async fn what_is_deleted_while_it_is_published_is_withdrawn() {
    let network = Script::empty(ms(100));
    let node = Node::new(Some(network.clone()), Options::default());
    let manifest = manifest_of(&Author::new(), "x", 1);
    let by_name = Key::Name(manifest.name());
    // First while its id is published, which comes before its name, then while its name is.
    for (after, expected) in [(ms(50), 0), (ms(150), 1)] {
        node.repos.serve(&manifest);
        sleep(after).await;
        assert_eq!(times(&network, &by_name), expected);
        node.repos.remove(&manifest.name());
        sleep(ms(1_000)).await;
        assert_eq!(*network.records.lock(), BTreeMap::new());
        assert_eq!(node.resolver.status().publisher.published, 0);
        assert_eq!(times(&network, &by_name), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn what_changes_while_it_is_published_is_published_next() {
    for after in [ms(50), ms(150)] {
        let network = Script::empty(ms(100));
        let node = Node::new(Some(network.clone()), Options::default());
        let author = Author::new();
        let [old, new] = [1, 2].map(|age| manifest_of(&author, "x", age));
        // The first scan, which sees nothing.
        sleep(ms(1_000)).await;
        node.repos.serve(&old);
        sleep(after).await;
        node.repos.serve(&new);
        sleep(ms(1_000)).await;
        let keys = [Key::Name(new.name()), Key::Manifest(new.id())];
        let expected = keys.map(|key| (key.record(), new.bytes().clone()));
        assert_eq!(*network.records.lock(), BTreeMap::from(expected));
        assert_eq!(times(&network, &Key::Manifest(old.id())), 1);
        let status = node.resolver.status().publisher;
        assert_eq!((status.published, status.due), (1, 0));
    }
}
