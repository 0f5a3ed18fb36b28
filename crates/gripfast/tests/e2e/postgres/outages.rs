use anyhow::{Result, ensure};
use grip_testkit::{Author, Node, PostgresServer, Response, http::must_contain, until};
use nostr::prelude::Event;

use crate::postgres::scene::{start, status};

async fn readiness(node: &Node, ready: bool) -> Result<Response> {
    until("the node says how it stands", || async {
        let answer = node.get("/readyz").await.ok()?;
        ((answer.status == 200) == ready).then_some(answer)
    })
    .await
}

#[tokio::test]
async fn without_its_database_a_node_says_so_refuses_and_recovers() -> Result<()> {
    let mut server = PostgresServer::durable().await?;
    let mut node = start(&server).await?;
    let before = Author::new().announcement(&node.authority(), "x", vec![]);
    ensure!(node.connect().await?.publish(&before).await?.is_held());
    server.kill();
    let answer = readiness(&node, false).await?;
    answer.must_be(503, &["database", "cannot be reached"]);
    let event = Author::new().announcement(&node.authority(), "x", vec![]);
    let refused = node.connect().await?.publish(&event).await?;
    ensure!(!refused.accepted, "{refused:?}");
    ensure!(refused.message.starts_with("error: "), "{refused:?}");
    must_contain(&refused.message, &["the database server cannot be reached"]);
    // What needs no database goes on.
    node.get("/healthz").await?.must_be(200, &[]);
    let everything = [serde_json::json!({})];
    node.connect().await?.query(&everything).await?;

    server.launch().await?;
    readiness(&node, true).await?;
    ensure!(node.connect().await?.publish(&event).await?.is_held());
    node.crash_and_restart().await?;
    for event in [&before, &event] {
        ensure!(status(&node, event).await? == "held");
    }
    Ok(())
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_while_the_server_dies_again_and_again() -> Result<()> {
    let mut server = PostgresServer::durable().await?;
    let mut node = start(&server).await?;
    let mut acknowledged: Vec<Event> = Vec::new();
    let mut refused = 0;
    for round in 0..4 {
        let mut relay = node.connect().await?;
        for n in 0..40 {
            if n == 10 + round * 5 {
                server.kill();
            }
            if n == 30 {
                server.launch().await?;
            }
            let event = Author::new().announcement(&node.authority(), "x", vec![]);
            let answer = relay.publish(&event).await?;
            if answer.accepted {
                acknowledged.push(event);
            } else {
                refused += 1;
            }
        }
        readiness(&node, true).await?;
    }
    ensure!(refused > 0 && acknowledged.len() >= 40, "{refused} refused");
    for event in &acknowledged {
        ensure!(status(&node, event).await? == "held", "in memory");
    }
    node.crash_and_restart().await?;
    for event in &acknowledged {
        let id = event.id;
        ensure!(status(&node, event).await? == "held", "{id} on the server");
    }
    Ok(())
}
