//! Hosts that are never asked, whatever announcements say.

use anyhow::{Result, ensure};
use grip_testkit::{Project, RemoteHost, WorkTree, remote::Behaviour};

use crate::sync::scene::Scene;

/// Fetches at once, but from public hosts alone, as a node does by default.
const CAREFUL: &[(&str, &str)] = &[("NGIT_SYNC_DEFAULT_DELAY_SECS", "0")];

#[tokio::test]
async fn addresses_that_are_not_public_are_never_asked_and_it_says_why() -> Result<()> {
    let mut scene = Scene::start(CAREFUL).await?;
    let tree = WorkTree::with_commit()?;
    let tip = tree.tip("HEAD")?;
    let host = RemoteHost::start("127.0.0.2").await?;
    let url = host.host(&tree, "x.git")?;
    let port = host
        .authority()
        .rsplit(':')
        .next()
        .unwrap_or_default()
        .to_owned();
    let spelled = ["2130706434", "0177.0.0.2", "127.2", "[::ffff:127.0.0.2]"];
    let mut urls: Vec<_> = spelled
        .iter()
        .map(|name| format!("http://{name}:{port}/x.git"))
        .collect();
    urls.push(url);
    let project = Project::new("x");
    scene.announce(&project, &urls).await?;
    let state = scene.hold_state(&project, &tip).await?;
    let tried = scene.has_tried(&state, 1).await?;
    for one in &tried {
        let outcome = one.outcome.to_lowercase();
        let told = ["public", "loopback", "private", "not allowed"];
        ensure!(told.iter().any(|word| outcome.contains(word)), "{one:?}");
    }
    let said = scene.node.run(&["explain", &state.id.to_hex()]).await?;
    ensure!(said.to_lowercase().contains("127.0.0.2"), "{said}");
    ensure!(host.count() == 0, "{:?}", host.requests());
    ensure!(!scene.serves(&state).await?);
    Ok(())
}

#[tokio::test]
async fn a_redirect_is_followed_and_a_long_chain_of_them_is_not() -> Result<()> {
    let mut scene = Scene::new().await?;
    let tree = WorkTree::with_commit()?;
    let tip = tree.tip("HEAD")?;
    let (old, new) = (
        RemoteHost::start("127.0.0.2").await?,
        RemoteHost::start("127.0.0.3").await?,
    );
    let to = new.host(&tree, "x.git")?;
    old.behave(Behaviour::Redirect { status: 307, to });
    let project = Project::new("moved");
    scene.announce(&project, &[old.clone_url("x.git")]).await?;
    let state = scene.hold_state(&project, &tip).await?;
    scene.released(&state).await?;
    ensure!(old.count() == 1 && new.count() == 1);

    let circle = RemoteHost::start("127.0.0.4").await?;
    let to = circle.clone_url("x.git");
    circle.behave(Behaviour::Redirect {
        status: 302,
        to: to.clone(),
    });
    let project = Project::new("circle");
    scene.announce(&project, &[to]).await?;
    let state = scene.hold_state(&project, &tip).await?;
    let tried = scene.has_tried(&state, 1).await?;
    ensure!(
        tried[0].outcome.to_lowercase().contains("redirect"),
        "{tried:?}"
    );
    ensure!(circle.count() <= 6, "{}", circle.count());
    Ok(())
}

#[tokio::test]
async fn our_own_service_is_never_asked() -> Result<()> {
    // The alias is a host that would notice.
    let alias = RemoteHost::start("127.0.0.2").await?;
    let mut scene = Scene::with(&[("GRIPFAST_DOMAIN_ALIASES", &alias.authority())]).await?;
    let tree = WorkTree::with_commit()?;
    let tip = tree.tip("HEAD")?;
    let elsewhere = RemoteHost::start("127.0.0.3").await?;
    let project = Project::new("x");
    let port = scene.node.port();
    let own = project.owner.clone_url(&format!("localhost:{port}"), "x");
    let urls = [own, alias.host(&tree, "x.git")?, elsewhere.create("x.git")?];
    scene.announce(&project, &urls).await?;
    let state = scene.hold_state(&project, &tip).await?;
    let tried = scene.has_tried(&state, 1).await?;
    let asked = |url: &String| tried.iter().any(|one| one.url == *url);
    ensure!(tried.iter().all(|one| one.url == urls[2]), "{tried:?}");
    ensure!(asked(&urls[2]) && alias.count() == 0);
    Ok(())
}
