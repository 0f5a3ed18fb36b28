use anyhow::{Result, ensure};
use grip_testkit::{LocalProject, PostgresServer, http::must_contain};

use crate::postgres::scene::{prepare, start, status};

#[tokio::test]
async fn nodes_on_one_server_do_not_see_what_the_other_holds() -> Result<()> {
    let server = PostgresServer::start().await?;
    let (mut one, mut other) = (start(&server).await?, start(&server).await?);
    let local = LocalProject::new("x")?;
    let announcement = local.project.announcement(&[&one], &[]);
    ensure!(one.connect().await?.publish(&announcement).await?.is_held());
    ensure!(status(&one, &announcement).await? == "held");
    ensure!(status(&other, &announcement).await? == "unknown");
    // The same event may be held by both, and ends with each on its own.
    one.crash_and_restart().await?;
    other.crash_and_restart().await?;
    ensure!(status(&one, &announcement).await? == "held");
    ensure!(status(&other, &announcement).await? == "unknown");
    let theirs = local.project.announcement(&[&other], &[]);
    ensure!(other.connect().await?.publish(&theirs).await?.is_held());
    let state = local.state(5);
    for node in [&one, &other] {
        ensure!(node.connect().await?.publish(&state).await?.is_held());
    }
    local.push(&one).await?;
    ensure!(one.connect().await?.serves(&state.id).await?);
    ensure!(status(&other, &state).await? == "held");
    Ok(())
}

#[tokio::test]
async fn a_second_process_with_the_same_name_is_turned_away() -> Result<()> {
    let server = PostgresServer::start().await?;
    let mut first = prepare(&server, &[("GRIPFAST_NODE_NAME", "harbour-1")])?;
    first.launch().await?;
    let mut second = prepare(&server, &[("GRIPFAST_NODE_NAME", "harbour-1")])?;
    second.spawn()?;
    ensure!(!second.wait().await?.success());
    let told = second.log();
    must_contain(&told, &["calls itself \"harbour-1\"", "node_name"]);
    // The first does not mind, and its name is free as soon as it has gone.
    first.get("/readyz").await?.must_be(200, &[]);
    first.kill();
    second.launch().await
}

#[tokio::test]
async fn a_node_without_a_name_keeps_the_one_it_made() -> Result<()> {
    let server = PostgresServer::start().await?;
    let mut node = start(&server).await?;
    let file = node.data_dir().join("node.name");
    let name = std::fs::read_to_string(&file)?;
    ensure!(name.starts_with("node-"), "{name}");
    node.crash_and_restart().await?;
    ensure!(std::fs::read_to_string(&file)? == name);
    Ok(())
}
