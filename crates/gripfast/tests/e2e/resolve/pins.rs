//! Pins by the command line.

use anyhow::{Result, ensure};

use crate::resolve::net::{self, Repo};

#[tokio::test]
async fn a_pinned_manifest_is_found_after_its_node_is_gone_until_it_is_unpinned() -> Result<()> {
    let mut nodes = net::start(2).await?;
    let repo = Repo::new()?;
    repo.0.publish(&nodes[0], 10).await?;
    let id = repo.id(&nodes[0]).await?;
    repo.is_found(&nodes[1], &id).await?;
    let name = format!("{}/x", repo.0.project.owner.npub());

    let empty = nodes[1].run(&["pins"]).await?;
    ensure!(empty.contains("nothing is pinned"), "{empty}");
    // As people write it: without a prefix, and as a URL.
    let pinned = nodes[1].run(&["pin", &name]).await?;
    ensure!(pinned.contains(&format!("pinned {id}")), "{pinned}");
    let again = nodes[1].run(&["pin", &format!("nostr://{name}")]).await?;
    ensure!(again.contains(&id), "{again}");
    let listed = nodes[1].run(&["pins"]).await?;
    ensure!(
        listed.contains("1 manifest pinned") && listed.contains(&id),
        "{listed}"
    );

    nodes[0].kill();
    let found = nodes[1].json(&format!("/resolve/{id}?fresh=true")).await?;
    ensure!(found["source"] == "local", "{found}");
    let shown = nodes[1].run(&["resolve", &name]).await?;
    ensure!(shown.contains(&id), "{shown}");
    let unpinned = nodes[1].run(&["unpin", &name]).await?;
    ensure!(unpinned.contains("unpinned 1 manifest"), "{unpinned}");
    let nothing = nodes[1].run(&["unpin", &name]).await?;
    ensure!(nothing.contains("nothing is pinned under"), "{nothing}");
    Ok(())
}
