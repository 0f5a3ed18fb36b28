//! G01-16, G01-17, G01-30: states.

use anyhow::{Result, ensure};
use grip_testkit::{Author, events::tag};
use serde_json::json;

use super::cases;
use crate::{
    Target,
    world::{World, fresh_identifier},
};

cases! {
    "G01-16" "states are judged in order: known, newer, announced, authorised" Url => arrival_order;
    "G01-16" "a state that comes just before its announcement is taken" Url => state_first;
    "G01-17" "an older state of one maintainer never undoes a newer one of another" Url => older_of_another;
    "G01-30" "of two states signed in one second the lowest id wins and the loser is told" Url => ties;
    "G01-30" "a tie does not delete a pushed tag" Url => tie_keeps_tag;
}

async fn arrival_order(target: &Target) -> Result<()> {
    let mut world = World::announced(target).await?;
    let owner = world.owner.clone();
    let stranger = Author::new();
    let early = world.state_of(&owner)?;
    let state = world.state_of(&owner)?;
    world.held(&state).await?;
    let again = world.relay.publish(&state).await?;
    ensure!(
        again.accepted && again.message.starts_with("duplicate:"),
        "{again:?}"
    );
    let foreign = world.state_of(&stranger)?;
    let message = world.refused(&foreign).await?;
    ensure!(
        message.starts_with("invalid:") || message.starts_with("blocked:"),
        "{message}"
    );
    let unannounced = owner.state(&fresh_identifier(), &[], None);
    world.refused(&unannounced).await?;
    world.push_ok(&["main"]).await?;
    world.must_serve(&state.id).await?;
    world.refused(&early).await?;
    let again = world.relay.publish(&state).await?;
    ensure!(
        again.accepted && again.message.starts_with("duplicate:"),
        "{again:?}"
    );
    for bad in ["refs/heads/a..b", "refs/heads/x.lock", "refs/heads/sp ace"] {
        let state = world.state_naming(&owner, &[(bad, &"ab".repeat(20))], None);
        world.refused(&state).await?;
    }
    let upper = world.state_naming(&owner, &[("refs/heads/main", &"AB".repeat(20))], None);
    world.refused(&upper).await?;
    let conflict = [
        ("refs/heads/a", "ab"),
        ("refs/heads/a-b", "ab"),
        ("refs/heads/a/b", "ab"),
    ]
    .map(|(name, byte)| (name, byte.repeat(20)));
    let conflict: Vec<(&str, &str)> = conflict.iter().map(|(n, o)| (*n, o.as_str())).collect();
    let state = world.state_naming(&owner, &conflict, None);
    world.refused(&state).await?;
    Ok(())
}

async fn state_first(target: &Target) -> Result<()> {
    let mut world = World::new(target).await?;
    let owner = world.owner.clone();
    let announcement = world.announcement(vec![]);
    let state = world.state_of(&owner)?;
    let mut other = target.connect().await?;
    world.relay.send(json!(["EVENT", state])).await?;
    let announced = other.publish(&announcement).await?;
    ensure!(announced.is_held(), "{announced:?}");
    let answer = world.relay.answer(&state.id).await?;
    ensure!(
        answer.accepted,
        "a state must outlive the race with its announcement: {answer:?}"
    );
    Ok(())
}

async fn older_of_another(target: &Target) -> Result<()> {
    let helper = Author::new();
    let mut world = World::served_with(target, vec![tag(["maintainers", &helper.hex()])]).await?;
    let owner = world.owner.clone();
    let first = world.tree.tip("HEAD")?;
    let older = world.state_naming(&helper, &[("refs/heads/main", &first)], None);
    let second = world.tree.commit("second", "x")?;
    let newer = world.state_naming(&owner, &[("refs/heads/main", &second)], None);
    world.relay.publish_ok(&newer).await?;
    world.push_ok(&["main"]).await?;
    world.must_serve(&newer.id).await?;
    world.accepted(&older).await?;
    ensure!(
        world.remote_ref("refs/heads/main").await? == Some(second),
        "the newer state stands"
    );
    Ok(())
}

async fn ties(target: &Target) -> Result<()> {
    let mut world = World::announced(target).await?;
    let owner = world.owner.clone();
    let tip = world.tree.tip("HEAD")?;
    let at = world.tick();
    let id = world.identifier.clone();
    let one = owner.state_at(&id, &[("refs/heads/main", &tip)], None, at);
    let two = owner.state_at(&id, &[("refs/heads/other", &tip)], None, at);
    let (winner, loser) = if one.id < two.id {
        (one, two)
    } else {
        (two, one)
    };
    world.held(&winner).await?;
    let message = world.refused(&loser).await?;
    ensure!(
        message.contains("created_at"),
        "the answer says how to go on: {message}"
    );
    // The other way round the later arrival wins, by the same rule.
    let mut world = World::announced(target).await?;
    let owner = world.owner.clone();
    let id = world.identifier.clone();
    let (at, tip) = (world.tick(), world.tree.tip("HEAD")?);
    let one = owner.state_at(&id, &[("refs/heads/main", &tip)], None, at);
    let two = owner.state_at(&id, &[("refs/heads/other", &tip)], None, at);
    let (winner, loser) = if one.id < two.id {
        (one, two)
    } else {
        (two, one)
    };
    world.held(&loser).await?;
    world.held(&winner).await?;
    let branch = winner
        .tags
        .iter()
        .find_map(|tag| tag.kind().strip_prefix("refs/heads/"));
    let refspec = format!("main:refs/heads/{}", branch.unwrap_or("main"));
    world.push_ok(&[&refspec]).await?;
    world.must_serve(&winner.id).await?;
    world.must_not_serve(&loser.id).await
}

async fn tie_keeps_tag(target: &Target) -> Result<()> {
    let mut world = World::served(target).await?;
    let owner = world.owner.clone();
    let (tip, id) = (world.tree.tip("HEAD")?, world.identifier.clone());
    let main = ("refs/heads/main", tip.as_str());
    // Two states of one second: one with the tag, one without. The one with the tag must win.
    let (with_tag, without) = loop {
        let at = world.tick();
        let with_tag = owner.state_at(&id, &[main, ("refs/tags/v1", &tip)], None, at);
        let without = owner.state_at(&id, &[main], None, at);
        if with_tag.id < without.id {
            break (with_tag, without);
        }
    };
    world.relay.publish_ok(&with_tag).await?;
    world.push_ok(&["main:refs/tags/v1"]).await?;
    world.must_serve(&with_tag.id).await?;
    world.refused(&without).await?;
    ensure!(
        world.remote_ref("refs/tags/v1").await? == Some(tip),
        "the pushed tag stays"
    );
    Ok(())
}
