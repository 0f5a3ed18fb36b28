//! The way into the network without a list of peers.

use anyhow::{Result, ensure};
use grip_testkit::{Node, until_ok};

use crate::{BINARY, resolve::net};

#[tokio::test]
async fn a_node_finds_peers_through_a_relay_it_follows_and_again_by_those_it_saved() -> Result<()> {
    let (mut there, address) = net::prepare(0)?;
    there.launch().await?;
    let (mut here, _) = net::prepare(1)?;
    here.set_env("NGIT_SYNC_BOOTSTRAP_RELAY_URL", &there.relay_url());
    here.launch().await?;
    net::knows(&here, 1).await?;
    let accept = [("accept", "application/nostr+json")];
    let document = there.ask("GET", "/", &accept, b"").await?.json()?;
    ensure!(document["dht"][0] == address.as_str(), "{document}");

    // Without the relay, by the file alone.
    let file = here.data_dir().join("dht-peers");
    let saved = until_ok("the peer is saved", async || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        Ok(text.contains(&address).then_some(()))
    });
    saved.await?;
    ensure!(here.stop().await?.success());
    here.remove_env("NGIT_SYNC_BOOTSTRAP_RELAY_URL");
    here.launch().await?;
    net::knows(&here, 1).await
}

#[tokio::test]
async fn a_node_that_nobody_can_dial_says_so_and_what_to_do() -> Result<()> {
    // It listens on loopback alone, in a network of public addresses.
    let settings = [
        ("GRIPFAST_DHT_ENABLED", "true"),
        ("GRIPFAST_DHT_LISTEN", "/ip4/127.0.0.1/tcp/0"),
        // A name that cannot be used stops no start.
        ("GRIPFAST_DHT_EXTERNAL", "/dns4/localhost/tcp/7335"),
    ];
    let node = Node::start_with(BINARY, &settings).await?;
    until_ok("it is noticed", async || {
        let status = node.json("/api/v1/resolve").await?;
        Ok((status["network"]["reachability"] == "no_address").then_some(()))
    })
    .await?;
    let log = node.log();
    for said in [
        "/dns4/localhost/tcp/7335 leads to no address that other nodes would dial",
        "none can dial it: name the public address and port in dht_external",
    ] {
        ensure!(log.contains(said), "{said}: {log}");
    }
    let page = node.get("/resolver").await?;
    page.must_be(200, &["Other nodes cannot dial this one", "dht_external"]);
    Ok(())
}
