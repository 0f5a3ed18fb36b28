//! The data of waiting events is brought from where it is.

use anyhow::{Result, ensure};
use grip_testkit::{Author, Project, RemoteHost, RemoteProject, WorkTree, git};
use nostr::prelude::Event;

use crate::sync::scene::Scene;

const MAIN: &str = "refs/heads/main";

/// `state_event_syncs_from_remote` of the source document.
#[tokio::test]
async fn a_state_is_served_once_its_data_came_from_a_remote_host() -> Result<()> {
    let mut scene = Scene::new().await?;
    let host = RemoteHost::start("127.0.0.2").await?;
    let tree = WorkTree::with_commit()?;
    tree.git(["tag", "-a", "v1", "-m", "first"])?;
    let (tip, tagged) = (tree.tip("main")?, tree.tip("v1")?);
    let url = host.host(&tree, "x.git")?;
    let project = Project::new("x");
    let announcement = scene.announce(&project, std::slice::from_ref(&url)).await?;
    let state = project.state(&[("refs/heads/main", &tip), ("refs/tags/v1", &tagged)]);
    scene.hold(&state).await?;

    scene.released(&state).await?;
    scene.released(&announcement).await?;
    let clone = WorkTree::clone(&project.url(&scene.node), &[]).await?;
    ensure!(clone.tip("HEAD")? == tip && clone.tip("v1")? == tagged);
    ensure!(host.count() == 1, "{:?}", host.requests());
    let asked = &host.requests()[0];
    let mut wants = [tip, tagged];
    wants.sort();
    ensure!(asked.command.as_deref() == Some("fetch") && asked.wants == wants);
    scene.is_clean(&project).await
}

/// `pr_event_syncs_from_remote` of the source document.
///
/// G02-3
#[tokio::test]
async fn a_pull_request_is_served_once_its_commit_came_from_a_remote_host() -> Result<()> {
    let (mut scene, project) = Scene::with_remote(&[]).await?;
    let state = scene.hold_remote(&project).await?;
    scene.released(&state).await?;

    let forks = RemoteHost::start("127.0.0.3").await?;
    let tip = project.tree.commit("fix", "better")?;
    let fork = forks.host(&project.tree, "fork.git")?;
    let request = Author::new().pull_request(&project.owner, "x", &tip, &fork);
    scene.hold(&request).await?;
    scene.released(&request).await?;
    let fresh = WorkTree::init()?;
    let name = format!("refs/nostr/{}", request.id.to_hex());
    let url = project.url(&scene.node);
    fresh.run(["fetch", "-q", &url, &name]).await?.text()?;
    ensure!(fresh.tip("FETCH_HEAD")? == tip);
    // What the node had was not sent again.
    ensure!(forks.count() == 1, "{:?}", forks.requests());
    scene.is_clean(&project).await
}

/// Announces the project and a state that a later one will follow.
async fn hold_first(scene: &mut Scene, project: &RemoteProject) -> Result<Event> {
    scene
        .announce(project, std::slice::from_ref(&project.url))
        .await?;
    let first = project.state(10);
    scene.hold(&first).await?;
    Ok(first)
}

/// `concurrent_state_and_pr_sync` of the source document.
#[tokio::test]
async fn a_state_and_a_pull_request_that_come_together_share_one_request() -> Result<()> {
    let delay = [("NGIT_SYNC_DEFAULT_DELAY_SECS", "2")];
    let (mut scene, project) = Scene::with_remote(&delay).await?;
    let (host, tree) = (&project.host, &project.tree);
    let first = hold_first(&mut scene, &project).await?;
    scene.sync_now(&project).await?;
    scene.released(&first).await?;
    host.forget();

    tree.git(["checkout", "-q", "-b", "fix"])?;
    let tip = tree.commit("fix", "better")?;
    tree.git(["checkout", "-q", "main"])?;
    let main = tree.commit("more", "1")?;
    host.take(tree, "x.git", &["main", "fix"])?;
    let state = scene.hold_state(&project, &main).await?;
    let request = Author::new().pull_request(&project.owner, "x", &tip, &project.url);
    scene.hold(&request).await?;
    scene.released(&state).await?;
    scene.released(&request).await?;
    ensure!(host.count() == 1, "{:?}", host.requests());
    ensure!(host.requests()[0].wants.len() == 2);
    // The branch of the request is not the state's.
    scene.has_refs(&project, &[(MAIN, &main)]).await?;
    scene.is_clean(&project).await
}

