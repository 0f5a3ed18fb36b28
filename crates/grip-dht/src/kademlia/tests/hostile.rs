//! Peers that do not play by the rules.

use std::time::Duration;

use grip_testkit::{until, within};
use libp2p::{
    StreamProtocol,
    futures::{
        AsyncReadExt as _, AsyncWriteExt as _, StreamExt as _,
        future::{BoxFuture, join_all},
        stream::FuturesUnordered,
    },
};

use super::support::{Node, Raw, key, options};
use crate::{
    Dht as _, Peer, RecordKey, RequestError, Response,
    kademlia::{address, codec},
    limits,
};

/// Asks `raw`, which answers with `wire` and closes.
async fn answered_with(node: &Node, raw: &mut Raw, wire: &[u8]) -> RequestError {
    let (peer, key) = (raw.peer.clone(), key("k"));
    let answering = async {
        let (_, mut stream) = raw.streams.recv().await.unwrap();
        codec::read_request(&mut stream).await.unwrap();
        // The requester may close before the end.
        let _ = stream.write_all(wire).await;
        let _ = stream.close().await;
    };
    let (asked, ()) = tokio::join!(node.dht.request(&peer, &key), answering);
    asked.unwrap_err()
}

#[tokio::test]
async fn answers_that_are_wrong_are_refused_and_the_peer_can_be_asked_again() {
    let node = Node::start(options(1)).await;
    let mut raw = Raw::start().await;
    let found = |value: usize| {
        let body = codec::encode(&codec::WireResponse::Found(codec::Found {
            value: Some(vec![0; value].into()),
            ..Default::default()
        }));
        [&(body.len() as u32).to_be_bytes()[..], &body].concat()
    };
    let good = found(100);
    let trailing = [&good[..], &[0]].concat();
    let mut too_long_value = found(10);
    too_long_value[6..10].copy_from_slice(&u32::MAX.to_be_bytes());
    let cases: [(&str, &[u8], RequestError); 8] = [
        ("nothing", b"", RequestError::Transient),
        ("cut", &good[..50], RequestError::Transient),
        ("trailing", &trailing, RequestError::Malformed),
        (
            "garbage",
            &[0, 0, 0, 4, 9, 9, 9, 9],
            RequestError::Malformed,
        ),
        ("http", b"HTTP/1.1 200 OK\r\n\r\n", RequestError::TooLarge),
        ("empty", &[0, 0, 0, 0], RequestError::Malformed),
        ("claim", &u32::MAX.to_be_bytes(), RequestError::TooLarge),
        ("value", &too_long_value, RequestError::TooLarge),
    ];
    for (name, wire, expected) in cases {
        let error = within(name, answered_with(&node, &mut raw, wire)).await;
        assert_eq!(error.unwrap(), expected, "{name}");
    }
    assert_eq!(node.dht.status().counters.asked_total, 8);
    assert_eq!(node.dht.status().connected_peers, 1);
    raw.stop().await;
}

#[tokio::test]
async fn leaving_a_request_closes_the_stream_of_a_peer_that_stalls_in_its_answer() {
    let node = Node::start(options(1)).await;
    let mut raw = Raw::start().await;
    let (peer, key) = (raw.peer.clone(), key("k"));
    let half = async {
        let (_, mut stream) = raw.streams.recv().await.unwrap();
        codec::read_request(&mut stream).await.unwrap();
        stream.write_all(&[0, 0, 1, 0, 0, 1]).await.unwrap();
        stream.flush().await.unwrap();
        stream
    };
    let mut stream = tokio::select! {
        asked = node.dht.request(&peer, &key) => panic!("answered: {asked:?}"),
        stream = half => stream,
    };
    let seen = async { stream.read(&mut [0]).await };
    let seen = within("the end is seen", seen).await.unwrap();
    assert!(matches!(seen, Ok(0) | Err(_)), "{seen:?}");
    assert_eq!(node.dht.status().counters.abandoned_total, 1);
    raw.stop().await;
}

