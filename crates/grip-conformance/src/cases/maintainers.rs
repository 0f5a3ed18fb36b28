//! G01-26 … G01-29, G01-31: who may move refs.

use anyhow::{Result, ensure};
use grip_testkit::{Author, events::tag};

use super::cases;
use crate::{Target, world::World};

cases! {
    "G01-26" "maintainers are followed through the chain of announcements" Url => chain;
    "G01-27" "under the reciprocal rule an invited key must name someone back" Control => reciprocal;
    "G01-28" "by default a listed key authorises without an announcement of its own" Url => legacy_default;
    "G01-29" "being listed gives no right over the listed one's repository" Url => per_owner;
    "G01-31" "a removed maintainer moves no refs any more" Url => shrinking;
}

async fn chain(target: &Target) -> Result<()> {
    let (middle, last) = (Author::new(), Author::new());
    let mut world = World::served_with(target, vec![tag(["maintainers", &middle.hex()])]).await?;
    world.tree.commit("by-middle", "x")?;
    let state = world.state_of(&middle)?;
    world.relay.publish_ok(&state).await?;
    world.push_ok(&["main"]).await?;
    world.must_serve(&state.id).await?;
    // The next link is named only by the middle one, in a still held announcement; its commit is
    // an unrelated root.
    let announcement = middle.announcement(
        &target.authority,
        &world.identifier,
        vec![tag(["maintainers", &last.hex()])],
    );
    world.relay.publish_ok(&announcement).await?;
    world.tree.git(["checkout", "-q", "--orphan", "fresh"])?;
    let root = world.tree.commit("new-root", "y")?;
    let state = world.state_naming(
        &last,
        &[("refs/heads/main", &root)],
        Some("refs/heads/main"),
    );
    world.relay.publish_ok(&state).await?;
    world.push_ok(&["+fresh:refs/heads/main"]).await?;
    world.must_serve(&state.id).await?;
    ensure!(world.remote_ref("refs/heads/main").await? == Some(root));
    Ok(())
}

async fn reciprocal(target: &Target) -> Result<()> {
    target
        .restart_with(&[("GRIPFAST_MAINTAINER_RULE", "reciprocal")])
        .await?;
    let helper = Author::new();
    let mut world = World::served_with(target, vec![tag(["maintainers", &helper.hex()])]).await?;
    world.tree.commit("by-helper", "x")?;
    let state = world.state_of(&helper)?;
    world.refused(&state).await?;
    let back = helper.sign(
        30617,
        "",
        vec![
            tag(["d", &world.identifier]),
            tag([
                "clone",
                &helper.clone_url(&target.authority, &world.identifier),
            ]),
            tag(["relays", &target.relay]),
            tag(["maintainers", &world.owner.hex()]),
        ],
    );
    world.relay.publish_ok(&back).await?;
    world.relay.publish_ok(&state).await?;
    world.push_ok(&["main"]).await?;
    world.must_serve(&state.id).await
}

async fn legacy_default(target: &Target) -> Result<()> {
    let helper = Author::new();
    let mut world =
        World::announced_with(target, vec![tag(["maintainers", &helper.hex()])]).await?;
    let state = world.state_of(&helper)?;
    world.held(&state).await?;
    world.push_ok(&["main"]).await?;
    world.must_serve(&state.id).await
}

async fn per_owner(target: &Target) -> Result<()> {
    let listed = Author::new();
    let mut world = World::served_with(target, vec![tag(["maintainers", &listed.hex()])]).await?;
    let own = listed.announcement(&target.authority, &world.identifier, vec![]);
    world.relay.publish_ok(&own).await?;
    let theirs = world.state_of(&listed)?;
    world.relay.publish_ok(&theirs).await?;
    world.must_serve(&theirs.id).await?;
    // The owner's next state moves the owner's repository alone.
    let before = world.tree.tip("HEAD")?;
    let after = world.tree.commit("owner-only", "x")?;
    let owner = world.owner.clone();
    let state = world.state_of(&owner)?;
    world.relay.publish_ok(&state).await?;
    world.push_ok(&["main"]).await?;
    world.must_serve(&state.id).await?;
    let refs = grip_testkit::git::ls_remote(&world.clone_url_of(&listed)).await?;
    let main = refs.iter().find(|(name, _)| name == "refs/heads/main");
    ensure!(main.is_some_and(|(_, oid)| *oid == before), "{refs:?}");
    ensure!(world.remote_ref("refs/heads/main").await? == Some(after));
    Ok(())
}

async fn shrinking(target: &Target) -> Result<()> {
    let helper = Author::new();
    let mut world = World::served_with(target, vec![tag(["maintainers", &helper.hex()])]).await?;
    let alone = world.announcement(vec![]);
    world.accepted(&alone).await?;
    world.tree.commit("by-helper", "x")?;
    let state = world.state_of(&helper)?;
    world.refused(&state).await?;
    world.push_refused(&["main"]).await?;
    Ok(())
}
