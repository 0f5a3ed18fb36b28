//! People who begin on this node alone: their profile is taken before anything relates to it.

use anyhow::{Result, ensure};
use grip_testkit::{Author, LocalProject, Node, events::tag, until_ok};
use serde_json::json;

use crate::BINARY;

#[tokio::test]
async fn g03_5_a_newcomer_needs_no_other_relay_and_what_names_a_profile_is_no_better_for_it()
-> Result<()> {
    let mut node = Node::start(BINARY).await?;
    let newcomer = Author::new();
    let profile = newcomer.sign(0, r#"{"name":"Ada"}"#, vec![]);
    let relays = newcomer.sign(10002, "", vec![tag(["r".to_owned(), node.relay_url()])]);
    let mut relay = node.connect().await?;
    for event in [&profile, &relays] {
        relay.publish_ok(event).await?;
        ensure!(relay.serves(&event.id).await?);
    }
    // A profile relates nothing: it would be a licence for any spam.
    let note = Author::new().sign(1, "buy", vec![tag(["e", &profile.id.to_hex()])]);
    let address = format!("0:{}:", newcomer.hex());
    let by_address = Author::new().sign(1, "buy", vec![tag(["a", &address])]);
    let named = Author::new().sign(1, "buy", vec![]);
    let naming = newcomer.sign_at(
        0,
        r#"{"name":"Ada L"}"#,
        vec![tag(["e", &named.id.to_hex()])],
        nostr::prelude::Timestamp::now() + 1,
    );
    relay.publish_ok(&naming).await?;
    for spam in [&note, &by_address, &named] {
        let answer = relay.publish(spam).await?;
        ensure!(!answer.accepted, "{answer:?}");
    }
    // A long one is not taken from somebody unknown.
    let long = Author::new().sign(0, &"x".repeat(20_000), vec![]);
    let answer = relay.publish(&long).await?;
    ensure!(
        !answer.accepted && answer.message.contains("16 KiB"),
        "{answer:?}"
    );
    node.crash_and_restart().await?;
    ensure!(node.connect().await?.serves(&naming.id).await?);
    // The newcomer becomes an owner, and is known by name.
    let mut project = LocalProject::new("tides")?;
    project.project.owner = newcomer;
    project.publish(&node, 5).await?;
    let path = format!("/{}/tides", project.owner.npub());
    until_ok("the page names the owner", async || {
        Ok(node
            .get(&path)
            .await?
            .text()
            .contains("Ada L")
            .then_some(()))
    })
    .await
}

#[tokio::test]
async fn one_network_brings_few_newcomers_and_those_of_others_are_not_fewer_for_it() -> Result<()> {
    // Without a proxy in front, each address of this machine is a network.
    let node = Node::start_with(BINARY, &[("NGIT_TRUSTED_PROXY_CIDRS", "192.0.2.0/24")]).await?;
    let (near, far) = ("127.0.0.21".parse()?, "127.0.0.22".parse()?);
    let port = node.port();
    let mut relay = grip_testkit::RelayClient::connect_from(near, port).await?;
    let mut taken = 0;
    for n in 0..60 {
        let profile = Author::new().sign(0, &json!({ "name": n }).to_string(), vec![]);
        let answer = relay.publish(&profile).await?;
        ensure!(
            answer.accepted || answer.message.starts_with("rate-limited:"),
            "{answer:?}"
        );
        taken += usize::from(answer.accepted);
    }
    ensure!((20..40).contains(&taken), "{taken} were taken");
    let mut other = grip_testkit::RelayClient::connect_from(far, port).await?;
    other
        .publish_ok(&Author::new().sign(0, "{}", vec![]))
        .await?;
    Ok(())
}

/// A profile relates nothing, also while it is not committed yet.
#[tokio::test]
async fn an_event_that_a_profile_of_the_same_moment_names_is_refused() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let mut relay = node.connect().await?;
    for n in 0..20 {
        let (author, spammer) = (Author::new(), Author::new());
        let spam = spammer.sign(1, &format!("buy {n}"), vec![]);
        let naming = author.sign(0, "{}", vec![tag(["e", &spam.id.to_hex()])]);
        let list = author.sign(10317, "", vec![tag(["e", &spam.id.to_hex()])]);
        // All three before any answer, so that they come into one commit.
        for event in [&naming, &list, &spam] {
            relay.send(json!(["EVENT", event])).await?;
        }
        for event in [&naming, &list] {
            relay.answer(&event.id).await?;
        }
        let answer = relay.answer(&spam.id).await?;
        ensure!(!answer.accepted, "{answer:?}");
        ensure!(!relay.serves(&spam.id).await?);
    }
    Ok(())
}