#[tokio::test]
async fn requests_that_are_wrong_get_no_answer() {
    let (victim, other) = (Node::start(options(1)).await, Node::start(options(2)).await);
    let peer = address::id(&victim.name()).unwrap();
    let places = other.dht.addresses(&victim.peer());
    let with_more = [&[1, b'k'][..], b"more"].concat();
    let long = vec![255; 256];
    for wire in [&[0][..], &[65; 66], &long, &with_more] {
        let mut stream = other.dht.open(peer, places.clone()).await.unwrap();
        stream.write_all(wire).await.unwrap();
        stream.flush().await.unwrap();
        let mut answer = Vec::new();
        let read = within("it is closed", stream.read_to_end(&mut answer)).await;
        assert!(matches!(read, Ok(Ok(0) | Err(_))), "{read:?} to {wire:?}");
    }
    let broken = || async { (victim.dht.status().counters.broken_total == 4).then_some(()) };
    until("all are counted", broken).await.unwrap();
    let response = other.dht.request(&victim.peer(), &key("k")).await;
    assert!(response.is_ok(), "the node answers as before");
}

const KADEMLIA: StreamProtocol = StreamProtocol::new("/gripfast/kad/1");

#[tokio::test]
async fn a_peer_that_leaves_a_kademlia_stream_open_loses_its_connection_when_idle() {
    let mut hurried = options(1);
    hurried.idle_timeout = Duration::from_millis(300);
    let victim = Node::start(hurried).await;
    let raw = Raw::speaking(KADEMLIA).await;
    let mut stream = raw.open(victim.peer()).await;
    // A request first, so that it is one of those that may be reused.
    let response = find_node(&mut stream, b"k").await;
    assert!(!response.is_empty());
    let read = within("it is closed", stream.read(&mut [0])).await.unwrap();
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    let alone = || async { (victim.dht.status().connected_peers == 0).then_some(()) };
    until("the connection is gone", alone).await.unwrap();
    raw.stop().await;
}

