//! Peers that lie never change an answer, and cannot delay one.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytes::Bytes;

use super::*;

#[tokio::test(start_paused = true)]
async fn wrong_bytes_change_nothing() {
    let field = Field::new(40);
    let other = manifest_of(&Author::new(), "x", 99);
    let lies = [
        Bytes::from("nonsense"),
        Bytes::new(),
        other.bytes().clone(),
        field.manifest.bytes().slice(1..),
    ];
    for key in [field.by_id(), field.by_name()] {
        let peers = field.peers(&key).await;
        for (peer, lie) in peers.iter().zip(&lies) {
            field.memory.fault(peer, Fault::Lie(lie.clone()));
            field.memory.latency_of(peer, ms(1));
        }
        peers[4..6].iter().for_each(|peer| field.put(peer, &key));
        let before = field.counters().lies_total;
        let found = field.lookup(&key).await.unwrap();
        assert_eq!(found.manifest, field.manifest);
        assert_eq!(field.counters().lies_total - before, 4);
        peers.iter().for_each(|peer| field.memory.fault(peer, None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stale_manifest_is_outdone_by_the_second_voice() {
    let field = Field::new(40);
    let key = field.by_name();
    let peers = field.peers(&key).await;
    let stale = manifest_of(&field.author, "x", 1);
    field
        .memory
        .put(&peers[0], &key.record(), stale.bytes().clone());
    field.put(&peers[1], &key);
    field.memory.latency_of(&peers[1], ms(120));
    let found = field.lookup(&key).await.unwrap();
    assert_eq!(found.manifest, field.manifest);
}

#[tokio::test(start_paused = true)]
async fn what_is_known_here_is_never_replaced_by_something_older() {
    let field = Field::new(40);
    let key = field.by_name();
    let stale = manifest_of(&field.author, "x", 1);
    for peer in field.peers(&key).await {
        field
            .memory
            .put(&peer, &key.record(), stale.bytes().clone());
    }
    let known = Some(field.manifest.clone());
    let deadline = Instant::now() + field.options.deadline;
    let found = field
        .network
        .lookup(&key, known, &field.options, deadline)
        .await;
    assert_eq!(found.unwrap().manifest, field.manifest);
}

#[tokio::test(start_paused = true)]
async fn a_liar_and_the_providers_it_made_up_are_one_voice() {
    let field = Field::new(200);
    let key = field.by_name();
    let peers = field.peers(&key).await;
    let stale = manifest_of(&field.author, "x", 1);
    let all = field.memory.by_distance(&key.record());
    let sybils = all.iter().rev().filter(|name| !peers.contains(name));
    for sybil in sybils.take(20) {
        field
            .memory
            .put(sybil, &key.record(), stale.bytes().clone());
        field.memory.latency_of(sybil, ms(1));
        field.memory.provide(&peers[0], &key.record(), sybil);
    }
    field
        .memory
        .put(&peers[0], &key.record(), stale.bytes().clone());
    field.memory.latency_of(&peers[0], ms(1));
    field.put(&peers[1], &key);
    field.memory.latency_of(&peers[1], ms(100));
    let began = Instant::now();
    let found = field.lookup(&key).await.unwrap();
    assert_eq!(found.manifest, field.manifest);
    assert_eq!(began.elapsed(), ms(100));
}

#[tokio::test(start_paused = true)]
async fn stalling_providers_of_one_liar_do_not_take_all_places() {
    let field = Field::new(200);
    let key = field.by_id();
    let peers = field.peers(&key).await;
    let all = field.memory.by_distance(&key.record());
    let sybils = all.iter().rev().filter(|name| !peers.contains(name));
    for sybil in sybils.take(20) {
        field.memory.fault(sybil, Fault::Stall);
        field.memory.provide(&peers[0], &key.record(), sybil);
    }
    let honest = all.iter().filter(|name| !peers[..4].contains(name));
    honest.take(5).for_each(|name| field.put(name, &key));
    let began = Instant::now();
    let found = field.lookup(&key).await.unwrap();
    assert_eq!(found.manifest, field.manifest);
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
    let walked = network.lookup(&key, None, &options, deadline).await;
    assert_eq!(walked, Err(ResolveError::Unknown));
    // Two responses, eight requests each, besides the two themselves.
    assert_eq!(script.asked.load(Relaxed), 18);
    assert!(began.elapsed() <= ms(100));
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
    let field = Field::new(40);
    let key = Key::Manifest(crate::ManifestId::of(b"no manifest"));
    let peers = field.peers(&key).await;
    field.memory.put(&peers[0], &key.record(), "no manifest");
    let began = Instant::now();
    assert_eq!(field.lookup(&key).await, Err(ResolveError::Unknown));
    assert_eq!(began.elapsed(), ms(20));
    assert_eq!(field.counters().lies_total, 0);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_lies_again_and_again_is_asked_no_more() {
    let field = Field::new(40);
    let key = field.by_id();
    let peers = field.peers(&key).await;
    field.memory.fault(&peers[0], Fault::Lie("nonsense".into()));
    field.memory.latency_of(&peers[0], ms(1));
    peers[1..4].iter().for_each(|peer| field.put(peer, &key));
    for _ in 0..9 {
        assert!(field.lookup(&key).await.is_ok());
    }
    assert_eq!(field.memory.asked(&peers[0]), 4);
}
