//! Hosts that serve single objects, and such as do not.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    Project, WorkTree,
    remote::{RemoteHost, Speaks},
};

use crate::sync::scene::Scene;

/// G02-9: a commit that is no tip is asked for by its id where the host serves ids, and found below heads and tags
/// where it does not.
#[tokio::test]
async fn g02_9_a_commit_that_is_no_tip_comes_by_its_id_or_with_heads_and_tags() -> Result<()> {
    for speaks_ids in [true, false] {
        let mut scene = Scene::new().await?;
        let host = if speaks_ids {
            RemoteHost::start("127.0.2.61").await?
        } else {
            RemoteHost::speaking("127.0.2.62", Speaks::V0).await?
        };
        let tree = WorkTree::with_commit()?;
        let inner = tree.tip("HEAD")?;
        let tip = tree.commit("more", "1")?;
        let url = host.host(&tree, "x.git")?;
        let project = Project::new("x");
        scene.announce(&project, std::slice::from_ref(&url)).await?;
        let state = project.state(&[("refs/heads/main", &inner)]);
        scene.hold(&state).await?;
        scene.released(&state).await?;
        let requests = host.requests();
        let last = requests.last().context("nobody asked")?;
        let wanted = if speaks_ids { &inner } else { &tip };
        ensure!(last.wants == [wanted.clone()], "{requests:?}");
    }
    Ok(())
}
