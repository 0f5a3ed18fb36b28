use std::{collections::HashSet, net::Ipv4Addr};

use libp2p::{
    core::{Endpoint, transport::PortUse},
    identity::Keypair,
    tcp,
};
use tokio::net::TcpListener;

use super::*;
use crate::kademlia::{
    address::{self, Policy},
    dial_filter::DialFilter,
    stats::Stats,
};

/// Gives every name the same addresses.
struct Same(Vec<IpAddr>);

impl Lookup for Same {
    fn lookup<'a>(&'a self, _: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}

/// Dials `address` where all names lead to `found`, in a network of this kind.
async fn dial(found: &[Ipv4Addr], policy: Policy, address: &str) -> io::Result<()> {
    let tcp = tcp::tokio::Transport::new(tcp::Config::new());
    let own = Keypair::generate_ed25519().public().to_peer_id();
    let stats = Arc::new(Stats::new(address::name(&own).unwrap()));
    let tcp = DialFilter::new(tcp, policy, HashSet::new(), stats);
    let mut transport = HostNames {
        lookup: Arc::new(Same(found.iter().map(|ip| (*ip).into()).collect())),
        ..HostNames::new(tcp, Duration::from_secs(5))
    };
    let options = DialOpts {
        role: Endpoint::Dialer,
        port_use: PortUse::New,
    };
    let dialled = transport.dial(address.parse().unwrap(), options);
    dialled.map_err(io::Error::other)?.await.map(drop)
}

#[tokio::test]
async fn a_name_is_dialled_at_each_of_its_addresses_until_one_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let found = [Ipv4Addr::new(127, 0, 0, 9), Ipv4Addr::LOCALHOST];
    for protocol in ["dns", "dns4"] {
        let address = format!("/{protocol}/a.example/tcp/{port}");
        dial(&found, Policy::Any, &address).await.unwrap();
        listener.accept().await.unwrap();
    }
    let address = format!("/ip4/127.0.0.1/tcp/{port}");
    dial(&[], Policy::Any, &address).await.unwrap();
}

#[tokio::test]
async fn a_name_without_an_address_of_its_kind_is_not_dialled() {
    let error = dial(
        &[Ipv4Addr::LOCALHOST],
        Policy::Any,
        "/dns6/a.example/tcp/4001",
    );
    let error = error.await.unwrap_err();
    assert_eq!(error.to_string(), "a.example has no address of this kind");
}

#[tokio::test]
async fn a_name_that_leads_out_of_the_lan_is_refused() {
    let outside = [Ipv4Addr::new(1, 1, 1, 1)];
    let error = dial(&outside, Policy::Lan, "/dns4/a.example/tcp/4001").await;
    assert_eq!(
        error.unwrap_err().to_string(),
        "a.example leads to /ip4/1.1.1.1/tcp/4001, which is refused"
    );
}
