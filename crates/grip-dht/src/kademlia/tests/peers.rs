//! Peers of earlier runs, and whether others can dial us.

use grip_testkit::until;

use super::support::{Node, key, options};
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
async fn addresses_that_change_are_told_instead_of_those_of_before() {
    let [before, now] = ["/ip4/127.0.0.2/tcp/4001", "/ip4/127.0.0.3/tcp/4001"].map(str::to_owned);
    let mut named = options(1);
    named.external = vec![before.clone()];
    let node = Node::start(named).await;
    let listening = node.peer().addresses;
    assert!(node.dht.status().external.contains(&before));

    let wrong = ["/dns4/a.example/tcp/1".to_owned()];
    assert!(node.dht.set_external(&wrong).await.is_err());
    // One of them is listened on: it stays when it is named no more.
    let both = [now.clone(), listening[0].clone()];
    for addresses in [&both[..], &both[..1]] {
        node.dht.set_external(addresses).await.unwrap();
        let told = until("the new ones are told", || async {
            let external = node.dht.status().external;
            let is_told = external.contains(&now) && external.contains(&listening[0]);
            (is_told && !external.contains(&before)).then_some(())
        });
        told.await.unwrap();
    }
    // Others hear of them.
    let other = Node::joining(2, &node).await;
    node.dht.publish(key("k"), None).await.unwrap();
    let heard = until("the other hears of it", || async {
        let found = other.dht.local_response(&key("k")).await;
        let named = found
            .providers
            .into_iter()
            .find(|it| it.id == node.name())?;
        (named.addresses.contains(&now) && !named.addresses.contains(&before)).then_some(())
    });
    heard.await.unwrap();
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
