//! G01-26, G01-29, G01-31, G01-68 … G01-82: who may move refs.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    Author,
    events::tag,
    roles::{RoleCase, role_cases, role_tags},
};

use super::cases;
use crate::{Target, fixture::Fixture};

cases! {
    "G01-26" "under the legacy rule maintainers are followed through the chain of announcements" Control => chain;
    "G01-72" "a repository whose owner points to a lead follows the states of the lead" Url => lead;
    "G01-72" "states are taken of whom the worked cases of roles confirm, and of nobody they leave out" Url => worked;
    "G01-73" "without a lead that can be resolved states and pushes are refused with the reason" Url => nobody;
    "G01-74" "a listed key moves refs once its own announcement lists a maintainer" Url => reciprocal;
    "G01-77" "under the legacy rule a listed key authorises without an announcement of its own" Control => legacy;
    "G01-79" "an announcement that does not answer is served and gives no authority" Url => discovery;
    "G01-80" "the state of an invited key is held and authorises nothing" Url => invited;
    "G01-81" "refs move when an invited key accepts" Url => accepting;
    "G01-82" "a chain of leads is followed for 64 steps and no further" Url => long_chain;
    "G01-29" "being listed gives no right over the listed one's repository" Url => per_owner;
    "G01-31" "a removed maintainer moves no refs any more" Url => shrinking;
}

/// Has the server follow the rule of the published GRASP-01.
async fn by_legacy_rule(target: &Target) -> Result<()> {
    let settings = [("GRIPFAST_MAINTAINER_RULE", "legacy")];
    target.restart_with(&settings).await
}

