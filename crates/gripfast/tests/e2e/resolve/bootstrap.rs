//! The way into the network without a list of peers.

use anyhow::{Result, ensure};

use crate::resolve::net;

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
    let saved = grip_testkit::until_ok("the peer is saved", async || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        Ok(text.contains(&address).then_some(()))
    });
    saved.await?;
    ensure!(here.stop().await?.success());
    here.remove_env("NGIT_SYNC_BOOTSTRAP_RELAY_URL");
    here.launch().await?;
    net::knows(&here, 1).await
}
