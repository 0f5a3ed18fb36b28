//! A failure is no answer, and takes none away.

use std::sync::atomic::AtomicBool;

use super::*;

/// Two peers that have `manifest` until the returned word says otherwise: then the first has
/// nothing and the second is not reached.
fn fading(manifest: &Manifest) -> (Arc<AtomicBool>, Node) {
    let fails = Arc::new(AtomicBool::new(false));
    let (word, bytes) = (Arc::clone(&fails), manifest.bytes().clone());
    let script = Script::new(vec![peer(1), peer(2)], move |asked, _| {
        match (word.load(Relaxed), asked.id == peer(1).id) {
            (true, true) => Ok(Response::default()),
            (true, false) => Err(RequestError::NoRoute),
            (false, _) => Ok(Response {
                value: Some(bytes.clone()),
                ..Response::default()
            }),
        }
    });
    (fails, Node::new(Some(script), Options::default()))
}

#[tokio::test(start_paused = true)]
async fn a_good_answer_outlives_a_failure_to_find_it_again() {
    let manifest = manifest_of(&Author::new(), "x", 1);
    let (fails, node) = fading(&manifest);
    let key = Key::Name(manifest.name());
    let found = node.resolve_fresh(&key).await.unwrap();
    assert_eq!((found.source, found.id), (Source::Dht, manifest.id()));
    fails.store(true, Relaxed);
    let failed = node.resolve_fresh(&key).await.unwrap_err();
    assert_eq!(failed.code(), "breaker_open");
    let kept = node.resolve(&key).await.unwrap();
    assert_eq!((kept.source, kept.id), (Source::Cache, manifest.id()));
    advance(ms(10_000)).await;
    for _ in 0..2 {
        let kept = node.resolve(&key).await.unwrap();
        assert_eq!((kept.source, kept.id), (Source::Stale, manifest.id()));
        tokio::time::sleep(ms(1_200)).await;
    }
    assert_eq!(node.resolver.counters().revalidations_total, 2);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_here_is_not_said_to_be_unknown() {
    let manifest = manifest_of(&Author::new(), "x", 1);
    let empty = Memory::new(24);
    for dht in [None, Some(empty.member(0) as Arc<dyn Dht>)] {
        let node = Node::new(dht, Options::default());
        node.repos.broken.store(true, Relaxed);
        node.repos.serve(&manifest);
        let key = Key::Name(manifest.name());
        let failed = node.resolve(&key).await;
        let failed = failed.unwrap_err();
        assert_eq!(failed, ResolveError::Unreadable);
        assert_eq!(failed.retry_after(), Some(ms(1_000)));
        assert_eq!(node.resolver.counters().unreadable_total, 1);
        // Nor is it remembered.
        node.repos.broken.store(false, Relaxed);
        let found = node.resolve(&key).await.unwrap();
        assert_eq!((found.source, found.id), (Source::Local, manifest.id()));
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_read_here_is_found_with_others() {
    let manifest = manifest_of(&Author::new(), "x", 1);
    let (_memory, node) = everywhere(&manifest, ms(20));
    node.repos.broken.store(true, Relaxed);
    let key = Key::Name(manifest.name());
    let found = node.resolve(&key).await.unwrap();
    assert_eq!((found.source, found.id), (Source::Dht, manifest.id()));
}
