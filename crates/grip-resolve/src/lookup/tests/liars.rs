//! Peers that lie never change an answer, and cannot delay one.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;

use super::*;

#[tokio::test(start_paused = true)]
async fn wrong_bytes_change_nothing() {
    let scene = Scene::new(40);
    let other = manifest_of(&Author::new(), "x", 99);
    let lies = [
        Bytes::from("nonsense"),
        Bytes::new(),
        other.bytes().clone(),
        scene.manifest.bytes().slice(1..),
    ];
    for key in [scene.by_id(), scene.by_name()] {
        let peers = scene.peers(&key).await;
        for (peer, lie) in peers.iter().zip(&lies) {
            scene.memory.fault(peer, Fault::Lie(lie.clone()));
            scene.memory.latency_of(peer, ms(1));
        }
        peers[4..6].iter().for_each(|peer| scene.put(peer, &key));
        let before = scene.counters().lies_total;
        scene.finds(&key).await;
        assert_eq!(scene.counters().lies_total - before, 4);
        peers.iter().for_each(|peer| scene.memory.fault(peer, None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stale_manifest_is_replaced_by_the_second_response() {
    let scene = Scene::new(40);
    let key = scene.by_name();
    let peers = scene.peers(&key).await;
    let stale = manifest_of(&scene.author, "x", 1);
    scene.leave(&peers[0], &key, &stale);
    scene.put(&peers[1], &key);
    scene.memory.latency_of(&peers[1], ms(120));
    scene.finds(&key).await;
}

#[tokio::test(start_paused = true)]
async fn a_quick_stale_peer_does_not_decide_before_a_slower_provider() {
    let scene = Scene::new(200);
    let key = scene.by_name();
    let own = scene.memory.names()[0].clone();
    let provider = scene.farthest(&key);
    scene.put(&provider, &key);
    scene.memory.provide(&own, &key.record(), &provider);
    scene.memory.latency_of(&provider, ms(400));
    let peers = scene.peers(&key).await;
    let stale = manifest_of(&scene.author, "x", 1);
    scene.leave(&peers[0], &key, &stale);
    scene.memory.latency_of(&peers[0], ms(1));
    let began = Instant::now();
    scene.finds(&key).await;
    assert_eq!(began.elapsed(), ms(400));
}

#[tokio::test(start_paused = true)]
async fn a_quick_stale_peer_does_not_decide_while_another_waits_for_its_retry() {
    let author = Author::new();
    let [stale, newest] = [1, 9].map(|age| manifest_of(&author, "x", age));
    let key = Key::Name(newest.name());
    let (values, tries) = ([stale, newest.clone()], AtomicU64::new(0));
    let script = Script::new(vec![peer(1), peer(2)], move |asked, _: &RecordKey| {
        let is_honest = asked.id == peer(2).id;
        if is_honest && tries.fetch_add(1, Relaxed) == 0 {
            return Err(RequestError::Transient);
        }
        Ok(Response {
            value: Some(values[usize::from(is_honest)].bytes().clone()),
            ..Response::default()
        })
    });
    let (network, options) = (network(script), Options::default());
    let deadline = Instant::now() + options.deadline;
    let found = network.lookup(&key, None, &options, deadline).await;
    assert_eq!(found.unwrap().manifest, newest);
}

#[tokio::test(start_paused = true)]
async fn silent_peers_delay_the_response_of_a_single_holder_by_half_a_second() {
    let scene = Scene::new(40);
    let key = scene.by_name();
    let peers = scene.peers(&key).await;
    scene.put(&peers[0], &key);
    scene.stall(&peers[1..]);
    let began = Instant::now();
    scene.finds(&key).await;
    assert_eq!(began.elapsed(), ms(20 + 500));
}

#[tokio::test(start_paused = true)]
async fn a_single_late_response_is_returned_before_the_deadline() {
    let scene = Scene::new(40);
    let key = scene.by_name();
    let peers = scene.peers(&key).await;
    scene.put(&peers[0], &key);
    scene.memory.latency_of(&peers[0], ms(900));
    scene.stall(&peers[1..]);
    let began = Instant::now();
    scene.finds(&key).await;
    assert_eq!(began.elapsed(), ms(1_200 - 25));
}

#[tokio::test(start_paused = true)]
async fn what_is_known_here_is_never_replaced_by_something_older() {
    let scene = Scene::new(40);
    let key = scene.by_name();
    let stale = manifest_of(&scene.author, "x", 1);
    for peer in scene.peers(&key).await {
        scene.leave(&peer, &key, &stale);
    }
    let known = Some(scene.manifest.clone());
    let deadline = Instant::now() + scene.options.deadline;
    let found = scene
        .network
        .lookup(&key, known, &scene.options, deadline)
        .await;
    assert_eq!(found.unwrap().manifest, scene.manifest);
}

#[tokio::test(start_paused = true)]
async fn a_liar_and_the_providers_it_made_up_count_as_one() {
    let scene = Scene::new(200);
    let key = scene.by_name();
    let peers = scene.peers(&key).await;
    let stale = manifest_of(&scene.author, "x", 1);
    let all = scene.memory.by_distance(&key.record());
    let sybils = all.iter().rev().filter(|name| !peers.contains(name));
    for sybil in sybils.take(20) {
        scene.leave(sybil, &key, &stale);
        scene.memory.latency_of(sybil, ms(1));
        scene.memory.provide(&peers[0], &key.record(), sybil);
    }
    scene.leave(&peers[0], &key, &stale);
    scene.memory.latency_of(&peers[0], ms(1));
    scene.put(&peers[1], &key);
    scene.memory.latency_of(&peers[1], ms(100));
    let began = Instant::now();
    scene.finds(&key).await;
    assert_eq!(began.elapsed(), ms(100));
}

#[tokio::test(start_paused = true)]
async fn stalling_providers_of_one_liar_do_not_take_all_places() {
    let scene = Scene::new(200);
    let key = scene.by_id();
    let peers = scene.peers(&key).await;
    let all = scene.memory.by_distance(&key.record());
    let sybils = all.iter().rev().filter(|name| !peers.contains(name));
    for sybil in sybils.take(20) {
        scene.memory.fault(sybil, Fault::Stall);
        scene.memory.provide(&peers[0], &key.record(), sybil);
    }
    let honest = all.iter().filter(|name| !peers[..4].contains(name));
    honest.take(5).for_each(|name| scene.put(name, &key));
    let began = Instant::now();
    scene.finds(&key).await;
    assert!(began.elapsed() < ms(120), "{:?}", began.elapsed());
}

/// Answers that name ever more peers, none of which there is an end of.
fn endless(with: Option<(u64, Key, Manifest)>) -> Arc<Script> {
    let made = AtomicU64::new(1_000);
    let roots = vec![peer(1), peer(2)];
    Script::new(roots, move |asked, _: &RecordKey| {
        if let Some((n, _, manifest)) = &with
            && asked.id == peer(*n).id
        {
            let value = Some(manifest.bytes().clone());
            return Ok(Response {
                value,
                ..Response::default()
            });
        }
        let more = || {
            let first = made.fetch_add(20, Relaxed);
            (first..first + 20).map(peer).collect()
        };
        Ok(Response {
            value: None,
            providers: more(),
            closer: more(),
        })
    })
}

#[tokio::test(start_paused = true)]
async fn endless_lists_of_closer_peers_come_to_an_end() {
    let script = endless(None);
    let network = network(script.clone());
    let options = Options::default();
    let key = Key::Manifest(crate::ManifestId::of(b"x"));
    let began = Instant::now();
    let deadline = began + options.deadline;
    let found = network.lookup(&key, None, &options, deadline).await;
    assert_eq!(found, Err(ResolveError::Unknown));
    // Two responses, eight requests each, besides the two themselves.
    assert_eq!(script.asked.load(Relaxed), 18);
    assert!(began.elapsed() <= ms(100));
}

#[tokio::test(start_paused = true)]
async fn endless_lists_of_one_peer_leave_room_for_those_that_another_names() {
    let manifest = manifest_of(&Author::new(), "x", 1);
    let key = Key::Manifest(manifest.id());
    let tries = AtomicU64::new(0);
    let liars = endless(Some((9, key.clone(), manifest.clone())));
    let script = Script::new(vec![peer(1), peer(2)], move |asked, key: &RecordKey| {
        if asked.id != peer(2).id {
            return (liars.answer)(asked, key);
        }
        // The honest one names the holder after all requests of the other were answered.
        if tries.fetch_add(1, Relaxed) == 0 {
            return Err(RequestError::Transient);
        }
        Ok(Response {
            closer: vec![peer(9)],
            ..Response::default()
        })
    });
    let (network, options) = (network(script), Options::default());
    let deadline = Instant::now() + options.deadline;
    let found = network.lookup(&key, None, &options, deadline).await;
    assert_eq!(found.unwrap().manifest, manifest);
}

#[tokio::test(start_paused = true)]
async fn endless_lists_do_not_delay_what_another_has_answered() {
    let manifest = manifest_of(&Author::new(), "x", 1);
    let key = Key::Name(manifest.name());
    let script = endless(Some((2, key.clone(), manifest.clone())));
    let network = network(script.clone());
    let options = Options::default();
    let began = Instant::now();
    let deadline = began + options.deadline;
    let found = network
        .lookup(&key, None, &options, deadline)
        .await
        .unwrap();
    assert_eq!(found.manifest, manifest);
    assert!(began.elapsed() <= ms(10 + 150));
}

#[tokio::test(start_paused = true)]
async fn the_very_bytes_that_are_no_manifest_end_the_search() {
    let scene = Scene::new(40);
    let key = Key::Manifest(crate::ManifestId::of(b"no manifest"));
    let peers = scene.peers(&key).await;
    scene.memory.put(&peers[0], &key.record(), "no manifest");
    let began = Instant::now();
    assert_eq!(scene.lookup(&key).await, Err(ResolveError::Unknown));
    assert_eq!(began.elapsed(), ms(20));
    assert_eq!(scene.counters().lies_total, 0);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_lies_again_and_again_is_asked_no_more() {
    let scene = Scene::new(40);
    let key = scene.by_id();
    let peers = scene.peers(&key).await;
    scene.memory.fault(&peers[0], Fault::Lie("nonsense".into()));
    scene.memory.latency_of(&peers[0], ms(1));
    peers[1..4].iter().for_each(|peer| scene.put(peer, &key));
    for _ in 0..9 {
        assert!(scene.lookup(&key).await.is_ok());
    }
    assert_eq!(scene.memory.asked(&peers[0]), 4);
}
