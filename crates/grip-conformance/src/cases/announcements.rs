//! G01-1 … G01-6, G01-15a, G01-18: repository announcements.

use anyhow::{Result, ensure};
use grip_testkit::{
    Author,
    events::{percent_encode, tag},
    git,
};
use nostr::prelude::Event;
use serde_json::{Value, json};

use super::cases;
use crate::{
    Target,
    fixture::{Fixture, INFO, fresh_identifier, refused},
};

cases! {
    "G01-1" "a relay at / takes announcements and their states" Url => relay_at_root;
    "G01-2" "an announcement must list the service in clone and in relays" Url => must_list_both;
    "G01-3" "listing is decided by parsed URLs" Url => parsed_urls;
    "G01-4" "identifiers are checked and several clone tags are read" Url => identifiers;
    "G01-5" "criteria beyond the defaults are applied and stated" Control => criteria;
    "G01-6" "a maintainer's announcement elsewhere is served and gets no repository" Url => maintainer_exception;
    "G01-15a" "announcements are judged in order: duplicate, older, listing" Url => arrival_order;
    "G01-18" "a newer version without the service evicts the held one" Url => eviction;
}

/// A clone URL and a relay of another service.
const ELSEWHERE: (&str, &str) = ("https://elsewhere.example/x.git", "wss://elsewhere.example");

fn announcement_at(author: &Author, id: &str, clone: &str, relays: &str) -> Event {
    let tags = vec![
        tag(["d", id]),
        tag(["clone", clone]),
        tag(["relays", relays]),
    ];
    author.sign(30617, "", tags)
}

async fn relay_at_root(target: &Target) -> Result<()> {
    let mut fixture = Fixture::announced(target).await?;
    let state = fixture.own_state()?;
    fixture.publish(&state).await?;
    fixture.push_ok(&["main"]).await?;
    fixture.must_serve(&state.id).await
}

async fn must_list_both(target: &Target) -> Result<()> {
    let mut relay = target.connect().await?;
    let (owner, id) = (Author::new(), fresh_identifier());
    let clone = tag(["clone", &owner.clone_url(&target.authority, &id)]);
    let relays = tag(["relays", &target.relay]);
    let elsewhere = tag(["clone", "https://elsewhere.example/x.git"]);
    for tags in [
        vec![clone],
        vec![relays.clone()],
        vec![elsewhere, relays],
        vec![],
    ] {
        let mut all = vec![tag(["d", &id])];
        all.extend(tags);
        let event = owner.sign(30617, "", all);
        refused(relay.publish(&event).await?, &event)?;
        ensure!(!relay.serves(&event.id).await?);
    }
    Ok(())
}

async fn parsed_urls(target: &Target) -> Result<()> {
    let mut relay = target.connect().await?;
    let at = &target.authority;
    let (owner, other) = (Author::new(), Author::new());
    let npub = owner.npub();
    let announce = |clone: String, relays: String| {
        let id = fresh_identifier();
        announcement_at(&owner, &id, &clone.replace("ID", &id), &relays)
    };
    let (ours, relays) = (format!("http://{at}/{npub}/ID.git"), format!("ws://{at}"));
    let refusals = [
        (
            format!("http://{at}.evil.example/{npub}/ID.git"),
            format!("ws://{at}.evil.example"),
        ),
        (format!("http://evil{at}/{npub}/ID.git"), relays.clone()),
        (
            format!("http://{at}/{}/ID.git", other.npub()),
            relays.clone(),
        ),
        (format!("http://{at}/{npub}/another.git"), relays.clone()),
        (format!("http://evil.example/?x={ours}"), relays.clone()),
        (format!("ftp://{at}/{npub}/ID.git"), relays.clone()),
        (ours, format!("ws://evil.example/{at}")),
    ];
    for (clone, relays) in refusals {
        let event = announce(clone, relays);
        refused(relay.publish(&event).await?, &event)?;
    }
    let upper = at.to_uppercase();
    let listed = [
        (
            format!("https://{at}/{npub}/ID.git"),
            format!("wss://{at}/"),
        ),
        (format!("http://{at}//{npub}/ID.git/"), relays),
        (
            format!("HTTP://{upper}/{npub}/ID.git"),
            format!("ws://{at}/"),
        ),
    ];
    for (clone, relays) in listed {
        // With another scheme the default port differs, so only explicit ports compare equal.
        if !at.contains(':') && clone.starts_with("https") != target.http.starts_with("https") {
            continue;
        }
        relay.publish_ok(&announce(clone, relays)).await?;
    }
    Ok(())
}

