//! Starting, stopping, reloading.

use anyhow::{Result, ensure};
use grip_testkit::{Author, LocalProject, Node, http::must_contain, until, until_true};
use rustix::process::Signal;
use serde_json::json;

use crate::BINARY;

#[tokio::test]
async fn a_term_signal_drains_and_says_so() -> Result<()> {
    let mut node = Node::start(BINARY).await?;
    let mut relay = node.connect().await?;
    let sub = relay.subscribe(&[json!({"kinds": [1]})]).await?;
    relay.stored(&sub).await?;
    let status = node.stop().await?;
    ensure!(status.success(), "{status}\n{}", node.log());
    ensure!(
        node.log().contains("drained"),
        "the log says how it ended:\n{}",
        node.log()
    );
    // The open connection was ended properly, not left hanging.
    while relay.next().await?.is_some() {}
    Ok(())
}

#[tokio::test]
async fn a_second_instance_on_the_same_data_refuses_to_start() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let data = node.data_dir();
    let data = data.to_str().expect("temporary paths are UTF-8");
    let mut second = Node::prepare(BINARY, &[("GRIPFAST_DATA_DIR", data)])?;
    second.spawn()?;
    let status = second.wait().await?;
    ensure!(!status.success());
    ensure!(
        second.log().contains("another"),
        "the log says why:\n{}",
        second.log()
    );
    Ok(())
}

#[tokio::test]
async fn a_hangup_reloads_the_settings_without_dropping_anyone() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let mut relay = node.connect().await?;
    let stranger = Author::new();
    let friend = Author::new();
    relay
        .publish_ok(&stranger.announcement(&node.authority(), "before", vec![]))
        .await?;
    let config = format!("repository_whitelist = [\"{}\"]\n", friend.npub());
    std::fs::write(node.work_dir().join("gripfast.toml"), config)?;
    node.signal(Signal::HUP)?;
    let refused = until("the new settings hold", || async {
        let mut relay = node.connect().await.ok()?;
        let event = stranger.announcement(&node.authority(), &rand_name(), vec![]);
        let answer = relay.publish(&event).await.ok()?;
        (!answer.accepted).then_some(answer.message)
    })
    .await?;
    ensure!(
        refused.starts_with("blocked:") || refused.starts_with("restricted:"),
        "{refused}"
    );
    // The old connection goes on under the new rules.
    relay
        .publish_ok(&friend.announcement(&node.authority(), "after", vec![]))
        .await?;
    // A file that cannot be read keeps the old settings and says why.
    std::fs::write(
        node.work_dir().join("gripfast.toml"),
        "repository_whitelist = 7\n",
    )?;
    node.signal(Signal::HUP)?;
    until_true("the bad file is named", || {
        node.log().contains("gripfast.toml")
    })
    .await?;
    relay
        .publish_ok(&friend.announcement(&node.authority(), "still", vec![]))
        .await?;
    Ok(())
}

fn rand_name() -> String {
    Author::new().hex()[..12].to_owned()
}

#[tokio::test]
async fn what_is_held_can_be_explained() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let local = LocalProject::new("x")?;
    let state = local.announce(&node, 0).await?;
    let stray = local.owner.sign(1, "unrelated", vec![]);
    node.connect().await?.publish(&stray).await?;
    for (subject, parts) in [
        (state.id.to_hex(), ["held", &local.tip]),
        (stray.id.to_hex(), ["refused", "blocked:"]),
        (format!("{}/x", local.owner.npub()), ["held", "x"]),
        ("ab".repeat(32), ["unknown", ""]),
    ] {
        must_contain(&node.explain(&subject).await?.to_string(), &parts);
    }
    Ok(())
}
