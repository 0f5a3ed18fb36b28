//! Requests between two nodes.

use std::time::Duration;

use bytes::Bytes;
use grip_testkit::{until, within};
use libp2p::{kad, kad::KBucketKey};
use tokio::{io::AsyncReadExt as _, net::TcpListener};

use super::support::{Node, key, options};
use crate::{Dht as _, Peer, PeerName, RequestError, Response, kademlia::address};

#[tokio::test]
async fn two_nodes_ask_each_other() {
    let (one, two) = (Node::start(options(1)).await, Node::start(options(2)).await);
    let long = Bytes::from(vec![7; crate::limits::VALUE_BYTES]);
    two.mine.has(&key("thing"), long.clone());

    let response = one.dht.request(&two.peer(), &key("thing")).await.unwrap();
    assert!(response.value.unwrap() == long);
    let response = two.dht.request(&one.peer(), &key("thing")).await.unwrap();
    assert_eq!(response.value, None);

    let (asked, answered) = (one.dht.status().counters, two.dht.status().counters);
    assert_eq!((asked.asked_total, asked.answered_total), (1, 1));
    assert_eq!(answered.questions_total, 1);
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn a_value_that_is_too_long_to_send_is_not_sent() {
    let (one, two) = (Node::start(options(1)).await, Node::start(options(2)).await);
    two.mine
        .has(&key("thing"), vec![0; crate::limits::VALUE_BYTES + 1]);
    let response = one.dht.request(&two.peer(), &key("thing")).await.unwrap();
    assert_eq!(response.value, None);
}

#[tokio::test]
async fn a_peer_that_is_not_there_has_no_route() {
    let one = Node::start(options(1)).await;
    let two = Node::start(options(2)).await;
    let gone = two.peer();
    two.stop().await;
    let nowhere = Peer {
        addresses: Vec::new(),
        ..gone.clone()
    };
    for peer in [gone, nowhere, one.peer()] {
        let asked = one.dht.request(&peer, &key("k")).await;
        assert_eq!(asked, Err(RequestError::NoRoute), "{peer:?}");
    }
}

#[tokio::test]
async fn a_connection_that_we_do_not_allow_ourselves_is_no_fault_of_the_peer() {
    let mut shut = options(1);
    shut.max_pending_connections = 0;
    let (one, two) = (Node::start(shut).await, Node::start(options(2)).await);
    let asked = one.dht.request(&two.peer(), &key("k")).await;
    assert_eq!(asked, Err(RequestError::Overloaded));
}

#[tokio::test]
async fn a_peer_is_found_where_the_caller_says_while_it_is_looked_for_elsewhere() {
    let (one, two) = (Node::start(options(1)).await, Node::start(options(2)).await);
    // Here connections are taken and nothing is ever said.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let elsewhere = Peer {
        id: two.name(),
        addresses: vec![format!("/ip4/127.0.0.1/tcp/{port}")],
    };
    one.dht.learn(&elsewhere).await;
    let looking = async {
        let _ = one.dht.publish(key("k"), None).await;
        std::future::pending::<()>().await;
    };
    let asking = async {
        let _dialled = silent.accept().await.unwrap();
        one.dht.request(&two.peer(), &key("k")).await
    };
    tokio::select! {
        asked = asking => assert!(asked.is_ok(), "{asked:?}"),
        () = looking => {}
    }
}

#[tokio::test]
async fn dropping_a_request_ends_its_dial() {
    let mut patient = options(1);
    patient.connect_timeout = Duration::from_secs(600);
    let one = Node::start(patient).await;
    // Here connections are taken and nothing is ever said.
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let peer = Peer {
        id: PeerName::parse("12D3KooWPjceQrSwdWXPyLLeABRXmuqt69Rg3sBYbU1Nft9HyQ6X").unwrap(),
        addresses: vec![format!("/ip4/127.0.0.1/tcp/{port}")],
    };
    let key = key("k");
    let (mut dial, _) = tokio::select! {
        asked = one.dht.request(&peer, &key) => panic!("answered: {asked:?}"),
        dial = silent.accept() => dial.unwrap(),
    };
    assert!(!one.dht.is_connected(&peer.id));
    let mut received = Vec::new();
    let end = within("the dial ends", dial.read_to_end(&mut received)).await;
    assert!(end.is_ok(), "{end:?}");
}

