//! G01-16, G01-17, G01-30: states.

use anyhow::{Result, ensure};
use grip_testkit::{Author, events::tag};
use serde_json::json;

use super::cases;
use crate::{
    Target,
    fixture::{Fixture, fresh_identifier},
};

cases! {
    "G01-16" "states are judged in order: known, newer, announced, authorised" Url => arrival_order;
    "G01-16" "a state that comes just before its announcement is taken" Url => state_first;
    "G01-17" "an older state of one maintainer never undoes a newer one of another" Url => older_of_another;
    "G01-30" "of two states signed in one second the lowest id wins and the loser is told" Url => ties;
    "G01-30" "a tie does not delete a pushed tag" Url => tie_keeps_tag;
}

async fn arrival_order(target: &Target) -> Result<()> {
    let mut fixture = Fixture::announced(target).await?;
    let owner = fixture.owner.clone();
    let stranger = Author::new();
    let early = fixture.state_of(&owner)?;
    let state = fixture.state_of(&owner)?;
    fixture.held(&state).await?;
    let again = fixture.relay.publish(&state).await?;
    ensure!(
        again.accepted && again.message.starts_with("duplicate:"),
        "{again:?}"
    );
    let foreign = fixture.state_of(&stranger)?;
    let message = fixture.refused(&foreign).await?;
    ensure!(
        message.starts_with("invalid:") || message.starts_with("blocked:"),
        "{message}"
    );
    let unannounced = owner.state(&fresh_identifier(), &[], None);
    fixture.refused(&unannounced).await?;
    fixture.push_ok(&["main"]).await?;
    fixture.must_serve(&state.id).await?;
    fixture.refused(&early).await?;
    let again = fixture.relay.publish(&state).await?;
    ensure!(
        again.accepted && again.message.starts_with("duplicate:"),
        "{again:?}"
    );
    for bad in ["refs/heads/a..b", "refs/heads/x.lock", "refs/heads/sp ace"] {
        let state = fixture.state_naming(&owner, &[(bad, &"ab".repeat(20))], None);
        fixture.refused(&state).await?;
    }
    let upper = fixture.state_naming(&owner, &[("refs/heads/main", &"AB".repeat(20))], None);
    fixture.refused(&upper).await?;
    let conflict = [
        ("refs/heads/a", "ab"),
        ("refs/heads/a-b", "ab"),
        ("refs/heads/a/b", "ab"),
    ]
    .map(|(name, byte)| (name, byte.repeat(20)));
    let conflict: Vec<(&str, &str)> = conflict.iter().map(|(n, o)| (*n, o.as_str())).collect();
    let state = fixture.state_naming(&owner, &conflict, None);
    fixture.refused(&state).await?;
    Ok(())
}

async fn state_first(target: &Target) -> Result<()> {
    let mut fixture = Fixture::new(target).await?;
    let owner = fixture.owner.clone();
    let announcement = fixture.announcement(vec![]);
    let state = fixture.state_of(&owner)?;
    let mut other = target.connect().await?;
    fixture.relay.send(json!(["EVENT", state])).await?;
    let announced = other.publish(&announcement).await?;
    ensure!(announced.is_held(), "{announced:?}");
    let answer = fixture.relay.answer(&state.id).await?;
    ensure!(
        answer.accepted,
        "a state must outlive the race with its announcement: {answer:?}"
    );
    Ok(())
}

async fn older_of_another(target: &Target) -> Result<()> {
    let helper = Author::new();
    let mut fixture =
        Fixture::served_with(target, vec![tag(["maintainers", &helper.hex()])]).await?;
    let owner = fixture.owner.clone();
    let first = fixture.tree.tip("HEAD")?;
    let older = fixture.state_naming(&helper, &[("refs/heads/main", &first)], None);
    let second = fixture.tree.commit("second", "x")?;
    let newer = fixture.state_naming(&owner, &[("refs/heads/main", &second)], None);
    fixture.relay.publish_ok(&newer).await?;
    fixture.push_ok(&["main"]).await?;
    fixture.must_serve(&newer.id).await?;
    fixture.accepted(&older).await?;
    ensure!(
        fixture.remote_ref("refs/heads/main").await? == Some(second),
        "the newer state stands"
    );
    Ok(())
}

async fn ties(target: &Target) -> Result<()> {
    let mut fixture = Fixture::announced(target).await?;
    let owner = fixture.owner.clone();
    let tip = fixture.tree.tip("HEAD")?;
    let at = fixture.tick();
    let id = fixture.identifier.clone();
    let one = owner.state_at(&id, &[("refs/heads/main", &tip)], None, at);
    let two = owner.state_at(&id, &[("refs/heads/other", &tip)], None, at);
    let (winner, loser) = if one.id < two.id {
        (one, two)
    } else {
        (two, one)
    };
    fixture.held(&winner).await?;
    let message = fixture.refused(&loser).await?;
    ensure!(
        message.contains("created_at"),
        "the answer says how to go on: {message}"
    );
    // The other way round the later arrival wins, by the same rule.
    let mut fixture = Fixture::announced(target).await?;
    let owner = fixture.owner.clone();
    let id = fixture.identifier.clone();
    let (at, tip) = (fixture.tick(), fixture.tree.tip("HEAD")?);
    let one = owner.state_at(&id, &[("refs/heads/main", &tip)], None, at);
    let two = owner.state_at(&id, &[("refs/heads/other", &tip)], None, at);
    let (winner, loser) = if one.id < two.id {
        (one, two)
    } else {
        (two, one)
    };
    fixture.held(&loser).await?;
    fixture.held(&winner).await?;
    let branch = winner
        .tags
        .iter()
        .find_map(|tag| tag.kind().strip_prefix("refs/heads/"));
    let refspec = format!("main:refs/heads/{}", branch.unwrap_or("main"));
    fixture.push_ok(&[&refspec]).await?;
    fixture.must_serve(&winner.id).await?;
    fixture.must_not_serve(&loser.id).await
}

async fn tie_keeps_tag(target: &Target) -> Result<()> {
    let mut fixture = Fixture::served(target).await?;
    let owner = fixture.owner.clone();
    let (tip, id) = (fixture.tree.tip("HEAD")?, fixture.identifier.clone());
    let main = ("refs/heads/main", tip.as_str());
    // Two states of one second: one with the tag, one without. The one with the tag must win.
    let (with_tag, without) = loop {
        let at = fixture.tick();
        let with_tag = owner.state_at(&id, &[main, ("refs/tags/v1", &tip)], None, at);
        let without = owner.state_at(&id, &[main], None, at);
        if with_tag.id < without.id {
            break (with_tag, without);
        }
    };
    fixture.relay.publish_ok(&with_tag).await?;
    fixture.push_ok(&["main:refs/tags/v1"]).await?;
    fixture.must_serve(&with_tag.id).await?;
    fixture.refused(&without).await?;
    ensure!(
        fixture.remote_ref("refs/tags/v1").await? == Some(tip),
        "the pushed tag stays"
    );
    Ok(())
}
