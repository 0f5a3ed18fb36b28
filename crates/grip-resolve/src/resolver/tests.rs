use std::sync::atomic::Ordering::Relaxed;

use futures_util::{FutureExt as _, future::join_all};
use grip_dht::{
    RequestError, Response,
    testing::{Fault, Network as Memory},
};
use grip_tasks::Ended;
use grip_testkit::Author;
use tokio::time::advance;

use super::*;
use crate::{
    BusyCause,
    testing::{Node, Script, manifest_of, ms, peer},
};

mod draining;
mod failing;
mod loaded;
mod named;
mod newest;
mod soon;

/// A network in which everybody has `manifest`, seen by its first member.
fn everywhere(manifest: &Manifest, latency: Duration) -> (Memory, Node) {
    let memory = Memory::new(24);
    memory.latency(latency);
    for name in memory.names() {
        for key in [Key::Name(manifest.name()), Key::Manifest(manifest.id())] {
            memory.put(name, &key.record(), manifest.bytes().clone());
        }
    }
    let node = Node::new(Some(memory.member(0)), Options::default());
    (memory, node)
}

/// A node that serves an older manifest than all others have; the older and the newer one.
async fn older_here() -> (Node, Manifest, Manifest) {
    let author = Author::new();
    let [here, there] = [1, 2].map(|age| manifest_of(&author, "x", age));
    let (memory, node) = everywhere(&there, ms(20));
    for name in memory.names() {
        memory.validator(name, node.local_manifests.clone());
    }
    node.repos.serve(&here);
    tokio::time::sleep(ms(1_000)).await;
    (node, here, there)
}

fn stalling() -> (Memory, Node) {
    let memory = Memory::new(24);
    for name in memory.names() {
        memory.fault(name, Fault::Stall);
    }
    let options = Options {
        workers: 1,
        ..Options::default()
    };
    let node = Node::new(Some(memory.member(0)), options);
    (memory, node)
}

fn some_key(n: u32) -> Key {
    Key::Manifest(ManifestId::of(&n.to_be_bytes()))
}

#[tokio::test(start_paused = true)]
async fn an_answer_comes_from_the_network_once_and_then_from_the_cache() {
    let manifest = manifest_of(&Author::new(), "x", 1);
    let (memory, node) = everywhere(&manifest, ms(20));
    let key = Key::Name(manifest.name());
    let first = node.resolve(&key).await.unwrap();
    assert_eq!((first.source, first.id), (Source::Dht, manifest.id()));
    assert_eq!((first.hops, first.took), (1, ms(20)));
    let asked = memory.asked_total();
    advance(ms(9_900)).await;
    let second = node.resolve(&key).await.unwrap();
    assert_eq!((second.source, second.took), (Source::Cache, ms(0)));
    assert_eq!(memory.asked_total(), asked);
}

