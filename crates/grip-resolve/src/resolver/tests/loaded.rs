//! More resolutions than there is time for.

use super::*;

#[tokio::test(start_paused = true)]
async fn who_would_wait_too_long_is_refused_at_once_and_told_why() {
    let (_memory, node) = stalling();
    // The one worker learns that a resolution takes the whole deadline.
    let first = node.resolve(&some_key(0)).await;
    assert_eq!(first.unwrap_err(), ResolveError::Timeout);
    let keys: Vec<Key> = (1..20).map(some_key).collect();
    let mut asking: Vec<_> = keys.iter().map(|key| Box::pin(node.resolve(key))).collect();
    let began = Instant::now();
    assert!(
        asking[0].as_mut().now_or_never().is_none(),
        "a worker is free"
    );
    tokio::time::sleep(ms(1)).await;
    for ask in &mut asking[1..] {
        let refused = ask.as_mut().now_or_never().expect("refused at once");
        let refused = refused.unwrap_err();
        let ResolveError::Busy { cause, retry_after } = refused else {
            panic!("{refused:?}");
        };
        assert_eq!((cause, retry_after), (BusyCause::ExpectedWait, ms(1_200)));
    }
    assert_eq!(began.elapsed(), ms(1));
    let counters = node.resolver.counters();
    assert_eq!((counters.shed_total, counters.queue_full_total), (18, 0));
    let admitted = asking.swap_remove(0).await;
    assert_eq!(admitted.unwrap_err(), ResolveError::Timeout);
    assert_eq!(began.elapsed(), ms(1_200));
}

#[tokio::test(start_paused = true)]
async fn who_joins_a_flight_shortly_before_its_end_has_its_own_time() {
    let memory = Memory::new(24);
    let manifest = manifest_of(&Author::new(), "x", 1);
    let key = Key::Name(manifest.name());
    for name in &memory.names()[1..] {
        memory.put(name, &key.record(), manifest.bytes().clone());
        memory.fault(name, Fault::Stall);
    }
    // The first requests are the only ones within the deadline.
    let options = Options {
        request_timeout: ms(5_000),
        beta: 0,
        ..Options::default()
    };
    let node = Node::new(Some(memory.member(0)), options);
    let late = async {
        tokio::time::sleep(ms(1_100)).await;
        for name in memory.names() {
            memory.fault(name, None);
        }
        node.resolve(&key).await
    };
    let (first, late) = tokio::join!(node.resolve(&key), late);
    assert_eq!(first.unwrap_err(), ResolveError::Timeout);
    let late = late.unwrap();
    assert_eq!((late.id, late.took), (manifest.id(), ms(100)));
    let counters = node.resolver.counters();
    assert_eq!((counters.shared_total, counters.rejoined_total), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn busy_peers_are_not_a_busy_node() {
    let memory = Memory::new(24);
    for name in memory.names() {
        memory.fault(name, Fault::Busy);
    }
    let node = Node::new(Some(memory.member(0)), Options::default());
    let failed = node.resolve(&some_key(1)).await.unwrap_err();
    assert_eq!(failed.code(), "peers_busy");
    let counters = node.resolver.counters();
    assert_eq!(
        (counters.peers_busy_total, counters.queue_full_total),
        (1, 0)
    );
}
