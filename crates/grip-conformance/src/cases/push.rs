//! G01-35, G01-40 … G01-42: which pushes are taken, row by row.

use anyhow::{Result, ensure};
use grip_testkit::{Author, WorkTree, git};

use super::cases;
use crate::{Target, world::World};

cases! {
    "G01-35" "without a state no push is taken" Url => no_candidate;
    "G01-35" "some refs of a state may come first, the state waits for the rest" Url => partial;
    "G01-35" "a push that matches an older held state is taken, a later one overtakes" Url => older_held;
    "G01-35" "the served state may be pushed again" Url => again;
    "G01-35" "refs absent from the state may be deleted, refs in it may not" Url => deletes;
    "G01-35" "refs outside heads, tags and nostr are refused" Url => other_namespaces;
    "G01-35" "a forced push is taken if the state says so, and by anyone" Url => forced;
    "G01-40" "a push is taken whole or not at all, and the reason is shown" Url => whole_or_nothing;
    "G01-41" "objects of a refused push do not stay" Url => no_leftovers;
    "G01-42" "events are served and HEAD is set when the push returns" Url => visible_at_once;
}

async fn no_candidate(target: &Target) -> Result<()> {
    let mut world = World::announced(target).await?;
    let printed = world.push_refused(&["main"]).await?;
    ensure!(
        printed.contains("state"),
        "the reason names what is missing:\n{printed}"
    );
    let stranger = Author::new();
    let state = world.state_of(&stranger)?;
    world.refused(&state).await?;
    world.push_refused(&["main"]).await?;
    ensure!(git::ls_remote(&world.clone_url()).await?.is_empty());
    Ok(())
}

async fn partial(target: &Target) -> Result<()> {
    let mut world = World::announced(target).await?;
    let owner = world.owner.clone();
    let first = world.tree.tip("HEAD")?;
    world.tree.git(["branch", "base"])?;
    let second = world.tree.commit("second", "x")?;
    let refs = [
        ("refs/heads/base", first.as_str()),
        ("refs/heads/main", second.as_str()),
    ];
    let state = world.state_naming(&owner, &refs, Some("refs/heads/main"));
    world.held(&state).await?;
    world.push_ok(&["base"]).await?;
    world.must_not_serve(&state.id).await?;
    ensure!(world.remote_ref("refs/heads/base").await? == Some(first));
    world.push_ok(&["main"]).await?;
    world.must_serve(&state.id).await?;
    ensure!(world.remote_ref("refs/heads/main").await? == Some(second));
    Ok(())
}

async fn older_held(target: &Target) -> Result<()> {
    let mut world = World::announced(target).await?;
    let owner = world.owner.clone();
    let first = world.tree.tip("HEAD")?;
    world.tree.git(["branch", "base"])?;
    let older = world.state_naming(&owner, &[("refs/heads/main", &first)], None);
    let second = world.tree.commit("second", "x")?;
    let newer = world.state_naming(&owner, &[("refs/heads/main", &second)], None);
    world.held(&older).await?;
    world.held(&newer).await?;
    world.push_ok(&["base:refs/heads/main"]).await?;
    ensure!(world.remote_ref("refs/heads/main").await? == Some(first));
    world.push_ok(&["main"]).await?;
    world.must_serve(&newer.id).await?;
    world.must_not_serve(&older.id).await?;
    ensure!(world.remote_ref("refs/heads/main").await? == Some(second));
    // What an overtaken state said is no longer a right to push.
    world.push_refused(&["+base:refs/heads/main"]).await?;
    Ok(())
}

async fn again(target: &Target) -> Result<()> {
    let mut world = World::served(target).await?;
    world.push_ok(&["main"]).await?;
    let owner = world.owner.clone();
    let tip = world.tree.tip("HEAD")?;
    let refs = [
        ("refs/heads/main", tip.as_str()),
        ("refs/tags/v1", tip.as_str()),
    ];
    let state = world.state_naming(&owner, &refs, None);
    world.accepted(&state).await?;
    world.push_ok(&["main", "main:refs/tags/v1"]).await?;
    let mirror = WorkTree::clone(&world.clone_url(), &[]).await?;
    let output = mirror.push(&world.clone_url(), &["main"]).await?;
    ensure!(output.ok, "{}", output.stderr);
    Ok(())
}