#[tokio::test(start_paused = true)]
async fn a_stale_answer_is_given_at_once_and_renewed_once() {
    let author = Author::new();
    let old = manifest_of(&author, "x", 1);
    let (memory, node) = everywhere(&old, ms(20));
    let key = Key::Name(old.name());
    node.resolve(&key).await.unwrap();
    let new = manifest_of(&author, "x", 2);
    for name in memory.names() {
        memory.put(name, &key.record(), new.bytes().clone());
    }
    advance(ms(10_000)).await;
    let lookups = node.resolver.counters().walks_total;
    let asking = (0..50).map(|_| node.resolve(&key));
    for stale in join_all(asking).await {
        let stale = stale.unwrap();
        assert_eq!(
            (stale.source, stale.id, stale.took),
            (Source::Stale, old.id(), ms(0))
        );
    }
    tokio::time::sleep(ms(30)).await;
    let renewed = node.resolve(&key).await.unwrap();
    assert_eq!((renewed.source, renewed.id), (Source::Cache, new.id()));
    let counters = node.resolver.counters();
    assert_eq!(counters.walks_total - lookups, 1);
    assert_eq!(counters.revalidations_total, 1);
    // Beyond that time it is worth nothing.
    advance(ms(70_000)).await;
    let again = node.resolve(&key).await.unwrap();
    assert_eq!(again.source, Source::Dht);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_concurrent_misses_are_one_lookup() {
    let manifest = manifest_of(&Author::new(), "x", 1);
    let (memory, node) = everywhere(&manifest, ms(20));
    let key = Key::Name(manifest.name());
    let asking = (0..1_000).map(|_| node.resolve(&key));
    for answer in join_all(asking).await {
        assert_eq!(answer.unwrap().id, manifest.id());
    }
    let counters = node.resolver.counters();
    assert_eq!((counters.walks_total, counters.shared_total), (1, 999));
    assert!(memory.asked_total() <= 3);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_key_is_cached_for_two_seconds() {
    let memory = Memory::new(24);
    let node = Node::new(Some(memory.member(0)), Options::default());
    let key = some_key(1);
    let ask = || node.resolve(&key);
    assert_eq!(ask().await.unwrap_err(), ResolveError::Unknown);
    let asked = memory.asked_total();
    assert!(asked > 0);
    advance(ms(1_990)).await;
    assert_eq!(ask().await.unwrap_err(), ResolveError::Unknown);
    assert_eq!(memory.asked_total(), asked);
    assert_eq!(node.resolver.counters().negative_hits_total, 1);
    advance(ms(10)).await;
    assert_eq!(ask().await.unwrap_err(), ResolveError::Unknown);
    assert!(memory.asked_total() > asked);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_returns_busy_at_once_and_increments_the_metric() {
    let (_memory, node) = stalling();
    let keys: Vec<Key> = (0..600).map(some_key).collect();
    let began = Instant::now();
    let asking = keys.iter().map(|key| node.resolve(key));
    let mut asking: Vec<_> = asking.map(Box::pin).collect();
    let mut refused = 0;
    for ask in &mut asking {
        if let Some(answer) = ask.now_or_never() {
            assert!(matches!(
                answer,
                Err(ResolveError::Busy {
                    cause: BusyCause::QueueFull,
                    ..
                })
            ));
            refused += 1;
        }
    }
    assert_eq!(began.elapsed(), ms(0));
    assert_eq!(refused, 600 - 512);
    let counters = node.resolver.counters();
    assert_eq!((counters.queue_full_total, counters.shed_total), (88, 0));
    assert_eq!(node.resolver.status().pipeline.queue_depth, 512);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_counts_the_time_in_the_queue() {
    let (memory, node) = stalling();
    let keys = [some_key(1), some_key(2)];
    let began = Instant::now();
    let asking = keys.iter().map(|key| node.resolve(key));
    for answer in join_all(asking).await {
        assert_eq!(answer.unwrap_err(), ResolveError::Timeout);
    }
    assert_eq!(began.elapsed(), ms(1_200));
    tokio::time::sleep(ms(10)).await;
    // The second came to its turn too late to be begun.
    let log = memory.log();
    assert!(log.iter().all(|(_, record)| *record == keys[0].record()));
    assert_eq!(node.resolver.status().pipeline.workers_busy, 0);
    assert_eq!(node.resolver.counters().timeouts_total, 2);
}

#[tokio::test(start_paused = true)]
async fn a_caller_with_a_shorter_deadline_leaves_earlier_and_the_others_go_on() {
    let manifest = manifest_of(&Author::new(), "x", 1);
    let (_memory, node) = everywhere(&manifest, ms(100));
    let key = Key::Name(manifest.name());
    let hurried = ResolveParams {
        deadline: Some(ms(50)),
        ..ResolveParams::default()
    };
    let (hurried, patient) = tokio::join!(node.resolver.resolve(&key, hurried), node.resolve(&key));
    assert_eq!(hurried.unwrap_err(), ResolveError::Timeout);
    assert_eq!(patient.unwrap().took, ms(100));
}

#[tokio::test(start_paused = true)]
async fn a_stop_in_the_middle_cancels_everybody_and_leaves_no_task() {
    let (memory, node) = stalling();
    let keys: Vec<Key> = (0..20).map(some_key).collect();
    let asking = join_all(keys.iter().map(|key| node.resolve(key)));
    let stop = async {
        tokio::time::sleep(ms(400)).await;
        node.group.shutdown(ms(100)).await
    };
    let began = Instant::now();
    let (answers, ended) = tokio::join!(asking, stop);
    for answer in answers {
        assert_eq!(answer.unwrap_err(), ResolveError::Canceled);
    }
    assert_eq!(began.elapsed(), ms(400));
    assert_eq!(ended, Ended::Drained);
    assert!(node.group.status().iter().all(|kind| kind.running == 0));
    assert_eq!(memory.asked_total(), memory.cancelled_total());
    let late = node.resolve(&some_key(1)).await;
    assert_eq!(late.unwrap_err(), ResolveError::Canceled);
}

#[tokio::test(start_paused = true)]
async fn what_is_served_here_is_found_without_asking_anybody() {
    let manifest = manifest_of(&Author::new(), "x", 1);
    let node = Node::new(None, Options::default());
    node.repos.serve(&manifest);
    tokio::time::sleep(ms(100)).await;
    for key in [Key::Name(manifest.name()), Key::Manifest(manifest.id())] {
        let found = node.resolve(&key).await.unwrap();
        assert_eq!((found.source, found.id), (Source::Local, manifest.id()));
    }
    let nothing = node.resolve(&some_key(1)).await;
    assert_eq!(nothing.unwrap_err(), ResolveError::Unknown);
}

#[tokio::test(start_paused = true)]
async fn a_fresh_answer_joins_what_is_here_with_what_is_there() {
    let (node, here, there) = older_here().await;
    let key = Key::Name(here.name());
    let usual = node.resolve(&key).await.unwrap();
    assert_eq!((usual.source, usual.id), (Source::Local, here.id()));
    let found = node.resolve_fresh(&key).await.unwrap();
    assert_eq!((found.source, found.id), (Source::Dht, there.id()));
}

#[tokio::test(start_paused = true)]
async fn a_changed_setting_counts_for_the_next_request() {
    let (_memory, node) = stalling();
    node.options.set(Options {
        deadline: ms(300),
        ..Options::default()
    });
    let began = Instant::now();
    let answer = node.resolve(&some_key(1)).await;
    assert_eq!(answer.unwrap_err(), ResolveError::Timeout);
    assert_eq!(began.elapsed(), ms(300));
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_network_does_not_make_a_key_unknown() {
    let script = Script::new(vec![peer(1)], |_, _| Err(RequestError::NoRoute));
    let node = Node::new(Some(script.clone()), Options::default());
    for _ in 0..2 {
        let answer = node.resolve(&some_key(1)).await;
        assert!(
            matches!(answer, Err(ResolveError::BreakerOpen { .. })),
            "{answer:?}"
        );
    }
    // Not remembered either: the second time it was tried until the breaker shut.
    assert_eq!(node.resolver.counters().negative_hits_total, 0);
    assert_eq!(script.asked.load(Relaxed), 4);
}
