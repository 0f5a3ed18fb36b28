use anyhow::{Result, ensure};
use grip_testkit::{LocalProject, PostgresServer, until_ok};

use crate::postgres::scene::{prepare, start, status};

#[tokio::test]
async fn a_state_waits_through_a_crash_until_its_push_comes() -> Result<()> {
    let server = PostgresServer::durable().await?;
    let mut node = start(&server).await?;
    let local = LocalProject::new("x")?;
    let (announcement, state) = (local.project.announcement(&[&node], &[]), local.state(5));
    let mut relay = node.connect().await?;
    for event in [&announcement, &state] {
        let answer = relay.publish(event).await?;
        ensure!(answer.is_held(), "{answer:?}");
    }
    ensure!(
        !node.data_dir().join("gripfast.sqlite").exists(),
        "nothing is kept beside the server"
    );
    node.crash_and_restart().await?;
    for event in [&announcement, &state] {
        ensure!(status(&node, event).await? == "held");
    }
    local.push(&node).await?;
    let mut relay = node.connect().await?;
    for event in [&announcement, &state] {
        ensure!(relay.serves(&event.id).await?, "{}", node.log());
    }
    node.crash_and_restart().await?;
    let mut relay = node.connect().await?;
    ensure!(relay.serves(&state.id).await?);
    ensure!(node.stop().await?.success(), "{}", node.log());
    ensure!(!node.log().contains("panicked"), "{}", node.log());
    Ok(())
}

#[tokio::test]
async fn a_released_tag_is_in_the_feed_and_leaves_it_with_the_tag() -> Result<()> {
    let server = PostgresServer::start().await?;
    let node = start(&server).await?;
    let local = LocalProject::module("x")?;
    let (tip, tree) = (&local.tip, &local.tree);
    let mut relay = node.connect().await?;
    let announcement = local.announcement(&[&node], &[]);
    ensure!(relay.publish(&announcement).await?.is_held());
    let refs = [("refs/heads/main", &**tip), ("refs/tags/v1.2.3", tip)];
    let state = |refs, age| local.state_at(refs, age);
    ensure!(relay.publish(&state(&refs, 20)).await?.is_held());
    tree.git(["tag", "v1.2.3"])?;
    tree.push_ok(&local.url(&node), &["main", "v1.2.3"]).await?;
    let listed = async |wanted: bool| {
        until_ok("the feed has it, or has it no more", async || {
            let feed = node.get("/index").await?;
            Ok((feed.contains("\"v1.2.3\"") == wanted).then_some(feed))
        })
        .await
    };
    listed(true).await?.must_be(200, &[&local.module_path()]);
    ensure!(relay.publish(&state(&refs[..1], 10)).await?.accepted);
    listed(false).await?;
    Ok(())
}

#[tokio::test]
async fn the_password_is_in_no_log_and_no_answer() -> Result<()> {
    let server = PostgresServer::start().await?;
    let mut node = prepare(&server, &[("NGIT_LOG_LEVEL", "debug")])?;
    let url = server.url().replace("gripfast@", "gripfast:s3cret@");
    node.set_env("DATABASE_URL", &url);
    node.launch().await?;
    ensure!(node.log().contains("127.0.0.1"), "{}", node.log());
    ensure!(!node.log().contains("s3cret"), "{}", node.log());
    node.kill();
    node.set_env("DATABASE_URL", &url.replace("/postgres", "/elsewhere"));
    node.spawn()?;
    ensure!(!node.wait().await?.success());
    ensure!(node.log().contains("no such database"), "{}", node.log());
    ensure!(!node.log().contains("s3cret"), "{}", node.log());
    Ok(())
}
