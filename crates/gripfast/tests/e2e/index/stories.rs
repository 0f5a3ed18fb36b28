//! The index as operators and archivists see it.

use anyhow::{Result, ensure};
use grip_testkit::{
    FakeGitHub, Node, PostgresServer,
    github::{Limits, Setup},
    until,
};
use serde_json::Value;

use crate::{
    BINARY,
    index::scene::{Module, in_feed, lines},
};

#[tokio::test]
async fn a_repository_that_is_withdrawn_leaves_the_feed() -> Result<()> {
    let node = Node::start(BINARY).await?;
    let mut module = Module::announce(&node, "brief").await?;
    module
        .tags
        .insert("v1.0.0".into(), module.tree.tip("main")?);
    module.publish(&node).await?;
    in_feed(&node, &module.path(), "v1.0.0").await?;
    let gone = module.owner.delete_address(30617, "brief");
    node.connect().await?.publish_ok(&gone).await?;
    until("the feed is empty again", || async {
        let (lines, _) = lines(&node, "/index").await.ok()?;
        lines.is_empty().then_some(())
    })
    .await?;
    let (changes, _) = lines(&node, "/index/changes").await?;
    let ops: Vec<&Value> = changes.iter().map(|line| &line["Op"]).collect();
    ensure!(ops == ["added", "removed"], "{changes:?}");
    let listed = node.get(&format!("/go/{}/@v/list", module.path())).await?;
    ensure!(listed.starts_with("HTTP/1.1 404"), "{listed}");
    Ok(())
}

#[tokio::test]
async fn two_nodes_on_one_postgres_index_an_organisation_once() -> Result<()> {
    let enterprise = Setup {
        base: "/api/v3".into(),
        limits: Limits {
            unmetered: true,
            ..Limits::default()
        },
        ..Setup::default()
    };
    let github = FakeGitHub::with("127.0.0.77", enterprise).await?;
    github.fill("acme", 40, 2);
    let place = github.api().replace("api/v3/", "orgs/acme");
    let limits = format!("{}=20/100000", github.domain());
    let server = PostgresServer::durable().await?;
    let settings = [
        ("DATABASE_URL", server.url()),
        ("GRIPFAST_INDEX_GITHUB", place),
        ("GRIPFAST_SYNC_HOST_LIMITS", limits),
    ];
    let settings: Vec<(&str, &str)> = settings.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let (one, two) = tokio::try_join!(
        Node::start_with(BINARY, &settings),
        Node::start_with(BINARY, &settings)
    )?;
    let feeds = [&one, &two];
    for node in feeds {
        until(
            "all versions of the organisation are in the feed",
            || async {
                let (lines, _) = lines(node, "/index").await.ok()?;
                (lines.len() == 80).then_some(())
            },
        )
        .await?;
    }
    let requests = github.requests();
    let mut listings = requests
        .iter()
        .filter(|request| request.path.ends_with("/tags"))
        .map(|request| request.path.clone())
        .collect::<Vec<_>>();
    let asked = listings.len();
    listings.sort();
    listings.dedup();
    ensure!(
        (listings.len(), asked) == (40, 40),
        "{asked} for {}",
        listings.len()
    );
    Ok(())
}
