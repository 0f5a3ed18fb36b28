//! G01-35, G01-40 … G01-42: which pushes are taken, row by row.

use anyhow::{Result, ensure};
use grip_testkit::{Author, WorkTree, git};

use super::cases;
use crate::{Target, fixture::Fixture};

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
    let mut fixture = Fixture::announced(target).await?;
    let printed = fixture.push_refused(&["main"]).await?;
    ensure!(
        printed.contains("state"),
        "the reason names what is missing:\n{printed}"
    );
    let stranger = Author::new();
    let state = fixture.state_of(&stranger)?;
    fixture.refused(&state).await?;
    fixture.push_refused(&["main"]).await?;
    ensure!(git::ls_remote(&fixture.clone_url()).await?.is_empty());
    Ok(())
}

async fn partial(target: &Target) -> Result<()> {
    let mut fixture = Fixture::announced(target).await?;
    let first = fixture.tree.tip("HEAD")?;
    fixture.tree.git(["branch", "base"])?;
    let second = fixture.tree.commit("second", "x")?;
    let refs = [
        ("refs/heads/base", first.as_str()),
        ("refs/heads/main", second.as_str()),
    ];
    let state = fixture.state(&refs, Some("refs/heads/main"));
    fixture.held(&state).await?;
    fixture.push_ok(&["base"]).await?;
    fixture.must_not_serve(&state.id).await?;
    fixture.ref_is("refs/heads/base", &first).await?;
    fixture.push_ok(&["main"]).await?;
    fixture.must_serve(&state.id).await?;
    fixture.ref_is("refs/heads/main", &second).await?;
    Ok(())
}

async fn older_held(target: &Target) -> Result<()> {
    let mut fixture = Fixture::announced(target).await?;
    let first = fixture.tree.tip("HEAD")?;
    fixture.tree.git(["branch", "base"])?;
    let older = fixture.state(&[("refs/heads/main", &first)], None);
    let second = fixture.tree.commit("second", "x")?;
    let newer = fixture.state(&[("refs/heads/main", &second)], None);
    fixture.held(&older).await?;
    fixture.held(&newer).await?;
    fixture.push_ok(&["base:refs/heads/main"]).await?;
    fixture.must_serve(&older.id).await?;
    fixture.ref_is("refs/heads/main", &first).await?;
    fixture.push_ok(&["main"]).await?;
    fixture.must_serve(&newer.id).await?;
    fixture.must_not_serve(&older.id).await?;
    fixture.ref_is("refs/heads/main", &second).await?;
    // What an overtaken state said is no longer a right to push.
    fixture.push_refused(&["+base:refs/heads/main"]).await?;
    Ok(())
}

async fn again(target: &Target) -> Result<()> {
    let mut fixture = Fixture::served(target).await?;
    fixture.push_ok(&["main"]).await?;
    let tip = fixture.tree.tip("HEAD")?;
    let refs = [
        ("refs/heads/main", tip.as_str()),
        ("refs/tags/v1", tip.as_str()),
    ];
    let state = fixture.state(&refs, None);
    fixture.accepted(&state).await?;
    fixture.push_ok(&["main", "main:refs/tags/v1"]).await?;
    let mirror = WorkTree::clone(&fixture.clone_url(), &[]).await?;
    let output = mirror.push(&fixture.clone_url(), &["main"]).await?;
    ensure!(output.ok, "{}", output.stderr);
    Ok(())
}

async fn deletes(target: &Target) -> Result<()> {
    let mut fixture = Fixture::served(target).await?;
    fixture.push_refused(&[":refs/heads/main"]).await?;
    let tip = fixture.tree.tip("HEAD")?;
    let two = [
        ("refs/heads/main", tip.as_str()),
        ("refs/heads/old", tip.as_str()),
    ];
    let state = fixture.state(&two, None);
    fixture.accepted(&state).await?;
    fixture.push_refused(&[":refs/heads/old"]).await?;
    // The new state both drops `old` and waits for new data, so the push itself deletes.
    let next = fixture.tree.commit("next", "x")?;
    let state = fixture.state(&[("refs/heads/main", &next)], None);
    fixture.held(&state).await?;
    fixture.push_ok(&["main", ":refs/heads/old"]).await?;
    fixture.lacks_ref("refs/heads/old").await?;
    Ok(())
}

async fn other_namespaces(target: &Target) -> Result<()> {
    let fixture = Fixture::served(target).await?;
    for name in [
        "refs/notes/commits",
        "refs/remotes/origin/main",
        "refs/pull/1/head",
        "refs/custom/x",
    ] {
        fixture.push_refused(&[&format!("main:{name}")]).await?;
        fixture.lacks_ref(name).await?;
    }
    Ok(())
}

async fn forced(target: &Target) -> Result<()> {
    let mut fixture = Fixture::served(target).await?;
    fixture.tree.commit("second", "x")?;
    fixture.publish_and_push().await?;
    fixture.tree.git(["reset", "-q", "--hard", "HEAD~1"])?;
    let tip = fixture.tree.commit("rewritten", "y")?;
    fixture.push_refused(&["+main"]).await?;
    fixture.publish_and_push().await?;
    fixture.ref_is("refs/heads/main", &tip).await?;
    Ok(())
}

async fn whole_or_nothing(target: &Target) -> Result<()> {
    let mut fixture = Fixture::served(target).await?;
    let tip = fixture.tree.commit("second", "x")?;
    let state = fixture.state(&[("refs/heads/main", &tip)], None);
    fixture.held(&state).await?;
    let printed = fixture
        .push_refused(&["main", "main:refs/heads/rogue"])
        .await?;
    ensure!(
        printed.contains("refs/heads/rogue") || printed.contains("rogue"),
        "{printed}"
    );
    ensure!(
        fixture.remote_ref("refs/heads/main").await? != Some(tip),
        "nothing of it may stay"
    );
    fixture.must_not_serve(&state.id).await?;
    fixture.push_ok(&["main"]).await?;
    Ok(())
}

async fn no_leftovers(target: &Target) -> Result<()> {
    let fixture = Fixture::served(target).await?;
    let secret = fixture.tree.commit("secret", "not allowed")?;
    fixture.push_refused(&["main"]).await?;
    let fresh = WorkTree::init()?;
    for version in ["0", "2"] {
        let protocol = format!("protocol.version={version}");
        let fetched = fresh
            .run([
                "-c",
                &protocol,
                "fetch",
                "-q",
                &fixture.clone_url(),
                &secret,
            ])
            .await?;
        ensure!(!fetched.ok, "an object of a refused push can be fetched");
    }
    Ok(())
}

async fn visible_at_once(target: &Target) -> Result<()> {
    let mut fixture = Fixture::announced(target).await?;
    fixture.tree.git(["branch", "-q", "-m", "trunk"])?;
    let tip = fixture.tree.tip("HEAD")?;
    let state = fixture.state(&[("refs/heads/trunk", &tip)], Some("refs/heads/trunk"));
    fixture.held(&state).await?;
    fixture.push_ok(&["trunk"]).await?;
    fixture.head_is("refs/heads/trunk").await?;
    ensure!(
        fixture.relay.serves(&state.id).await?,
        "the state is served when the push returns"
    );
    Ok(())
}
