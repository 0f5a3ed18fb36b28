//! The network in memory behaves as the tests of others need it to.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, timeout};

use super::*;
use crate::{Dht, Peer, RecordKey, RequestError};

fn key(text: &str) -> RecordKey {
    RecordKey::new(text).unwrap()
}

fn peer(network: &Network, i: usize) -> Peer {
    Peer {
        id: network.names()[i].clone(),
        addresses: Vec::new(),
    }
}

#[tokio::test(start_paused = true)]
async fn what_one_member_publishes_the_nearest_have_and_the_providers_are_named() {
    let network = Network::new(64);
    let key = key("thing");
    let publisher = network.member(3);
    let published = publisher.publish(key.clone(), Some(Bytes::from("v")));
    assert_eq!(published.await.unwrap().stored_at, 20);

    let member = network.member(40);
    let nearest = network.by_distance(&key).swap_remove(0);
    let nearest = Peer {
        id: nearest,
        addresses: Vec::new(),
    };
    let response = member.request(&nearest, &key).await.unwrap();
    assert_eq!(response.value.unwrap(), "v");
    assert_eq!(response.providers[0].id, network.names()[3]);
    assert!(response.closer.len() <= 20);
    assert!(
        response
            .closer
            .is_sorted_by_key(|peer| key.distance(&peer.id))
    );

    publisher.withdraw(&key).await;
    assert!(
        member
            .request(&nearest, &key)
            .await
            .unwrap()
            .providers
            .is_empty()
    );
}

#[tokio::test(start_paused = true)]
async fn a_key_published_without_a_value_loses_the_one_it_had() {
    let network = Network::new(4);
    let (publisher, key) = (network.member(0), key("thing"));
    let own = &network.names()[0];
    let value = Some(Bytes::from("v"));
    publisher.publish(key.clone(), value).await.unwrap();
    assert!(network.held(own, &key).is_some());
    publisher.publish(key.clone(), None).await.unwrap();
    assert_eq!(network.held(own, &key), None);

    // What it holds for others is not its own to drop.
    network.put(own, &key, "of another");
    publisher.publish(key.clone(), None).await.unwrap();
    assert!(network.held(own, &key).is_some());
}

#[tokio::test(start_paused = true)]
async fn latency_is_paid_and_a_dropped_request_is_seen() {
    let network = Network::new(4);
    network.latency(Duration::from_millis(40));
    let member = network.member(0);
    let began = Instant::now();
    member.request(&peer(&network, 1), &key("k")).await.unwrap();
    assert_eq!(began.elapsed(), Duration::from_millis(40));

    let stalled = peer(&network, 2);
    network.fault(&stalled.id, Fault::Stall);
    let key = key("k");
    let waited = timeout(Duration::from_secs(9), member.request(&stalled, &key));
    assert!(waited.await.is_err());
    assert_eq!(network.cancelled(&stalled.id), 1);
    assert_eq!(network.cancelled_total(), 1);
    assert_eq!(network.asked_total(), 2);
}

#[tokio::test(start_paused = true)]
async fn faults_are_what_they_are_called() {
    let network = Network::new(4);
    let member = network.member(0);
    let other = peer(&network, 1);
    let asked = || async { member.request(&other, &key("k")).await };
    network.fault(&other.id, Fault::Busy);
    assert_eq!(asked().await, Err(RequestError::Refused));
    network.fault(&other.id, Fault::Close);
    assert_eq!(asked().await, Err(RequestError::Transient));
    network.fault(&other.id, Fault::Error(RequestError::Malformed));
    assert_eq!(asked().await, Err(RequestError::Malformed));
    network.fault(&other.id, Fault::Lie(Bytes::from("false")));
    assert_eq!(asked().await.unwrap().value.unwrap(), "false");
    network.fault(&other.id, None);
    assert_eq!(asked().await.unwrap().value, None);
    assert_eq!(network.asked(&other.id), 5);
    assert_eq!(network.cancelled(&other.id), 0);
}
