//! Peers of earlier runs, and whether others can dial us.

use grip_testkit::until;

use super::support::{Node, options};
use crate::{Dht as _, Reachability};

#[tokio::test]
async fn a_node_finds_its_way_back_by_the_peers_of_its_last_run() {
    let first = Node::start(options(1)).await;
    let second = Node::joining(2, &first).await;
    let saved = second.dht.good_peers(16).await;
    assert_eq!(saved, [first.place()]);
    second.stop().await;

    // Without a peer to begin with.
    let again = Node::start(options(2)).await;
    assert_eq!(again.dht.meet(&saved).await, 1);
    again.knows(1).await;
    let dialled = until("the first was dialled", || async {
        let status = first.dht.status();
        (status.reachability == Reachability::Dialled).then_some(status)
    });
    assert!(dialled.await.unwrap().counters.inbound_total >= 2);
    assert_eq!(again.dht.status().counters.inbound_total, 0);
}

#[tokio::test]
async fn a_peer_at_an_address_that_may_not_be_dialled_is_not_met() {
    let mut open = options(1);
    open.allow_non_global = false;
    let node = Node::start(open).await;
    let name = "12D3KooWPjceQrSwdWXPyLLeABRXmuqt69Rg3sBYbU1Nft9HyQ6X";
    let named = [
        "/ip4/127.0.0.1/tcp/1",
        "/ip4/10.0.0.1/tcp/1",
        "/dns4/a.example/tcp/1",
    ];
    let named = named.map(|at| format!("{at}/p2p/{name}"));
    assert_eq!(node.dht.meet(&named).await, 0);
    assert_eq!(node.dht.status().counters.addresses_refused_total, 3);
    // It listens on loopback alone, of which nobody outside can be told.
    let told = until("it has no address to tell", || async {
        let reachability = node.dht.status().reachability;
        (reachability == Reachability::NoAddress).then_some(())
    });
    told.await.unwrap();
}
