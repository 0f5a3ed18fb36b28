//! Records: validated, and stored by the nearest nodes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use grip_testkit::{CapturedLog, http::must_contain, until};

use super::support::{Careless, Node, key, options};
use crate::{Dht as _, DhtError, limits};

#[tokio::test]
async fn what_one_publishes_the_nearest_answer_for() {
    let nodes = Node::net(4).await;
    let key = key("thing");
    let value = Bytes::from(vec![b'v'; limits::RECORD_BYTES]);
    let published = nodes[0].dht.publish(key.clone(), Some(value.clone())).await;
    assert_eq!(published.unwrap().stored_at, 3);
    for node in &nodes {
        node.holds(1).await;
    }
    let nearest = nodes[3].dht.local_response(&key).await.closer;
    assert_eq!(nearest.len(), 3);
    assert!(nearest.is_sorted_by_key(|peer| key.distance(&peer.id)));
    for peer in nearest {
        let response = nodes[3].dht.request(&peer, &key).await.unwrap();
        assert!(response.value.unwrap() == value);
        assert!(
            response
                .closer
                .iter()
                .all(|closer| closer.id != nodes[3].name())
        );
        assert!(!response.closer.is_empty());
    }
}

#[tokio::test]
async fn a_value_that_is_refused_is_stored_nowhere() {
    let others = Node::net(3).await;
    let mut evil = options(99);
    evil.bootstrap = vec![others[0].place()];
    let evil = Node::validated(evil, Arc::new(Careless)).await;
    evil.knows(3).await;
    let key = key("thing");
    let bad = Some(Bytes::from("bad bytes"));
    evil.dht.publish(key.clone(), bad.clone()).await.unwrap();
    for node in &others {
        let refused = || async { (node.dht.status().counters.refused_total > 0).then_some(()) };
        until("the record is refused", refused).await.unwrap();
        assert_eq!(node.dht.status().records, 0);
        let response = evil.dht.request(&node.peer(), &key).await.unwrap();
        assert_eq!(response.value, None);
    }
    let own = others[0].dht.publish(key, bad).await;
    assert!(matches!(own, Err(DhtError::Refused { .. })), "{own:?}");
}

#[tokio::test]
async fn an_older_value_replaces_no_newer_one() {
    let nodes = Node::net(3).await;
    let key = key("thing");
    let publish = |i: usize, value: &'static str| {
        let (dht, key) = (&nodes[i].dht, key.clone());
        async move { dht.publish(key, Some(Bytes::from(value))).await.unwrap() }
    };
    publish(0, "2").await;
    nodes[1].holds(1).await;
    nodes[2].holds(1).await;
    // The older one is offered to the others, and its own publisher knows better as well.
    publish(1, "1").await;
    for node in &nodes {
        let response = nodes[if node.name() == nodes[0].name() { 1 } else { 0 }]
            .dht
            .request(&node.peer(), &key)
            .await;
        assert_eq!(response.unwrap().value.unwrap(), "2");
    }
    publish(2, "3").await;
    for node in &nodes[..2] {
        let newer = || async {
            let response = nodes[2].dht.request(&node.peer(), &key).await.unwrap();
            (response.value.unwrap() == "3").then_some(())
        };
        until("the newer value is there", newer).await.unwrap();
    }
}

#[tokio::test]
async fn a_record_that_is_published_again_is_held_as_long_as_a_new_one() {
    let nodes = Node::net(2).await;
    let key = key("thing");
    let publish = || nodes[0].dht.publish(key.clone(), Some(Bytes::from("2")));
    publish().await.unwrap();
    nodes[1].holds(1).await;
    let first = nodes[1].expiry(&key).await.unwrap();
    publish().await.unwrap();
    let later = || async { nodes[1].expiry(&key).await.filter(|again| *again > first) };
    until("the record is renewed", later).await.unwrap();
    let counters = nodes[1].dht.status().counters;
    assert_eq!((counters.kept_total, counters.ignored_total), (1, 1));
    let own = nodes[0].expiry(&key).await;
    assert_eq!(own, None, "what is our own has no end");
}

#[tokio::test]
async fn a_stranger_cannot_have_a_record_expire_soon() {
    let ttl = options(0).record_ttl;
    let holder = Node::start(options(1)).await;
    let mut hasty = options(2);
    hasty.record_ttl = Duration::from_secs(2);
    hasty.bootstrap = vec![holder.place()];
    let hasty = Node::start(hasty).await;
    hasty.knows(1).await;
    let (key, began) = (key("thing"), Instant::now());
    let value = Some(Bytes::from("v"));
    hasty.dht.publish(key.clone(), value).await.unwrap();
    holder.holds(1).await;
    assert!(holder.expiry(&key).await.unwrap() >= began + ttl);
}

