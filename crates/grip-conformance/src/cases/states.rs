//! G01-16, G01-17, G01-30: states.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::Author;
use nostr::prelude::Event;
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
    let early = fixture.own_state()?;
    let state = fixture.own_state()?;
    fixture.held(&state).await?;
    fixture.duplicate(&state).await?;
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
    fixture.duplicate(&state).await?;
    for bad in ["refs/heads/a..b", "refs/heads/x.lock", "refs/heads/sp ace"] {
        let state = fixture.state(&[(bad, &"ab".repeat(20))], None);
        fixture.refused(&state).await?;
    }
    // Whether a value names an object is found out late.
    for value in ["abc123", &"AB".repeat(20)] {
        let state = fixture.state(&[("refs/heads/main", value)], None);
        fixture.held(&state).await?;
    }
    let tip = fixture.tree.tip("HEAD")?;
    fixture.ref_is("refs/heads/main", &tip).await?;
    let oid = "ab".repeat(20);
    let conflict = ["refs/heads/a", "refs/heads/a-b", "refs/heads/a/b"].map(|name| (name, &*oid));
    let state = fixture.state(&conflict, None);
    fixture.refused(&state).await?;
    Ok(())
}

async fn state_first(target: &Target) -> Result<()> {
    let mut fixture = Fixture::new(target).await?;
    let announcement = fixture.announcement(vec![]);
    let state = fixture.own_state()?;
    let mut other = target.connect().await?;
    fixture.relay.send(json!(["EVENT", state])).await?;
    let announced = other.publish(&announcement).await?;
    ensure!(announced.is_held(), "{announced:?}");
    let answer = fixture.relay.answer(&state.id).await?;
    ensure!(
        answer.is_held(),
        "a state must outlive the race with its announcement: {answer:?}"
    );
    Ok(())
}

async fn older_of_another(target: &Target) -> Result<()> {
    let (mut fixture, helper) = Fixture::with_maintainer(target).await?;
    let back = fixture.answers_back(&helper);
    fixture.publish(&back).await?;
    let first = fixture.tree.tip("HEAD")?;
    let older = fixture.state_naming(&helper, &[("refs/heads/main", &first)], None);
    let second = fixture.tree.commit("second", "x")?;
    let newer = fixture.state(&[("refs/heads/main", &second)], None);
    fixture.publish(&newer).await?;
    fixture.push_ok(&["main"]).await?;
    fixture.must_serve(&newer.id).await?;
    fixture.accepted(&older).await?;
    fixture.ref_is("refs/heads/main", &second).await?;
    Ok(())
}

async fn ties(target: &Target) -> Result<()> {
    let mut fixture = Fixture::announced(target).await?;
    let (winner, loser) = tie(&mut fixture)?;
    fixture.held(&winner).await?;
    // Both may wait, but the loser allows no push.
    let answer = fixture.relay.publish(&loser).await?;
    let says_how = answer.accepted && answer.message.contains("created_at");
    ensure!(says_how, "the answer says how to go on: {answer:?}");
    fixture.push_refused(&[&push_of(&loser)?]).await?;
    fixture.must_not_serve(&loser.id).await?;
    // The other way round the later arrival wins, by the same rule.
    let mut fixture = Fixture::announced(target).await?;
    let (winner, loser) = tie(&mut fixture)?;
    fixture.held(&loser).await?;
    fixture.held(&winner).await?;
    fixture.push_ok(&[&push_of(&winner)?]).await?;
    fixture.must_serve(&winner.id).await?;
    fixture.must_not_serve(&loser.id).await
}

/// The push of `main` under the branch that a state names.
fn push_of(state: &Event) -> Result<String> {
    let mut names = state.tags.iter().map(|tag| tag.kind());
    let name = names.find(|name| name.starts_with("refs/heads/"));
    Ok(format!("main:{}", name.context("a branch")?))
}

/// Two states of one second; the one with the lowest id first.
fn tie(fixture: &mut Fixture<'_>) -> Result<(Event, Event)> {
    let (at, tip) = (fixture.tick(), fixture.tree.tip("HEAD")?);
    let mut states = ["refs/heads/main", "refs/heads/other"].map(|name| {
        let refs = [(name, tip.as_str())];
        fixture.owner.state_at(&fixture.identifier, &refs, None, at)
    });
    states.sort_by_key(|state| state.id);
    Ok(states.into())
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
    fixture.publish(&with_tag).await?;
    fixture.push_ok(&["main:refs/tags/v1"]).await?;
    fixture.must_serve(&with_tag.id).await?;
    fixture.refused(&without).await?;
    fixture.ref_is("refs/tags/v1", &tip).await?;
    Ok(())
}
