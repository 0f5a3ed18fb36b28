//! Data that no URL of an announcement has, found through the network.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{WorkTree, until_ok};
use serde_json::Value;

use crate::resolve::net::{self, Repo};

#[tokio::test]
async fn data_whose_urls_are_all_dead_comes_from_a_node_that_nobody_named() -> Result<()> {
    let nodes = net::start(2).await?;
    let (there, here) = (&nodes[0], &nodes[1]);
    let repo = Repo::new()?;
    repo.0.publish(there, 20).await?;
    let id = repo.id(there).await?;
    repo.is_found(here, &id).await?;

    // A later word of the owner, which names this node, and a host where nobody is.
    let dead = format!("http://127.0.0.9:1/{}/x.git", repo.0.project.owner.npub());
    let mut relay = here.connect().await?;
    relay
        .publish_ok(&repo.0.announcement(&[here], &[dead]))
        .await?;
    let state = repo.0.state(5);
    let answer = relay.publish(&state).await?;
    ensure!(answer.is_held(), "not held: {answer:?}");
    let served = until_ok("the state is served", async || {
        Ok(relay.serves(&state.id).await?.then_some(()))
    });
    served.await.with_context(|| here.log())?;
    let clone = WorkTree::clone(&repo.0.url(here), &[]).await?;
    ensure!(clone.tip("HEAD")? == repo.0.tip);

    // By the owner's last word the other node has nothing; it is known by what it says itself.
    let name = net::peer(0)?;
    let known = until_ok("the other node provides it", async || {
        let path = format!("/providers/{}?fresh=true", repo.key());
        let ranked = here.json(&path).await?;
        let providers = ranked["providers"].as_array().context("no list")?;
        let is_there =
            |it: &&Value| it["url"] == repo.0.url(there) && it["named_by"]["node"] == name;
        let there = providers.iter().find(is_there);
        // Its data came from there: it is known as a host that answers, and how soon.
        let why = there.and_then(|it| it["why"].as_str()).unwrap_or_default();
        let is_known = why.contains("answered ") && why.contains("responds after ");
        Ok(is_known.then_some(()))
    });
    known.await.with_context(|| here.log())
}
