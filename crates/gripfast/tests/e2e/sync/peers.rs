//! Nodes that list each other end with the same data.

use anyhow::{Result, ensure};
use grip_testkit::{Project, RemoteHost, WorkTree, git};

use crate::sync::scene::Scene;

#[tokio::test]
async fn two_nodes_end_with_the_refs_of_the_remote_that_was_pushed_to() -> Result<()> {
    let (mut a, mut b) = (Scene::new().await?, Scene::new().await?);
    let host = RemoteHost::start("127.0.0.2").await?;
    let url = host.create("x.git")?;
    let tree = WorkTree::with_commit()?;
    tree.git(["tag", "-a", "v1", "-m", "first"])?;
    tree.git(["checkout", "-q", "-b", "next"])?;
    tree.commit("next", "1")?;
    let project = Project::new("x");
    let announcement = project.announcement(&[&a.node, &b.node], std::slice::from_ref(&url));
    a.relay.publish_ok(&announcement).await?;
    b.relay.publish_ok(&announcement).await?;
    let all = ["main", "next", "v1"];
    tree.push_ok(&url, &all).await?;
    let (main, next, tag) = (tree.tip("main")?, tree.tip("next")?, tree.tip("v1")?);
    let refs = [
        ("refs/heads/main", main.as_str()),
        ("refs/heads/next", &next),
        ("refs/tags/v1", &tag),
    ];
    let state = project.state(&refs);
    for node in [&mut a, &mut b] {
        // The nodes follow each other: one may have it from the other already.
        node.relay.publish_ok(&state).await?;
    }
    let expected = git::branches_and_tags(&url).await?;
    for node in [&mut a, &mut b] {
        node.released(&state).await?;
        let served = git::branches_and_tags(&project.url(&node.node)).await?;
        ensure!(served == expected, "{served:?} is not {expected:?}");
        let clone = WorkTree::clone(&project.url(&node.node), &[]).await?;
        ensure!(clone.tip("HEAD")? == main);
        node.is_clean(&project).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_node_gets_from_another_what_was_pushed_there() -> Result<()> {
    let (mut a, mut b) = (Scene::new().await?, Scene::new().await?);
    let tree = WorkTree::with_commit()?;
    let tip = tree.tip("HEAD")?;
    let project = Project::new("x");
    let announcement = project.announcement(&[&a.node, &b.node], &[]);
    for node in [&mut a, &mut b] {
        node.relay.publish_ok(&announcement).await?;
    }
    let first = project.state_at(&[("refs/heads/main", &tip)], 20);
    a.hold(&first).await?;
    tree.push_ok(&project.url(&a.node), &["main"]).await?;
    b.relay.publish_ok(&first).await?;
    b.released(&first).await?;
    // And what comes later, of which b has a part already.
    let more = tree.commit("more", "1")?;
    let second = project.state_at(&[("refs/heads/main", &more)], 10);
    a.hold(&second).await?;
    tree.push_ok(&project.url(&a.node), &["main"]).await?;
    b.relay.publish_ok(&second).await?;
    b.released(&second).await?;
    ensure!(
        git::branches_and_tags(&project.url(&b.node)).await?
            == git::branches_and_tags(&project.url(&a.node)).await?
    );
    b.is_clean(&project).await
}