async fn identifiers(target: &Target) -> Result<()> {
    let mut relay = target.connect().await?;
    let owner = Author::new();
    let long = "x".repeat(400);
    for bad in ["", ".", "..", "a/b", "a\\b", "nul\0", "new\nline", &long] {
        let event = owner.announcement(&target.authority, bad, vec![]);
        refused(relay.publish(&event).await?, &event)?;
    }
    let no_d = owner.sign(30617, "", vec![tag(["relays", &target.relay])]);
    refused(relay.publish(&no_d).await?, &no_d)?;
    for good in [
        "naïve repo 🚀",
        "dots.and-dashes_~",
        "100%",
        "a+b",
        "colon:name",
    ] {
        let id = format!("{good} {}", fresh_identifier());
        let event = owner.announcement(&target.authority, &id, vec![]);
        relay.publish_ok(&event).await?;
        let url = format!(
            "{}/{}/{}.git",
            target.http,
            owner.npub(),
            percent_encode(&id)
        );
        let refs = git::ls_remote(&url).await?;
        ensure!(refs.is_empty(), "{id}: the empty repository is reachable");
    }
    let id = fresh_identifier();
    let clone = owner.clone_url(&target.authority, &id);
    let tags = vec![
        tag(["d", &id]),
        tag(["clone", ELSEWHERE.0]),
        tag(["clone", &clone]),
        tag(["relays", ELSEWHERE.1]),
        tag(["relays", &target.relay]),
    ];
    relay.publish_ok(&owner.sign(30617, "", tags)).await?;
    Ok(())
}

async fn criteria(target: &Target) -> Result<()> {
    let friend = Author::new();
    let settings = [("NGIT_REPOSITORY_WHITELIST", &*friend.npub())];
    target.restart_with(&settings).await?;
    let mut relay = target.connect().await?;
    let stranger = Author::new();
    let event = stranger.announcement(&target.authority, &fresh_identifier(), vec![]);
    refused(relay.publish(&event).await?, &event)?;
    let event = friend.announcement(&target.authority, &fresh_identifier(), vec![]);
    relay.publish_ok(&event).await?;
    let accept = [("Accept", "application/nostr+json")];
    let document: Value = target.get("/", &accept).await?.json().await?;
    let stated = document["repo_acceptance_criteria"].as_str();
    let is_stated = !matches!(stated, None | Some("" | "None"));
    ensure!(is_stated, "the criteria are not stated: {stated:?}");
    Ok(())
}

async fn maintainer_exception(target: &Target) -> Result<()> {
    let (mut fixture, helper) = Fixture::with_maintainer(target).await?;
    let elsewhere =
        |author: &Author, id: &str| announcement_at(author, id, ELSEWHERE.0, ELSEWHERE.1);
    let id = fixture.identifier.clone();
    fixture.accepted(&elsewhere(&helper, &id)).await?;
    let info = format!("/{}/{id}.git/{INFO}", helper.npub());
    ensure!(
        target.status(&info).await? == 404,
        "no repository may be created"
    );
    // The same key under another identifier, and a stranger, have no such right.
    let other = elsewhere(&helper, &fresh_identifier());
    fixture.refused(&other).await?;
    fixture.refused(&elsewhere(&Author::new(), &id)).await?;
    Ok(())
}

async fn arrival_order(target: &Target) -> Result<()> {
    let mut fixture = Fixture::new(target).await?;
    let old = fixture.announcement(vec![]);
    let new = fixture.announcement(vec![tag(["description", "newer"])]);
    fixture.held(&new).await?;
    fixture.duplicate(&new).await?;
    fixture.refused(&old).await?;
    fixture.publish_and_push().await?;
    fixture.must_serve(&new.id).await?;
    // A replacement of a served announcement waits for nothing.
    let newest = fixture.announcement(vec![tag(["description", "newest"])]);
    fixture.accepted(&newest).await?;
    fixture.must_not_serve(&new.id).await?;
    fixture.refused(&old).await?;
    let filter = json!({"kinds": [30617], "#d": [fixture.identifier]});
    let found = fixture.relay.query(&[filter]).await?;
    let is_newest = found.len() == 1 && found[0].id == newest.id;
    ensure!(is_newest, "only the newest version is served");
    Ok(())
}

async fn eviction(target: &Target) -> Result<()> {
    let mut fixture = Fixture::announced(target).await?;
    git::ls_remote(&fixture.clone_url()).await?;
    let (owner, id) = (&fixture.owner, &fixture.identifier);
    let gone = announcement_at(owner, id, ELSEWHERE.0, ELSEWHERE.1);
    fixture.refused(&gone).await?;
    let info = format!("{}/{INFO}", fixture.path());
    ensure!(
        target.status(&info).await? == 404,
        "the empty repository must go"
    );
    Ok(())
}