/// `partial_oid_aggregation_from_multiple_servers` of the source document.
#[tokio::test]
async fn what_no_host_has_alone_adds_up_over_several() -> Result<()> {
    let mut scene = Scene::new().await?;
    let project = Project::new("x");
    let tree = WorkTree::with_commit()?;
    let mut refs = Vec::new();
    let mut urls = Vec::new();
    let mut hosts = Vec::new();
    for n in 2..5 {
        let branch = format!("part-{n}");
        tree.git(["checkout", "-q", "-b", &branch, "main"])?;
        let tip = tree.commit(&branch, "of the whole")?;
        let host = RemoteHost::start(&format!("127.0.0.{n}")).await?;
        urls.push(host.create("x.git")?);
        host.take(&tree, "x.git", &[&branch])?;
        refs.push((format!("refs/heads/{branch}"), tip));
        hosts.push(host);
    }
    scene.announce(&project, &urls).await?;
    let named: Vec<_> = refs.iter().map(|(n, o)| (n.as_str(), o.as_str())).collect();
    let state = project.state(&named);
    scene.hold(&state).await?;
    scene.released(&state).await?;
    ensure!(git::branches_and_tags(&project.url(&scene.node)).await? == refs);
    for host in &hosts {
        // All wanted objects, the list of its refs, and those of the objects that it has.
        ensure!(host.count() <= 3, "{:?}", host.requests());
    }
    scene.is_clean(&project).await
}

/// `push_triggers_unified_processing` of the source document.
#[tokio::test]
async fn a_push_releases_the_same_events_in_the_same_way() -> Result<()> {
    // The author's own push comes before the node would look elsewhere.
    let delay = [("NGIT_SYNC_DEFAULT_DELAY_SECS", "600")];
    let (mut scene, project) = Scene::with_remote(&delay).await?;
    let (host, tree) = (&project.host, &project.tree);
    let first = hold_first(&mut scene, &project).await?;
    project.push(&scene.node).await?;
    scene.released(&first).await?;

    // The commit of the request is among those that the push of the state brings.
    let fix = tree.commit("fix", "better")?;
    let main = tree.commit("more", "1")?;
    let request = Author::new().pull_request(&project.owner, "x", &fix, &project.url);
    scene.hold(&request).await?;
    let state = scene.hold_state(&project, &main).await?;
    project.push(&scene.node).await?;
    scene.released(&state).await?;
    scene.released(&request).await?;
    scene.has_refs(&project, &[(MAIN, &main)]).await?;
    ensure!(host.count() == 0, "nothing was missing any more");
    scene.is_clean(&project).await
}

#[tokio::test]
async fn a_host_is_asked_for_the_projects_that_list_it_and_no_other() -> Result<()> {
    let mut scene = Scene::new().await?;
    // Two people use one identifier for projects that have nothing in common.
    let (ours, theirs) = (Project::new("same"), Project::new("same"));
    let here = RemoteHost::start("127.0.0.2").await?;
    let there = RemoteHost::start("127.0.0.3").await?;
    let our_tree = WorkTree::with_commit()?;
    let their_tree = WorkTree::init()?;
    let our_tip = our_tree.tip("HEAD")?;
    let their_tip = their_tree.commit("else", "entirely")?;
    let our_url = here.host(&our_tree, "ours.git")?;
    let their_url = there.create("theirs.git")?;
    scene.announce(&ours, &[our_url]).await?;
    scene.announce(&theirs, &[their_url]).await?;
    let waiting = scene.hold_state(&theirs, &their_tip).await?;
    let state = scene.hold_state(&ours, &our_tip).await?;
    scene.released(&state).await?;
    ensure!(!scene.serves(&waiting).await?);
    let of = |host: &RemoteHost| -> Vec<String> {
        let requests = host.requests().into_iter();
        requests.flat_map(|seen| seen.wants).collect()
    };
    ensure!(!of(&here).contains(&their_tip), "{:?}", here.requests());
    ensure!(!of(&there).contains(&our_tip), "{:?}", there.requests());
    their_tree
        .run(["push", "-q", &there.clone_url("theirs.git"), "main"])
        .await?
        .text()?;
    scene.sync_now(&theirs).await?;
    scene.released(&waiting).await?;
    scene.lacks(&ours, &"0".repeat(40)).await
}