async fn chain(target: &Target) -> Result<()> {
    by_legacy_rule(target).await?;
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

/// G01-69 … G01-76 under one identifier each: A, B and C announce what the case says, and sign states.
async fn worked(target: &Target) -> Result<()> {
    for case in &role_cases() {
        worked_case(target, case)
            .await
            .with_context(|| format!("case {}: {:?}", case.number, case.announcements))?;
    }
    Ok(())
}

async fn worked_case(target: &Target, case: &RoleCase) -> Result<()> {
    let mut fixture = Fixture::new(target).await?;
    let people: BTreeMap<char, Author> = ['A', 'B', 'C'].map(|it| (it, Author::new())).into();
    for text in &case.announcements {
        let author = &people[&text.chars().next().context("it names its author")?];
        let tags = role_tags(text, |name| people[&name].hex());
        let event = author.announcement(&target.authority, &fixture.identifier, tags);
        fixture.publish(&event).await?;
    }
    for name in case.taken.chars() {
        let state = fixture.state_of(&people[&name])?;
        let held = fixture.held(&state).await;
        held.with_context(|| format!("the state of {name}"))?;
    }
    for name in case.refused.chars() {
        let state = fixture.state_of(&people[&name])?;
        let refused = fixture.refused(&state).await;
        refused.with_context(|| format!("the state of {name}"))?;
    }
    Ok(())
}

async fn lead(target: &Target) -> Result<()> {
    let mut fixture = Fixture::served(target).await?;
    let lead = fixture.owner.clone();
    let leading = fixture.announcement(vec![tag(["M", &lead.hex()])]);
    fixture.accepted(&leading).await?;
    let member = Author::new();
    let pointing = member.announcement(
        &target.authority,
        &fixture.identifier,
        vec![tag(["M", &lead.hex()]), tag(["m", &member.hex()])],
    );
    fixture.publish(&pointing).await?;
    let tip = fixture.tree.commit("by-lead", "x")?;
    fixture.publish_and_push().await?;
    let url = fixture.clone_url_of(&member);
    grip_testkit::git::until_ref(&url, "refs/heads/main", &tip).await?;
    // The lead does not list them: their own states count for nobody.
    let own = fixture.state_of(&member)?;
    fixture.refused(&own).await.map(drop)
}

async fn nobody(target: &Target) -> Result<()> {
    let mut fixture = Fixture::served(target).await?;
    let before = fixture.tree.tip("HEAD")?;
    let (owner, other) = (fixture.owner.hex(), Author::new().hex());
    let ambiguous = fixture.announcement(vec![tag(["M", &owner]), tag(["M", &other])]);
    fixture.publish(&ambiguous).await?;
    fixture.tree.commit("by-owner", "x")?;
    let state = fixture.own_state()?;
    let reason = fixture.refused(&state).await?;
    ensure!(reason.contains("lead"), "{reason}");
    let reason = fixture.push_refused(&["main"]).await?;
    ensure!(reason.contains("lead"), "{reason}");
    fixture.ref_is("refs/heads/main", &before).await
}

async fn reciprocal(target: &Target) -> Result<()> {
    let (mut fixture, helper) = Fixture::with_maintainer(target).await?;
    let back = fixture.answers_back(&helper);
    fixture.publish(&back).await?;
    fixture.tree.commit("by-helper", "x")?;
    let state = fixture.state_of(&helper)?;
    fixture.held(&state).await?;
    fixture.push_ok(&["main"]).await?;
    fixture.must_serve(&state.id).await
}

async fn discovery(target: &Target) -> Result<()> {
    let (mut fixture, helper) = Fixture::with_maintainer(target).await?;
    let before = fixture.tree.tip("HEAD")?;
    let elsewhere = helper.announcement("git.elsewhere.example", &fixture.identifier, vec![]);
    fixture.accepted(&elsewhere).await?;
    fixture.tree.commit("by-helper", "x")?;
    let state = fixture.state_of(&helper)?;
    fixture.relay.publish(&state).await?;
    fixture.push_refused(&["main"]).await?;
    fixture.ref_is("refs/heads/main", &before).await
}

async fn invited(target: &Target) -> Result<()> {
    let (mut fixture, helper) = Fixture::with_maintainer(target).await?;
    let before = fixture.tree.tip("HEAD")?;
    fixture.tree.commit("by-helper", "x")?;
    let state = fixture.state_of(&helper)?;
    fixture.held(&state).await?;
    fixture.push_refused(&["main"]).await?;
    fixture.must_not_serve(&state.id).await?;
    fixture.ref_is("refs/heads/main", &before).await?;
    let stranger = fixture.state_of(&Author::new())?;
    fixture.refused(&stranger).await.map(drop)
}

async fn accepting(target: &Target) -> Result<()> {
    let (mut fixture, helper) = Fixture::with_maintainer(target).await?;
    let tip = fixture.tree.tip("HEAD")?;
    let state = fixture.state_naming(&helper, &[("refs/heads/theirs", &tip)], None);
    fixture.held(&state).await?;
    fixture.lacks_ref("refs/heads/theirs").await?;
    let back = fixture.answers_back(&helper);
    fixture.publish(&back).await?;
    fixture.must_serve(&state.id).await?;
    fixture.ref_is("refs/heads/theirs", &tip).await
}

/// Leads that are followed at most.
const MAX_STEPS: usize = 64;

async fn long_chain(target: &Target) -> Result<()> {
    let mut fixture = Fixture::new(target).await?;
    // Each points to the next one, and the last, who is the first to announce, to itself.
    let people: Vec<Author> = (0..=MAX_STEPS).map(|_| Author::new()).collect();
    let last = people[MAX_STEPS].clone();
    let next = people.iter().skip(1).chain([&last]);
    let chain: Vec<(&Author, &Author)> = people.iter().zip(next).collect();
    for (author, lead) in chain.into_iter().rev() {
        let tags = vec![tag(["M", &lead.hex()])];
        let event = author.announcement(&target.authority, &fixture.identifier, tags);
        fixture.held(&event).await?;
    }
    fixture.owner = last;
    let tip = fixture.tree.tip("HEAD")?;
    fixture.publish_and_push().await?;
    let near = fixture.clone_url_of(&people[1]);
    grip_testkit::git::until_ref(&near, "refs/heads/main", &tip).await?;
    let far = fixture.clone_url_of(&people[0]);
    let refs = grip_testkit::git::ls_remote(&far).await?;
    ensure!(refs.is_empty(), "{refs:?}");
    Ok(())
}

async fn legacy(target: &Target) -> Result<()> {
    by_legacy_rule(target).await?;
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