/// Asks in the words of Kademlia for the nodes nearest to `key`.
async fn find_node(stream: &mut libp2p::Stream, key: &[u8]) -> Vec<u8> {
    // A message with its length in front: field 1 is the kind, 4 for FIND_NODE, field 2 the key.
    let body = [&[0x08, 4, 0x12, key.len() as u8], key].concat();
    let message = [&[body.len() as u8], &body[..]].concat();
    stream.write_all(&message).await.unwrap();
    stream.flush().await.unwrap();
    let (mut length, mut shift) = (0_usize, 0);
    loop {
        let mut byte = [0];
        stream.read_exact(&mut byte).await.unwrap();
        length |= usize::from(byte[0] & 0x7f) << shift;
        shift += 7;
        if byte[0] < 0x80 {
            break;
        }
    }
    let mut response = vec![0; length];
    stream.read_exact(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn where_the_operator_says_that_a_peer_is_strangers_do_not_hear() {
    let hidden = Node::start(options(1)).await;
    let mut global = options(2);
    global.allow_non_global = false;
    global.bootstrap = vec![hidden.place()];
    let node = Node::start(global).await;
    let connected = || async { (node.dht.status().connected_peers == 1).then_some(()) };
    until("the node has joined", connected).await.unwrap();
    // Also in the routing table: it answers for those whom it knows.
    let asked = || async { node.dht.request(&hidden.peer(), &key("k")).await.ok() };
    until("the peer answers", asked).await.unwrap();

    let raw = Raw::speaking(KADEMLIA).await;
    let mut stream = raw.open(node.peer()).await;
    let hears = |response: &[u8], what: &[u8]| response.windows(what.len()).any(|it| it == what);
    let response = find_node(&mut stream, b"k").await;
    let name = hidden.name().to_bytes();
    assert!(hears(&response, &name), "the peer is named");
    let place: libp2p::Multiaddr = hidden.peer().addresses[0].parse().unwrap();
    assert!(!hears(&response, place.as_ref()), "{place} is told");
    raw.stop().await;
}

/// A node that asks one peer as much as it likes.
async fn eager(seed: u8) -> Node {
    let mut eager = options(seed);
    eager.max_outbound_requests_per_peer = 200;
    Node::start(eager).await
}

type Asked<'a> = FuturesUnordered<BoxFuture<'a, Result<Response, RequestError>>>;

/// Asks thirty requests at once and waits until all but those that are let in are refused.
async fn flood<'a>(
    node: &'a Node,
    peer: &'a Peer,
    key: &'a RecordKey,
    let_in: usize,
) -> (usize, Asked<'a>) {
    let mut asked: Asked<'_> = (0..30).map(|_| node.dht.request(peer, key)).collect();
    let mut refused = 0;
    while asked.len() > let_in {
        let answer = asked.next().await.unwrap();
        assert_eq!(answer, Err(RequestError::Refused));
        refused += 1;
    }
    (refused, asked)
}

#[tokio::test]
async fn a_flood_of_requests_is_refused_as_busy_and_costs_little() {
    let mut bounded = options(1);
    (
        bounded.max_inbound_requests,
        bounded.max_inbound_requests_per_peer,
    ) = (3, 2);
    let victim = Node::start(bounded).await;
    victim.mine.stall();
    let (one, two) = (eager(2).await, eager(3).await);
    let (peer, key) = (victim.peer(), key("k"));

    let (refused, _held) = within("the flood ebbs", flood(&one, &peer, &key, 2))
        .await
        .unwrap();
    assert_eq!(refused, 28);
    let (refused, _held_too) = within("the flood ebbs", flood(&two, &peer, &key, 1))
        .await
        .unwrap();
    assert_eq!(refused, 29);

    let counters = victim.dht.status().counters;
    assert_eq!((counters.questions_total, counters.busy_total), (60, 57));
    let tasks = victim.group.status();
    let answering = tasks.iter().find(|task| task.kind == "answer").unwrap();
    assert_eq!(answering.running, 3);
}

#[tokio::test]
async fn streams_without_a_request_do_not_block_others() {
    let mut bounded = options(1);
    (
        bounded.max_inbound_requests,
        bounded.max_inbound_requests_per_peer,
    ) = (2, 2);
    bounded.inbound_request_timeout = Duration::from_secs(600);
    let victim = Node::start(bounded).await;
    let (silent, other) = (Node::start(options(2)).await, Node::start(options(3)).await);
    let peer = address::id(&victim.name()).unwrap();
    let places = silent.dht.addresses(&victim.peer());
    let mut streams = Vec::new();
    for _ in 0..40 {
        streams.push(silent.dht.open(peer, places.clone()).await.unwrap());
    }
    let taken = || async { (victim.dht.status().counters.questions_total == 40).then_some(()) };
    until("all are taken in", taken).await.unwrap();
    assert!(other.dht.request(&victim.peer(), &key("k")).await.is_ok());

    // They are given up soon, and those above one peer's number are at once.
    for mut stream in streams {
        let read = within("it is closed", stream.read(&mut [0])).await.unwrap();
        assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    }
    let counters = victim.dht.status().counters;
    assert_eq!(counters.busy_total + counters.broken_total, 40);
}

#[tokio::test]
async fn a_peer_that_reads_nothing_of_its_response_is_given_up() {
    let mut bounded = options(1);
    bounded.max_inbound_requests = 1;
    bounded.inbound_request_timeout = Duration::from_secs(600);
    let victim = Node::start(bounded).await;
    let (deaf, other) = (Node::start(options(2)).await, Node::start(options(3)).await);
    victim.mine.has(&key("large"), vec![0; limits::VALUE_BYTES]);
    let peer = address::id(&victim.name()).unwrap();
    let places = deaf.dht.addresses(&victim.peer());
    let mut stream = deaf.dht.open(peer, places).await.unwrap();
    codec::write_request(&mut stream, &key("large"))
        .await
        .unwrap();
    let refused = || async {
        let asked = other.dht.request(&victim.peer(), &key("k")).await;
        (asked == Err(RequestError::Refused)).then_some(())
    };
    until("the answer is at work", refused).await.unwrap();
    let answered = || async { other.dht.request(&victim.peer(), &key("k")).await.ok() };
    until("there is room again", answered).await.unwrap();
    assert_eq!(victim.dht.status().counters.broken_total, 1);
}

#[tokio::test]
async fn a_peer_that_opens_too_many_streams_loses_its_connection_and_may_come_again() {
    let (victim, one) = (Node::start(options(1)).await, eager(2).await);
    let (peer, key) = (victim.peer(), key("k"));
    one.dht.request(&peer, &key).await.unwrap();
    let asked = join_all((0..200).map(|_| one.dht.request(&peer, &key)));
    let asked = within("all end", asked).await.unwrap();
    assert!(asked.contains(&Err(RequestError::Transient)));
    let again = || async { one.dht.request(&peer, &key).await.ok() };
    until("the peer answers again", again).await.unwrap();
}