#[tokio::test]
async fn another_peer_at_the_address_is_not_the_peer() {
    let (one, two) = (Node::start(options(1)).await, Node::start(options(2)).await);
    let other = Peer {
        id: PeerName::parse("12D3KooWPjceQrSwdWXPyLLeABRXmuqt69Rg3sBYbU1Nft9HyQ6X").unwrap(),
        ..two.peer()
    };
    let asked = one.dht.request(&other, &key("k")).await;
    assert_eq!(asked, Err(RequestError::NoRoute));
}

#[tokio::test]
async fn dropping_a_request_ends_the_work_at_the_peer() {
    let (one, two) = (Node::start(options(1)).await, Node::start(options(2)).await);
    two.mine.stall();
    let (peer, key) = (two.peer(), key("k"));
    tokio::select! {
        answer = one.dht.request(&peer, &key) => panic!("answered: {answer:?}"),
        () = two.mine.asked.notified() => {}
    }
    within("the peer sees it", two.mine.left.notified())
        .await
        .unwrap();
    assert_eq!(one.dht.status().counters.abandoned_total, 1);
    let broken = || async { (two.dht.status().counters.broken_total == 1).then_some(()) };
    until("it is counted", broken).await.unwrap();
}

#[tokio::test]
async fn a_request_that_stays_silent_ends_by_itself() {
    let mut options_one = options(1);
    options_one.outbound_request_timeout = Duration::from_millis(50);
    let one = Node::start(options_one).await;
    let two = Node::start(options(2)).await;
    two.mine.stall();
    let asked = one.dht.request(&two.peer(), &key("k")).await;
    assert_eq!(asked, Err(RequestError::Transient));
}

#[tokio::test]
async fn our_own_requests_are_bounded() {
    let mut options_one = options(1);
    options_one.max_outbound_requests = 1;
    let one = Node::start(options_one).await;
    let two = Node::start(options(2)).await;
    two.mine.stall();
    let (peer, key) = (two.peer(), key("k"));
    let first = one.dht.request(&peer, &key);
    tokio::select! {
        answer = first => panic!("answered: {answer:?}"),
        () = async {
            two.mine.asked.notified().await;
            assert_eq!(one.dht.request(&peer, &key).await, Err(RequestError::Overloaded));
        } => {}
    }
}

#[tokio::test]
async fn a_restart_with_the_same_secret_keeps_the_name_and_another_changes_it() {
    let one = Node::start(options(1)).await;
    let name = one.name();
    one.stop().await;
    assert_eq!(Node::start(options(1)).await.name(), name);
    assert_ne!(Node::start(options(2)).await.name(), name);
}

#[tokio::test]
async fn a_shutdown_leaves_no_task_and_ends_what_is_under_way() {
    let nodes = Node::net(3).await;
    nodes[1].mine.stall();
    let (peer, key) = (nodes[1].peer(), key("k"));
    let asking = nodes[0].dht.request(&peer, &key);
    let stopping = async {
        nodes[1].mine.asked.notified().await;
        nodes[0].stop().await;
    };
    let (asked, ()) = tokio::join!(asking, stopping);
    assert_eq!(asked, Err(RequestError::Closed));
    let dht = &nodes[0].dht;
    assert_eq!(dht.request(&peer, &key).await, Err(RequestError::Closed));
    assert!(dht.publish(key.clone(), None).await.is_err());
    assert_eq!(dht.local_response(&key).await, Response::default());
    nodes[1].stop().await;
    nodes[2].stop().await;
}

#[test]
fn distances_are_those_of_the_library() {
    for seed in 0..50_u8 {
        let keys = libp2p::identity::Keypair::ed25519_from_bytes([seed; 32]).unwrap();
        let id = keys.public().to_peer_id();
        let name = address::name(&id).unwrap();
        assert_eq!(name.as_str(), id.to_base58());
        assert_eq!(address::id(&name), Some(id));
        let key = key(&format!("key {seed}"));
        let theirs = KBucketKey::new(kad::RecordKey::new(&key.as_bytes()));
        let theirs = theirs.distance(&KBucketKey::from(id));
        let leading_zeros = 255 - theirs.ilog2().unwrap();
        assert_eq!(key.distance(&name).shared_bits(), leading_zeros);
    }
}
