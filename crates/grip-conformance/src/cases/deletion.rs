//! G01-54 … G01-58: deletions.

use anyhow::{Result, ensure};
use grip_testkit::{Author, git};
use nostr::prelude::Timestamp;

use super::cases;
use crate::{Target, world::World};

cases! {
    "G01-54" "deleting a held state by id takes the right to push" Url => held_state_by_id;
    "G01-54" "deleting a held state by address takes the right to push" Url => held_state_by_address;
    "G01-55" "only one's own events are deleted, and they stay deleted" Url => own_only;
    "G01-56" "deleting a held announcement or pull request takes its repository or ref" Url => held_others;
    "G01-57" "deleting a served announcement stops the repository, a new one restores it" Url => served_announcement;
    "G01-57" "deleting the served state leaves the refs, deleting a pull request takes its ref" Url => served_state_and_pr;
    "G01-58" "events of a banned author are refused" Control => bans;
}

async fn held_state_by_id(target: &Target) -> Result<()> {
    let mut world = World::announced(target).await?;
    let owner = world.owner.clone();
    let state = world.state_of(&owner)?;
    world.held(&state).await?;
    world
        .relay
        .publish_ok(&owner.delete_events(&[state.id]))
        .await?;
    world.push_refused(&["main"]).await?;
    world.refused(&state).await?;
    Ok(())
}

async fn held_state_by_address(target: &Target) -> Result<()> {
    let mut world = World::announced(target).await?;
    let owner = world.owner.clone();
    let state = world.state_of(&owner)?;
    world.held(&state).await?;
    world
        .relay
        .publish_ok(&owner.delete_address(30618, &world.identifier))
        .await?;
    world.push_refused(&["main"]).await?;
    // A later version may be published and lives.
    let tip = world.tree.tip("HEAD")?;
    let later = Timestamp::from_secs(Timestamp::now().as_secs() + 2);
    let state = owner.state_at(&world.identifier, &[("refs/heads/main", &tip)], None, later);
    world.held(&state).await?;
    world.push_ok(&["main"]).await?;
    Ok(())
}

async fn own_only(target: &Target) -> Result<()> {
    let mut world = World::served(target).await?;
    let (reporter, stranger) = (Author::new(), Author::new());
    let issue = reporter.issue(&world.owner, &world.identifier, "x");
    world.accepted(&issue).await?;
    world
        .relay
        .publish_ok(&stranger.delete_events(&[issue.id]))
        .await?;
    ensure!(
        world.relay.serves(&issue.id).await?,
        "a stranger's deletion has no effect"
    );
    let deletion = reporter.delete_events(&[issue.id]);
    world.accepted(&deletion).await?;
    world.must_not_serve(&issue.id).await?;
    world.refused(&issue).await?;
    // A deletion that comes before its target works too, and a deletion cannot be deleted.
    let early = reporter.issue(&world.owner, &world.identifier, "early");
    world
        .relay
        .publish_ok(&reporter.delete_events(&[early.id]))
        .await?;
    world.refused(&early).await?;
    world
        .relay
        .publish_ok(&reporter.delete_events(&[deletion.id]))
        .await?;
    ensure!(world.relay.serves(&deletion.id).await?);
    Ok(())
}

async fn held_others(target: &Target) -> Result<()> {
    let mut world = World::new(target).await?;
    let owner = world.owner.clone();
    let announcement = world.announcement(vec![]);
    world.held(&announcement).await?;
    let state = world.state_of(&owner)?;
    world.held(&state).await?;
    world
        .relay
        .publish_ok(&owner.delete_address(30617, &world.identifier))
        .await?;
    ensure!(
        git::ls_remote(&world.clone_url()).await.is_err(),
        "the empty repository goes"
    );
    let mut world = World::served(target).await?;
    let contributor = Author::new();
    world.tree.git(["checkout", "-q", "-b", "feature"])?;
    let tip = world.tree.commit("feature", "x")?;
    let pr = contributor.pull_request(&world.owner, &world.identifier, &tip, &world.clone_url());
    world.held(&pr).await?;
    world
        .relay
        .publish_ok(&contributor.delete_events(&[pr.id]))
        .await?;
    world.refused(&pr).await?;
    Ok(())
}

async fn served_announcement(target: &Target) -> Result<()> {
    let mut world = World::served(target).await?;
    let owner = world.owner.clone();
    let reporter = Author::new();
    let issue = reporter.issue(&owner, &world.identifier, "stays");
    world.accepted(&issue).await?;
    world
        .relay
        .publish_ok(&owner.delete_address(30617, &world.identifier))
        .await?;
    ensure!(
        git::ls_remote(&world.clone_url()).await.is_err(),
        "the repository is no longer served"
    );
    ensure!(
        world.relay.serves(&issue.id).await?,
        "other people's events stay"
    );
    let later = Timestamp::from_secs(Timestamp::now().as_secs() + 2);
    let back = owner.announcement_at(&target.authority, &world.identifier, vec![], later);
    world.relay.publish_ok(&back).await?;
    let tip = world.tree.tip("HEAD")?;
    ensure!(
        world.remote_ref("refs/heads/main").await? == Some(tip),
        "the data is back"
    );
    Ok(())
}

async fn served_state_and_pr(target: &Target) -> Result<()> {
    let mut world = World::served(target).await?;
    let owner = world.owner.clone();
    let tip = world.tree.tip("HEAD")?;
    let contributor = Author::new();
    let pr = contributor.pull_request(&owner, &world.identifier, &tip, &world.clone_url());
    world.accepted(&pr).await?;
    world
        .relay
        .publish_ok(&contributor.delete_events(&[pr.id]))
        .await?;
    ensure!(
        world
            .remote_ref(&format!("refs/nostr/{}", pr.id.to_hex()))
            .await?
            .is_none()
    );
    world
        .relay
        .publish_ok(&owner.delete_address(30618, &world.identifier))
        .await?;
    ensure!(
        world.remote_ref("refs/heads/main").await? == Some(tip),
        "refs stay as they are"
    );
    Ok(())
}

async fn bans(target: &Target) -> Result<()> {
    let banned = Author::new();
    target
        .restart_with(&[("NGIT_EVENT_BLACKLIST", &banned.npub())])
        .await?;
    let mut world = World::served(target).await?;
    let message = world
        .refused(&banned.issue(&world.owner, &world.identifier, "spam"))
        .await?;
    ensure!(message.starts_with("blocked:"), "{message}");
    let announcement = banned.announcement(&target.authority, "banned", vec![]);
    world.refused(&announcement).await?;
    Ok(())
}
