//! Pages that show waiting events and the hosts asked for them.

use anyhow::{Result, ensure};
use grip_testkit::{Project, RemoteHost, WorkTree, browser, http::must_contain, remote::Behaviour};

use crate::sync::scene::Scene;

#[tokio::test]
async fn the_pages_show_what_waits_and_what_each_host_said() -> Result<()> {
    let mut scene = Scene::new().await?;
    let (kind, strict) = (
        RemoteHost::start("127.0.0.2").await?,
        RemoteHost::start("127.0.0.3").await?,
    );
    let tree = WorkTree::with_commit()?;
    let tip = tree.tip("HEAD")?;
    let (served, waits) = (Project::new("tide-table"), Project::new("harbour-lights"));
    scene
        .announce(&served, &[kind.host(&tree, "tide-table.git")?])
        .await?;
    let state = scene.hold_state(&served, &tip).await?;
    scene.released(&state).await?;

    strict.behave(Behaviour::retry_after(429, 3_600));
    scene
        .announce(&waits, &[strict.host(&tree, "harbour-lights.git")?])
        .await?;
    let state = scene.hold_state(&waits, &tip).await?;
    scene.has_tried(&state, 1).await?;

    let sync = browser::open(&format!("{}/sync", scene.node.http_url())).await?;
    let shown = ["127.0.0.2", "127.0.0.3", "harbour-lights", "429", "fetched"];
    must_contain(&sync.dom, &shown);
    let purgatory = browser::open(&format!("{}/purgatory", scene.node.http_url())).await?;
    let id = &state.id.to_hex()[..8];
    must_contain(&purgatory.dom, &["harbour-lights", id, &tip[..7]]);
    ensure!(
        !purgatory.dom.contains("tide-table"),
        "what is served does not wait"
    );
    for page in [&sync, &purgatory] {
        ensure!(page.complaints.is_empty(), "{:?}", page.complaints);
    }
    Ok(())
}
