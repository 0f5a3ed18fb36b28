//! G01-26 … G01-29, G01-31: who may move refs.

use anyhow::{Result, ensure};
use grip_testkit::{Author, events::tag};

use super::cases;
use crate::{Target, fixture::Fixture};

cases! {
    "G01-26" "maintainers are followed through the chain of announcements" Url => chain;
    "G01-27" "under the reciprocal rule an invited key must name someone back" Control => reciprocal;
    "G01-28" "by default a listed key authorises without an announcement of its own" Url => legacy_default;
    "G01-29" "being listed gives no right over the listed one's repository" Url => per_owner;
    "G01-31" "a removed maintainer moves no refs any more" Url => shrinking;
}

async fn chain(target: &Target) -> Result<()> {
    let (middle, last) = (Author::new(), Author::new());
    let mut fixture =
        Fixture::served_with(target, vec![tag(["maintainers", &middle.hex()])]).await?;
    fixture.tree.commit("by-middle", "x")?;
    let state = fixture.state_of(&middle)?;
    fixture.publish(&state).await?;
    fixture.push_ok(&["main"]).await?;
    fixture.must_serve(&state.id).await?;
    // The next link is named only by the middle one, in a still held announcement; its commit is
    // an unrelated root.
    let announcement = middle.announcement(
        &target.authority,
        &fixture.identifier,
        vec![tag(["maintainers", &last.hex()])],
    );
    fixture.publish(&announcement).await?;
    fixture.tree.git(["checkout", "-q", "--orphan", "fresh"])?;
    let root = fixture.tree.commit("new-root", "y")?;
    let state = fixture.state_naming(
        &last,
        &[("refs/heads/main", &root)],
        Some("refs/heads/main"),
    );
    fixture.publish(&state).await?;
    fixture.push_ok(&["+fresh:refs/heads/main"]).await?;
    fixture.must_serve(&state.id).await?;
    fixture.ref_is("refs/heads/main", &root).await?;
    Ok(())
}

async fn reciprocal(target: &Target) -> Result<()> {
    target
        .restart_with(&[("GRIPFAST_MAINTAINER_RULE", "reciprocal")])
        .await?;
    let (mut fixture, helper) = Fixture::with_maintainer(target).await?;
    fixture.tree.commit("by-helper", "x")?;
    let state = fixture.state_of(&helper)?;
    fixture.refused(&state).await?;
    let back = fixture.answers_back(&helper);
    fixture.publish(&back).await?;
    fixture.publish(&state).await?;
    fixture.push_ok(&["main"]).await?;
    fixture.must_serve(&state.id).await
}

async fn legacy_default(target: &Target) -> Result<()> {
    let helper = Author::new();
    let mut fixture =
        Fixture::announced_with(target, vec![tag(["maintainers", &helper.hex()])]).await?;
    let state = fixture.state_of(&helper)?;
    fixture.held(&state).await?;
    fixture.push_ok(&["main"]).await?;
    fixture.must_serve(&state.id).await
}

async fn per_owner(target: &Target) -> Result<()> {
    let listed = Author::new();
    let mut fixture =
        Fixture::served_with(target, vec![tag(["maintainers", &listed.hex()])]).await?;
    let own = listed.announcement(&target.authority, &fixture.identifier, vec![]);
    fixture.publish(&own).await?;
    let theirs = fixture.state_of(&listed)?;
    fixture.publish(&theirs).await?;
    fixture.must_serve(&theirs.id).await?;
    // The owner's next state moves the owner's repository alone.
    let before = fixture.tree.tip("HEAD")?;
    let after = fixture.tree.commit("owner-only", "x")?;
    let state = fixture.own_state()?;
    fixture.publish(&state).await?;
    fixture.push_ok(&["main"]).await?;
    fixture.must_serve(&state.id).await?;
    let refs = grip_testkit::git::ls_remote(&fixture.clone_url_of(&listed)).await?;
    let main = refs.iter().find(|(name, _)| name == "refs/heads/main");
    ensure!(main.is_some_and(|(_, oid)| *oid == before), "{refs:?}");
    fixture.ref_is("refs/heads/main", &after).await?;
    Ok(())
}

async fn shrinking(target: &Target) -> Result<()> {
    let (mut fixture, helper) = Fixture::with_maintainer(target).await?;
    let alone = fixture.announcement(vec![]);
    fixture.accepted(&alone).await?;
    fixture.tree.commit("by-helper", "x")?;
    let state = fixture.state_of(&helper)?;
    fixture.refused(&state).await?;
    fixture.push_refused(&["main"]).await?;
    Ok(())
}
