//! The node is killed between the steps of taking an event in.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{FakeGitHub, Node, until, within};
use serde_json::Value;

use crate::watch::scene::{deliver, push, pushes, signed_push, watching};

/// Between the event and its job, between both and their commit, and between what follows from it
/// and the end of its job.
const POINTS: &[&str] = &[
    "ingest.event.saved",
    "ingest.event.enqueued",
    "ingest.enrichment.enqueued",
];

async fn github(address: &str) -> Result<FakeGitHub> {
    let github = FakeGitHub::enterprise(address, true).await?;
    for person in ["jo", "al"] {
        github.add_user(person);
    }
    Ok(github)
}

/// Each push is a row, all work is done, and each was asked for: by one call, where the kill did
/// not come between the call and its end.
async fn is_whole(node: &Node, expected: &[String]) -> Result<()> {
    until("everything is there, once", || async {
        let status = node.json("/api/v1/github/status").await.ok()?;
        let stats = node.json("/api/v1/github/stats").await.ok()?;
        let is_idle = |kind: &Value| {
            let is_ours = kind["kind"] != "ingest-poll" && kind["kind"] != "ingest-retention";
            let left = ["due", "waiting", "leased", "dead"].map(|state| kind[state].as_i64());
            !is_ours || left.iter().all(|count| *count == Some(0))
        };
        let is_idle = status["work"].as_array()?.iter().all(is_idle);
        let is_known = stats["users"] == 2
            && stats["repositories"] == 2
            && stats["pushes_total"] == expected.len();
        let kept = pushes(node).await.ok()?;
        (is_idle && is_known && kept == expected).then_some(())
    })
    .await
    .with_context(|| format!("log:\n{}", node.log()))
}

/// How many pushes the node tells of; none if it does not answer.
async fn kept(node: &Node) -> usize {
    pushes(node).await.map_or(0, |kept| kept.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_is_read_while_the_node_dies_is_kept_whole_and_once() -> Result<()> {
    for (number, point) in POINTS.iter().enumerate() {
        for hit in 1..=2 {
            let github = github(&format!("127.0.0.{}", 94 + number)).await?;
            let mut expected = Vec::new();
            for (person, repository) in [("jo", "acme/one"), ("al", "acme/two"), ("jo", "acme/two")]
            {
                expected.push(push(&github, person, repository)?);
            }
            let fault = format!("{point}:{hit}");
            let mut node = watching(&github, &[("GRIPFAST_FAULT", &fault)])?;
            node.spawn()?;
            if hit == 2 {
                // A second look at the list has something to keep, too.
                within("the first look was kept, or the node died of it", async {
                    while node.is_running() && kept(&node).await < 3 {
                        tokio::task::yield_now().await;
                    }
                })
                .await?;
                expected.push(push(&github, "al", "acme/one")?);
            }
            node.died().await.context(fault.clone())?;
            node.remove_env("GRIPFAST_FAULT");
            node.crash_and_restart().await?;
            is_whole(&node, &expected).await.context(fault)?;
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_the_node_dies_of_is_delivered_again_and_kept_once() -> Result<()> {
    for (number, point) in POINTS.iter().enumerate() {
        let github = github(&format!("127.0.0.{}", 97 + number)).await?;
        let fault = format!("{point}:1");
        let mut node = watching(&github, &[("GRIPFAST_FAULT", &fault)])?;
        node.launch().await?;
        let (body, right) = signed_push();
        let answered = deliver(&node, "d-1", "push", &body, Some(&right)).await;
        node.died().await.context(fault)?;
        node.remove_env("GRIPFAST_FAULT");
        node.crash_and_restart().await?;
        if answered.is_ok() {
            // What was answered for is there without being told again.
            until("the push is kept", || async {
                (pushes(&node).await.ok()? == ["delivery d-1"]).then_some(())
            })
            .await?;
        }
        for _ in 0..2 {
            let status = deliver(&node, "d-1", "push", &body, Some(&right)).await?;
            ensure!((200..300).contains(&status), "{point}: {status}");
        }
        ensure!(pushes(&node).await? == ["delivery d-1"], "{point}");
        let stats = node.json("/api/v1/github/stats").await?;
        ensure!(stats["pushes_total"] == 1, "{point}: {stats}");
    }
    Ok(())
}
