//! Known manifests are returned in time, however many peers are silent.

use super::*;

/// A node among members who take requests and never answer.
fn silence(options: Options) -> (Memory, Node) {
    let memory = Memory::new(24);
    for name in &memory.names()[1..] {
        memory.fault(name, Fault::Stall);
    }
    let node = Node::new(Some(memory.member(0)), options);
    (memory, node)
}

#[tokio::test(start_paused = true)]
async fn what_others_left_here_is_given_once_those_asked_have_had_their_time() {
    let (memory, node) = silence(Options::default());
    let manifest = manifest_of(&Author::new(), "x", 1);
    let key = Key::Name(manifest.name());
    memory.put(&memory.names()[0], &key.record(), manifest.bytes().clone());
    let found = node.resolve(&key).await.unwrap();
    assert_eq!((found.source, found.id), (Source::Dht, manifest.id()));
    assert_eq!((found.took, found.hops), (ms(500), 0));
    assert!(found.asked >= 3);
}

#[tokio::test(start_paused = true)]
async fn what_is_served_here_is_given_once_those_asked_have_had_their_time() {
    for (deadline, took) in [(1_200, 500), (400, 380), (10, 8)] {
        let options = Options {
            deadline: ms(deadline),
            ..Options::default()
        };
        let (_memory, node) = silence(options);
        let manifest = manifest_of(&Author::new(), "x", 1);
        node.repos.serve(&manifest);
        let key = Key::Name(manifest.name());
        let found = node.resolve_fresh(&key).await.unwrap();
        assert_eq!((found.source, found.id), (Source::Local, manifest.id()));
        assert_eq!(found.took, ms(took));
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_shortly_before_the_deadline_reaches_the_caller() {
    let options = Options {
        request_timeout: ms(5_000),
        ..Options::default()
    };
    for (latency, took) in [(1_100, 1_175), (1_190, 1_190)] {
        let (memory, node) = silence(options.clone());
        let manifest = manifest_of(&Author::new(), "x", 1);
        let key = Key::Name(manifest.name());
        let nearest = memory.by_distance(&key.record()).into_iter();
        let nearest = nearest.filter(|name| *name != memory.names()[0]);
        for name in nearest.take(1) {
            memory.fault(&name, None);
            memory.latency_of(&name, ms(latency));
            memory.put(&name, &key.record(), manifest.bytes().clone());
        }
        let found = node.resolve(&key).await.unwrap();
        assert_eq!((found.id, found.took), (manifest.id(), ms(took)));
    }
}
