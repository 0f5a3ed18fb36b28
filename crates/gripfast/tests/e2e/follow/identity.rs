//! Profile and relay list of the service itself (E-4, E-5).

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Author, Node, RelayClient, events::tag, until_ok};
use nostr::prelude::{Event, Timestamp};
use serde_json::{Value, json};

use crate::BINARY;

/// A service that publishes its identity to `index`.
fn service(index: &Node, own: &Author) -> Result<Node> {
    let nsec = own.keys.secret_key().to_secret_hex();
    let index = index.relay_url();
    let env: &[(&str, &str)] = &[
        ("NGIT_SYNC_PLUS_ENABLED", "true"),
        ("NGIT_SYNC_PLUS_FALLBACK_RELAYS", ""),
        ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
        ("NGIT_USER_INDEX_RELAYS", &index),
        ("NGIT_RELAY_OWNER_NSEC", &nsec),
        ("NGIT_LOG_LEVEL", "info,grip_follow=debug"),
    ];
    Node::prepare(BINARY, env)
}

/// What a relay serves of a key: its profile and its relay list.
async fn identity(relay: &mut RelayClient, own: &Author) -> Result<Option<[Event; 2]>> {
    let filter = json!({ "authors": [own.hex()], "kinds": [0, 10002] });
    let mut found = relay.query(&[filter]).await?;
    found.sort_by_key(|event| event.kind);
    Ok(found.try_into().ok())
}

async fn until_identity(node: &Node, own: &Author) -> Result<[Event; 2]> {
    let mut relay = node.connect().await?;
    until_ok("both are served", async || identity(&mut relay, own).await).await
}

#[tokio::test]
async fn e_5_a_service_stores_its_identity_and_tells_an_index_relay_that_knows_none() -> Result<()>
{
    let (index, own) = (Node::start(BINARY).await?, Author::new());
    let mut node = service(&index, &own)?;
    node.launch().await?;
    let there = until_identity(&index, &own)
        .await
        .with_context(|| node.log())?;
    let here = until_identity(&node, &own).await?;
    ensure!(here == there);
    let [profile, list] = &here;
    let content: Value = serde_json::from_str(&profile.content)?;
    let authority = node.authority();
    let expected = json!({ "name": authority, "bot": true, "nip05": format!("_@{authority}") });
    ensure!(content == expected, "{content}");
    let relays: Vec<_> = list
        .tags
        .iter()
        .map(|tag| tag.as_slice().to_vec())
        .collect();
    ensure!(relays == [["r".to_owned(), node.relay_url()]], "{relays:?}");
    // The next start finds it everywhere and makes nothing.
    node.kill();
    node.launch().await?;
    ensure!(until_identity(&node, &own).await? == here);
    ensure!(until_identity(&index, &own).await? == here);
    Ok(())
}

#[tokio::test]
async fn e_5_an_identity_that_the_operator_made_is_adopted_and_never_overwritten() -> Result<()> {
    let (index, own) = (Node::start(BINARY).await?, Author::new());
    let long_ago = Timestamp::now() - 100_000_u64;
    let made = own.sign_at(0, r#"{"name":"Ada's forge"}"#, vec![], long_ago);
    index.connect().await?.publish_ok(&made).await?;
    let mut node = service(&index, &own)?;
    node.launch().await?;
    let here = until_identity(&node, &own)
        .await
        .with_context(|| node.log())?;
    ensure!(here[0] == made, "{here:?}");
    let there = until_identity(&index, &own).await?;
    ensure!(
        there == here,
        "the list was published, the profile stayed: {there:?}"
    );
    Ok(())
}

/// E-5, G08-14: what a private service says of itself it says to its members.
#[tokio::test]
async fn e_5_a_private_service_publishes_nothing() -> Result<()> {
    let (index, own, member) = (Node::start(BINARY).await?, Author::new(), Author::new());
    let mut node = service(&index, &own)?;
    node.set_env("NGIT_PRIVATE_MODE", "true");
    node.set_env("NGIT_PRIVATE_MEMBERS", &member.npub());
    node.launch().await?;
    let mut relay = node.connect().await?;
    let answer = relay.log_in(&member, &node.relay_url()).await?;
    ensure!(answer.accepted, "{}", answer.message);
    until_ok("members see it", async || identity(&mut relay, &own).await).await?;
    // The work of the start is done by then; a note shows that the index takes what comes.
    let list = member.sign(10317, "", vec![tag(["g", "wss://git.example"])]);
    let mut at_index = index.connect().await?;
    at_index.publish_ok(&list).await?;
    ensure!(identity(&mut at_index, &own).await?.is_none());
    let log = index.log();
    ensure!(!log.contains(&own.hex()), "{log}");
    Ok(())
}