async fn deletes(target: &Target) -> Result<()> {
    let mut world = World::served(target).await?;
    world.push_refused(&[":refs/heads/main"]).await?;
    let owner = world.owner.clone();
    let tip = world.tree.tip("HEAD")?;
    let two = [
        ("refs/heads/main", tip.as_str()),
        ("refs/heads/old", tip.as_str()),
    ];
    let state = world.state_naming(&owner, &two, None);
    world.accepted(&state).await?;
    world.push_refused(&[":refs/heads/old"]).await?;
    // The new state both drops `old` and waits for new data, so the push itself deletes.
    let next = world.tree.commit("next", "x")?;
    let state = world.state_naming(&owner, &[("refs/heads/main", &next)], None);
    world.held(&state).await?;
    world.push_ok(&["main", ":refs/heads/old"]).await?;
    ensure!(world.remote_ref("refs/heads/old").await?.is_none());
    Ok(())
}

async fn other_namespaces(target: &Target) -> Result<()> {
    let world = World::served(target).await?;
    for name in [
        "refs/notes/commits",
        "refs/remotes/origin/main",
        "refs/pull/1/head",
        "refs/custom/x",
    ] {
        world.push_refused(&[&format!("main:{name}")]).await?;
        ensure!(world.remote_ref(name).await?.is_none(), "{name}");
    }
    Ok(())
}

async fn forced(target: &Target) -> Result<()> {
    let mut world = World::served(target).await?;
    world.tree.commit("second", "x")?;
    world.publish_and_push().await?;
    world.tree.git(["reset", "-q", "--hard", "HEAD~1"])?;
    let tip = world.tree.commit("rewritten", "y")?;
    world.push_refused(&["+main"]).await?;
    world.publish_and_push().await?;
    ensure!(world.remote_ref("refs/heads/main").await? == Some(tip));
    Ok(())
}

async fn whole_or_nothing(target: &Target) -> Result<()> {
    let mut world = World::served(target).await?;
    let owner = world.owner.clone();
    let tip = world.tree.commit("second", "x")?;
    let state = world.state_naming(&owner, &[("refs/heads/main", &tip)], None);
    world.held(&state).await?;
    let printed = world
        .push_refused(&["main", "main:refs/heads/rogue"])
        .await?;
    ensure!(
        printed.contains("refs/heads/rogue") || printed.contains("rogue"),
        "{printed}"
    );
    ensure!(
        world.remote_ref("refs/heads/main").await? != Some(tip),
        "nothing of it may stay"
    );
    world.must_not_serve(&state.id).await?;
    world.push_ok(&["main"]).await?;
    Ok(())
}

async fn no_leftovers(target: &Target) -> Result<()> {
    let world = World::served(target).await?;
    let secret = world.tree.commit("secret", "not allowed")?;
    world.push_refused(&["main"]).await?;
    let fresh = WorkTree::init()?;
    for version in ["0", "2"] {
        let protocol = format!("protocol.version={version}");
        let fetched = fresh
            .run(["-c", &protocol, "fetch", "-q", &world.clone_url(), &secret])
            .await?;
        ensure!(!fetched.ok, "an object of a refused push can be fetched");
    }
    Ok(())
}

async fn visible_at_once(target: &Target) -> Result<()> {
    let mut world = World::announced(target).await?;
    let owner = world.owner.clone();
    world.tree.git(["branch", "-q", "-m", "trunk"])?;
    let tip = world.tree.tip("HEAD")?;
    let state = world.state_naming(
        &owner,
        &[("refs/heads/trunk", &tip)],
        Some("refs/heads/trunk"),
    );
    world.held(&state).await?;
    world.push_ok(&["trunk"]).await?;
    ensure!(git::remote_head(&world.clone_url()).await?.as_deref() == Some("refs/heads/trunk"));
    ensure!(
        world.relay.serves(&state.id).await?,
        "the state is served when the push returns"
    );
    Ok(())
}
