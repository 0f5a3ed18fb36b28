//! The index as operators and archivists see it.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use grip_testkit::{FakeGitHub, Node, PostgresServer, until_ok};
use serde_json::Value;

use crate::{
    BINARY,
    index::scene::{Module, lines},
};

#[tokio::test]
async fn a_repository_that_is_withdrawn_leaves_the_feed() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let mut module = Module::announce(&node, "brief").await?;
    let tip = module.local.tree.tip("main")?;
    module.release(&node, "v1.0.0", tip).await?;
    let gone = module.local.owner.delete_address(30617, "brief");
    node.connect().await?.publish_ok(&gone).await?;
    until_ok("the feed is empty again", async || {
        let (lines, _) = lines(&node, "/index").await?;
        Ok(lines.is_empty().then_some(()))
    })
    .await?;
    let (changes, _) = lines(&node, "/index/changes").await?;
    let ops: Vec<&Value> = changes.iter().map(|line| &line["Op"]).collect();
    ensure!(ops == ["added", "removed"], "{changes:?}");
    let listed = node.get(&format!("/go/{}/@v/list", module.path())).await?;
    listed.must_be(404, &[]);
    Ok(())
}

#[tokio::test]
async fn two_nodes_on_one_postgres_index_an_organisation_once() -> Result<()> {
    let github = FakeGitHub::enterprise("127.0.0.77", true).await?;
    github.fill("acme", 40, 2);
    let server = PostgresServer::durable().await?;
    let settings = [
        ("DATABASE_URL", server.url()),
        ("GRIPFAST_INDEX_GITHUB", github.place("/orgs/acme")),
        ("GRIPFAST_SYNC_HOST_LIMITS", github.wide_limits()),
    ];
    let settings: Vec<(&str, &str)> = settings.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let (one, two) = tokio::try_join!(
        Node::start_with(BINARY, &settings),
        Node::start_with(BINARY, &settings)
    )?;
    for node in [&one, &two] {
        until_ok("all versions of the organisation", async || {
            let (lines, _) = lines(node, "/index").await?;
            Ok((lines.len() == 80).then_some(()))
        })
        .await?;
    }
    let requests = github.requests();
    let listings = requests.iter().map(|request| &request.path);
    let listings: Vec<_> = listings.filter(|path| path.ends_with("/tags")).collect();
    let each: BTreeSet<_> = listings.iter().collect();
    ensure!((listings.len(), each.len()) == (40, 40), "{listings:?}");
    Ok(())
}
