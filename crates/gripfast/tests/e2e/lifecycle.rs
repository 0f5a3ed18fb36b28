//! Starting, stopping, reloading.

use anyhow::{Result, ensure};
use grip_testkit::{Author, Node, WorkTree, git, until};
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
async fn a_push_under_way_is_finished_before_the_end() -> Result<()> {
    let mut node = Node::start(BINARY).await?;
    let (owner, tree) = (Author::new(), WorkTree::with_commit()?);
    let mut relay = node.connect().await?;
    relay
        .publish_ok(&owner.announcement(&node.authority(), "x", vec![]))
        .await?;
    let tip = tree.tip("HEAD")?;
    relay
        .publish_ok(&owner.state("x", &[("refs/heads/main", &tip)], None))
        .await?;
    let url = owner.clone_url(&node.authority(), "x");
    let pushed = tree.push(&url, &["main"]).await?;
    ensure!(pushed.ok, "{}", pushed.stderr);
    ensure!(node.stop().await?.success());
    node.launch().await?;
    ensure!(
        git::ls_remote(&url)
            .await?
            .iter()
            .any(|(_, oid)| *oid == tip)
    );
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
    until("the bad file is named", || {
        std::future::ready(node.log().contains("gripfast.toml").then_some(()))
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
async fn probes_tell_the_truth() -> Result<()> {
    let node = Node::start(BINARY).await?;
    for (path, part) in [
        ("/healthz", "200"),
        ("/readyz", "200"),
        ("/version", "version"),
    ] {
        let answer = node.get(path).await?;
        ensure!(
            answer.starts_with("HTTP/1.1 200") && answer.contains(part),
            "{path}: {answer}"
        );
    }
    // A series with labels exists from its first use on.
    let mut relay = node.connect().await?;
    let owner = Author::new();
    relay
        .publish_ok(&owner.announcement(&node.authority(), "x", vec![]))
        .await?;
    git::ls_remote(&owner.clone_url(&node.authority(), "x")).await?;
    let metrics = node.get("/metrics").await?;
    for name in [
        "purgatory_",
        "ngit_websocket_",
        "ngit_git_",
        "ngit_events_",
        "ngit_build_info",
    ] {
        ensure!(metrics.contains(name), "{name} is not exported");
    }
    Ok(())
}

#[tokio::test]
async fn what_is_held_can_be_explained() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let (owner, tree) = (Author::new(), WorkTree::with_commit()?);
    let mut relay = node.connect().await?;
    relay
        .publish_ok(&owner.announcement(&node.authority(), "x", vec![]))
        .await?;
    let tip = tree.tip("HEAD")?;
    let state = owner.state("x", &[("refs/heads/main", &tip)], None);
    relay.publish_ok(&state).await?;
    let held = node
        .get(&format!("/api/v1/explain/{}", state.id.to_hex()))
        .await?;
    ensure!(held.contains("held") && held.contains(&tip), "{held}");
    let stray = owner.sign(1, "unrelated", vec![]);
    relay.publish(&stray).await?;
    let refused = node
        .get(&format!("/api/v1/explain/{}", stray.id.to_hex()))
        .await?;
    ensure!(
        refused.contains("refused") && refused.contains("blocked:"),
        "{refused}"
    );
    let repository = node
        .get(&format!("/api/v1/explain/{}/x", owner.npub()))
        .await?;
    ensure!(repository.contains("held"), "{repository}");
    let unknown = node
        .get(&format!("/api/v1/explain/{}", "ab".repeat(32)))
        .await?;
    ensure!(unknown.contains("unknown"), "{unknown}");
    Ok(())
}
