//! Addresses that must not be used.

use std::{sync::Arc, time::Duration};

use grip_tasks::TaskGroup;
use grip_testkit::until;
use libp2p::identity::Keypair;
use tokio::net::TcpListener;

use super::support::{Mine, Node, Strict, key, options};
use crate::{
    Dht as _, DhtError, Peer, RequestError, kademlia,
    kademlia::{Options, address},
};

async fn refused(options: Options) -> DhtError {
    let group = TaskGroup::new("refused");
    let started = kademlia::start(options, Arc::new(Mine::default()), Arc::new(Strict), &group);
    started.await.err().expect("it does not start")
}

#[tokio::test]
async fn a_node_of_a_lan_takes_no_address_outside_of_it() {
    let lan = || {
        let mut lan = options(1);
        lan.lan_only = true;
        lan
    };
    let name = "12D3KooWPjceQrSwdWXPyLLeABRXmuqt69Rg3sBYbU1Nft9HyQ6X";
    let mut outside = lan();
    outside.bootstrap = vec![format!("/ip4/1.1.1.1/tcp/4001/p2p/{name}")];
    let mut shown = lan();
    shown.external = vec!["/ip4/1.1.1.1/tcp/4001".to_owned()];
    for options in [outside, shown] {
        let error = refused(options).await;
        assert!(matches!(error, DhtError::InvalidAddress { .. }), "{error}");
    }

    let node = Node::start(lan()).await;
    let peer = Peer {
        id: name.parse().unwrap(),
        addresses: vec!["/ip4/1.1.1.1/tcp/4001".to_owned()],
    };
    assert_eq!(
        node.dht.request(&peer, &key("k")).await,
        Err(RequestError::NoRoute)
    );
    assert_eq!(node.dht.status().counters.addresses_refused_total, 1);

    let mut near = options(2);
    near.lan_only = true;
    near.bootstrap = vec![node.place()];
    let near = Node::start(near).await;
    near.knows(1).await;
    node.knows(1).await;
}

/// Two ports where a connection would be seen.
struct Traps(TcpListener, Option<TcpListener>);

impl Traps {
    async fn set() -> Self {
        let six = TcpListener::bind("[::1]:0").await.ok();
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap(), six)
    }

    fn addresses(&self) -> Vec<String> {
        let four = self.0.local_addr().unwrap().port();
        let six = self.1.as_ref();
        let six = six.map_or(9, |six| six.local_addr().unwrap().port());
        vec![
            format!("/ip4/127.0.0.1/tcp/{four}"),
            format!("/ip4/10.0.0.1/tcp/{four}"),
            format!("/ip6/::1/tcp/{six}"),
            format!("/dns4/localhost/tcp/{four}"),
        ]
    }

    /// Whatever is connected shows within this time, as it does for the one that may connect.
    async fn is_untouched(&self) {
        let one = || async { Some(std::net::TcpStream::connect(self.0.local_addr().unwrap())) };
        let own = until("we connect", one).await.unwrap().unwrap();
        let (_, from) = self.0.accept().await.unwrap();
        assert_eq!(from, own.local_addr().unwrap(), "the first to come are we");
        if let Some(six) = &self.1 {
            let own = std::net::TcpStream::connect(six.local_addr().unwrap()).unwrap();
            let (_, from) = six.accept().await.unwrap();
            assert_eq!(from, own.local_addr().unwrap(), "the first to come are we");
        }
    }
}

#[tokio::test]
async fn addresses_of_our_own_network_are_never_dialled_because_a_stranger_named_them() {
    let traps = Traps::set().await;
    let victim_id = Keypair::generate_ed25519().public().to_peer_id();
    let stranger = Node::start(options(1)).await;
    // The stranger names the traps as the addresses of a peer. It would not dial
    // them itself: it is as strict as we are in that.
    let mut liar = options(2);
    liar.allow_non_global = false;
    let liar = Node::start(liar).await;
    let victim = Peer {
        id: address::name(&victim_id).unwrap(),
        addresses: traps.addresses(),
    };
    liar.dht.learn(&victim).await;
    liar.knows(1).await;

    let mut strict = options(3);
    strict.allow_non_global = false;
    strict.bootstrap = vec![liar.place()];
    strict.connect_timeout = Duration::from_secs(2);
    let strict = Node::start(strict).await;
    strict.dht.publish(key("k"), None).await.unwrap();
    let refused = || async {
        let counters = strict.dht.status().counters;
        (counters.addresses_refused_total >= 4).then_some(())
    };
    until("the lookup met the traps", refused).await.unwrap();

    // In an answer they are not even passed on, and named by a caller they are not dialled.
    let response = strict.dht.request(&stranger.peer(), &key("k")).await;
    assert_eq!(response, Err(RequestError::NoRoute));
    let asked = strict.dht.request(&victim, &key("k")).await;
    assert_eq!(asked, Err(RequestError::NoRoute));
    traps.is_untouched().await;
    assert_eq!(strict.dht.status().external, [] as [String; 0]);
}
