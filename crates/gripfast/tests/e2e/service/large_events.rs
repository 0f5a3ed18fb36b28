//! Events as large as ngit-grasp can be told to take.

use anyhow::{Result, ensure};
use grip_testkit::{Author, LocalProject, Node, RelayClient, events::tag, until_ok};
use nostr::prelude::Event;
use serde_json::json;

use crate::BINARY;

/// As operators of ngit-grasp bring it.
const LARGE: (&str, &str) = ("NGIT_RELAY_MAX_EVENT_SIZE_BYTES", "5242880");

/// Settings under which relays on this machine are followed.
const NEAR: &[(&str, &str)] = &[
    ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
    ("NGIT_SYNC_BASE_BACKOFF_SECS", "1"),
    ("NGIT_SYNC_MAX_BACKOFF_SECS", "1"),
];

/// An issue whose JSON has `bytes`, or a few less.
fn issue(project: &LocalProject, bytes: usize) -> Event {
    let tags = vec![tag(["a", &project.coordinate()]), tag(["subject", "long"])];
    let text = "so it goes ".repeat(bytes / 11 - 64);
    Author::new().sign(1621, &text, tags)
}

async fn max_message_length(node: &Node) -> Result<u64> {
    let accept = [("accept", "application/nostr+json")];
    let about = node.ask("GET", "/", &accept, b"").await?.json()?;
    let length = about["limitation"]["max_message_length"].as_u64();
    Ok(length.unwrap_or_default())
}

/// What a client hears of a message that the relay does not read to its end.
async fn notice(relay: &mut RelayClient, event: &Event) -> Result<String> {
    relay.send(json!(["EVENT", event])).await?;
    let notice = relay.expect("a notice", |it| it[0] == "NOTICE").await?;
    Ok(notice[1].as_str().unwrap_or_default().to_owned())
}

#[tokio::test]
async fn an_event_of_the_chosen_size_is_taken_served_and_followed_and_a_larger_one_is_told_why()
-> Result<()> {
    let project = LocalProject::new("tides")?;
    let node = Node::start_with(BINARY, &[NEAR, &[LARGE]].concat()).await?;
    let other = Node::start_with(BINARY, &[NEAR, &[LARGE]].concat()).await?;
    // Takes none of this size, and follows relays that do.
    let usual = Node::start_with(BINARY, NEAR).await?;
    ensure!(max_message_length(&node).await? > 5 << 20);
    let nodes = [&node, &other, &usual];
    let announced = project.announcement(&nodes, &[]);
    for node in nodes {
        node.connect().await?.publish_ok(&announced).await?;
    }
    let mut relay = node.connect().await?;
    relay.publish_ok(&project.state(0)).await?;
    project.push(&node).await?;
    let mut reader = node.connect().await?;
    let sub = reader.subscribe(&[json!({"kinds": [1621]})]).await?;
    ensure!(reader.stored(&sub).await?.is_empty());
    let large = issue(&project, 4_718_592);
    ensure!(serde_json::to_vec(&large)?.len() > 4_600_000);
    relay.publish_ok(&large).await?;
    ensure!(reader.live(&sub).await? == large);
    let found = json!({"ids": [large.id]});
    ensure!(reader.query(&[found]).await? == std::slice::from_ref(&large));
    // A few of them in one go are no slow reader.
    for _ in 0..3 {
        relay.publish_ok(&issue(&project, 4_718_592)).await?;
    }
    for _ in 0..3 {
        reader.live(&sub).await?;
    }
    let told = relay.publish(&issue(&project, 5_243_500)).await?;
    ensure!(!told.accepted, "{told:?}");
    ensure!(
        told.message == "invalid: an event of kind 1621 has at most 5242880 bytes here",
        "{told:?}"
    );
    // Those who follow the relay get it, or go on without.
    let mut relay = other.connect().await?;
    until_ok("the other serves it too", async || {
        Ok(relay.serves(&large.id).await?.then_some(()))
    })
    .await?;
    let small = issue(&project, 2_000);
    node.connect().await?.publish_ok(&small).await?;
    let mut relay = usual.connect().await?;
    until_ok("the usual one follows on", async || {
        Ok(relay.serves(&small.id).await?.then_some(()))
    })
    .await?;
    ensure!(!relay.serves(&large.id).await?);
    Ok(())
}

#[tokio::test]
async fn by_default_large_events_are_refused_with_the_size_that_is_taken() -> Result<()> {
    let project = LocalProject::new("tides")?;
    let node = Node::start(BINARY).await?;
    ensure!(max_message_length(&node).await? == 2 << 20);
    project.publish(&node, 0).await?;
    let mut relay = node.connect().await?;
    let told = relay.publish(&issue(&project, 1 << 20)).await?;
    ensure!(!told.accepted, "{told:?}");
    ensure!(
        told.message == "invalid: an event of kind 1621 has at most 196608 bytes here",
        "{told:?}"
    );
    let told = notice(&mut relay, &issue(&project, 4_718_592)).await?;
    ensure!(
        told == "invalid: a message was longer than this relay takes (NIP-11: max_message_length)",
        "{told}"
    );
    ensure!(
        node.connect()
            .await?
            .query(&[json!({"kinds": [1621]})])
            .await?
            .is_empty()
    );
    Ok(())
}