#[tokio::test]
async fn a_key_that_is_published_without_a_value_loses_the_one_it_had() {
    let first = Node::start(options(1)).await;
    let key = key("thing");
    let value = Some(Bytes::from("v"));
    first.dht.publish(key.clone(), value).await.unwrap();
    first.dht.publish(key.clone(), None).await.unwrap();
    let status = first.dht.status();
    assert_eq!((status.records, status.provided_keys), (0, 1));

    // A later node learns of the provider, and not of the earlier value.
    let late = Node::joining(2, &first).await;
    first.dht.publish(key.clone(), None).await.unwrap();
    let known = || async { (late.dht.status().provided_keys > 0).then_some(()) };
    until("the provider is known", known).await.unwrap();
    let response = late.dht.request(&first.peer(), &key).await.unwrap();
    assert_eq!((response.value, response.providers.len()), (None, 1));
    let counters = late.dht.status().counters;
    assert_eq!((late.dht.status().records, counters.kept_total), (0, 0));
}

#[tokio::test]
async fn a_provider_is_found_and_has_more_than_a_record_can_hold() {
    let nodes = Node::net(3).await;
    let key = key("large");
    let large = Bytes::from(vec![1; 1024 * 1024]);
    nodes[0].mine.has(&key, large.clone());
    nodes[0].dht.publish(key.clone(), None).await.unwrap();
    let too_large = nodes[0].dht.publish(key.clone(), Some(large.clone())).await;
    assert!(matches!(too_large, Err(DhtError::TooLarge { .. })));

    let known = || async {
        let response = nodes[2].dht.request(&nodes[1].peer(), &key).await.unwrap();
        assert_eq!(response.value, None);
        response.providers.first().cloned()
    };
    let provider = until("the provider is known", known).await.unwrap();
    assert_eq!(provider, nodes[0].peer());
    let response = nodes[2].dht.request(&provider, &key).await.unwrap();
    assert!(response.value.unwrap() == large);
    assert_eq!(
        response.providers,
        [provider],
        "who provides says so itself"
    );
}

#[tokio::test]
async fn what_is_withdrawn_is_ours_no_more() {
    let nodes = Node::net(3).await;
    let key = key("thing");
    let value = Some(Bytes::from("v"));
    nodes[0].dht.publish(key.clone(), value).await.unwrap();
    nodes[1].holds(1).await;
    let status = nodes[0].dht.status();
    assert_eq!((status.records, status.provided_keys), (1, 1));

    nodes[0].dht.withdraw(&key).await;
    let response = nodes[1].dht.request(&nodes[0].peer(), &key).await.unwrap();
    assert_eq!(response.value, None);
    assert_eq!(response.providers, []);
    let status = nodes[0].dht.status();
    assert_eq!((status.records, status.provided_keys), (0, 0));
}

#[tokio::test]
async fn what_is_published_again_reaches_later_nodes() {
    let first = Node::start(options(1)).await;
    let key = key("thing");
    let value = Some(Bytes::from("v"));
    let publish = || first.dht.publish(key.clone(), value.clone());
    assert_eq!(publish().await.unwrap().stored_at, 0);
    assert_eq!(first.dht.status().counters.unpublished_total, 1);

    let late = Node::joining(2, &first).await;
    assert_eq!(publish().await.unwrap().stored_at, 1);
    late.holds(1).await;
    first.stop().await;
    late.stop().await;
}

#[tokio::test]
async fn a_peer_to_begin_with_that_comes_up_late_is_met() {
    let place = Node::start(options(1)).await;
    let (address, name) = (place.peer().addresses.remove(0), place.place());
    place.stop().await;
    let mut early = options(2);
    early.bootstrap = vec![name];
    early.bootstrap_interval = Duration::from_secs(1);
    let early = Node::start(early).await;
    assert_eq!(early.dht.status().connected_peers, 0);

    let mut late = options(1);
    late.listen = vec![address];
    let late = Node::start(late).await;
    late.knows(1).await;
    assert_eq!(early.dht.status().connected_peers, 1);
}

#[tokio::test]
async fn own_keys_and_publications_at_once_are_bounded() {
    let (log, _guard) = CapturedLog::start();
    let warnings = || log.count("WARN", "max_published=1");
    let mut small = options(1);
    small.max_published = 1;
    small.max_publications = 1;
    let node = Node::start(small).await;
    node.dht.publish(key("one"), None).await.unwrap();
    assert_eq!(node.dht.status().counters.displaced_total, 0);
    assert_eq!(warnings(), 0);
    for (again, name) in ["two", "three"].into_iter().enumerate() {
        node.dht.publish(key(name), None).await.unwrap();
        let status = node.dht.status();
        assert_eq!(
            (status.published_keys, status.counters.displaced_total),
            (1, 1 + again as u64)
        );
        // Once for the process, with the remedy.
        assert_eq!(warnings(), 1, "{}", log.text());
    }
    must_contain(&log.text(), &["raise dht_max_published"]);
    let (first, second) = tokio::join!(
        node.dht.publish(key("one"), None),
        node.dht.publish(key("one"), None),
    );
    first.unwrap();
    assert!(matches!(second, Err(DhtError::Busy)), "{second:?}");
}
