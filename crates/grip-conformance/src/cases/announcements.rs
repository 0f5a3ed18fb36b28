//! G01-1 … G01-6, G01-15a, G01-18: repository announcements.

use anyhow::{Result, ensure};
use grip_testkit::{Author, events::tag};
use nostr::prelude::Timestamp;
use serde_json::json;

use super::cases;
use crate::{
    Target,
    fixture::{Fixture, fresh_identifier, refused},
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

async fn relay_at_root(target: &Target) -> Result<()> {
    let mut fixture = Fixture::announced(target).await?;
    let owner = fixture.owner.clone();
    let state = fixture.state_of(&owner)?;
    fixture.relay.publish_ok(&state).await?;
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
    let announce = |id: &str, clone: String, relays: String| {
        owner.sign(
            30617,
            "",
            vec![
                tag(["d", id]),
                tag(["clone", &clone]),
                tag(["relays", &relays]),
            ],
        )
    };
    let refusals = [
        (
            format!("http://{at}.evil.example/{npub}/ID.git"),
            format!("ws://{at}.evil.example"),
        ),
        (
            format!("http://evil{at}/{npub}/ID.git"),
            format!("ws://{at}"),
        ),
        (
            format!("http://{at}/{}/ID.git", other.npub()),
            format!("ws://{at}"),
        ),
        (
            format!("http://{at}/{npub}/another.git"),
            format!("ws://{at}"),
        ),
        (
            format!("http://evil.example/?x=http://{at}/{npub}/ID.git"),
            format!("ws://{at}"),
        ),
        (format!("ftp://{at}/{npub}/ID.git"), format!("ws://{at}")),
        (
            format!("http://{at}/{npub}/ID.git"),
            format!("ws://evil.example/{at}"),
        ),
    ];
    for (clone, relays) in refusals {
        let id = fresh_identifier();
        let event = announce(&id, clone.replace("ID", &id), relays);
        refused(relay.publish(&event).await?, &event)?;
    }
    let listed = [
        (
            format!("https://{at}/{npub}/ID.git"),
            format!("wss://{at}/"),
        ),
        (format!("http://{at}//{npub}/ID.git/"), format!("ws://{at}")),
        (
            format!("HTTP://{}/{npub}/ID.git", at.to_uppercase()),
            format!("ws://{at}/"),
        ),
    ];
    for (clone, relays) in listed {
        // With another scheme the default port differs, so only explicit ports compare equal.
        if !at.contains(':') && clone.starts_with("https") != target.http.starts_with("https") {
            continue;
        }
        let id = fresh_identifier();
        relay
            .publish_ok(&announce(&id, clone.replace("ID", &id), relays))
            .await?;
    }
    Ok(())
}

async fn identifiers(target: &Target) -> Result<()> {
    let mut relay = target.connect().await?;
    let owner = Author::new();
    let long = "x".repeat(400);
    for bad in [
        "",
        ".",
        "..",
        "a/b",
        "a\\b",
        "nul\0",
        "new\nline",
        long.as_str(),
    ] {
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
        relay
            .publish_ok(&owner.announcement(&target.authority, &id, vec![]))
            .await?;
        let encoded = grip_testkit::events::percent_encode(&id);
        let url = format!("{}/{}/{encoded}.git", target.http, owner.npub());
        let refs = grip_testkit::git::ls_remote(&url).await?;
        ensure!(refs.is_empty(), "{id}: the empty repository is reachable");
    }
    let id = fresh_identifier();
    let clone = owner.clone_url(&target.authority, &id);
    let split = owner.sign(
        30617,
        "",
        vec![
            tag(["d", &id]),
            tag(["clone", "https://elsewhere.example/x.git"]),
            tag(["clone", &clone]),
            tag(["relays", "wss://elsewhere.example"]),
            tag(["relays", &target.relay]),
        ],
    );
    relay.publish_ok(&split).await?;
    Ok(())
}

async fn criteria(target: &Target) -> Result<()> {
    let friend = Author::new();
    target
        .restart_with(&[("NGIT_REPOSITORY_WHITELIST", &friend.npub())])
        .await?;
    let mut relay = target.connect().await?;
    let stranger = Author::new();
    let event = stranger.announcement(&target.authority, &fresh_identifier(), vec![]);
    refused(relay.publish(&event).await?, &event)?;
    relay
        .publish_ok(&friend.announcement(&target.authority, &fresh_identifier(), vec![]))
        .await?;
    let document: serde_json::Value = target
        .get("/", &[("Accept", "application/nostr+json")])
        .await?
        .json()
        .await?;
    let stated = document["repo_acceptance_criteria"]
        .as_str()
        .unwrap_or_default();
    ensure!(
        !stated.is_empty() && stated != "None",
        "the criteria are not stated: {stated:?}"
    );
    Ok(())
}

async fn maintainer_exception(target: &Target) -> Result<()> {
    let helper = Author::new();
    let lists = vec![tag(["maintainers", &helper.hex()])];
    let mut fixture = Fixture::served_with(target, lists).await?;
    let elsewhere = |author: &Author, id: &str| {
        author.sign(
            30617,
            "",
            vec![
                tag(["d", id]),
                tag(["clone", "https://elsewhere.example/x.git"]),
                tag(["relays", "wss://elsewhere.example"]),
            ],
        )
    };
    let id = fixture.identifier.clone();
    fixture.accepted(&elsewhere(&helper, &id)).await?;
    let info = format!(
        "/{}/{id}.git/info/refs?service=git-upload-pack",
        helper.npub()
    );
    ensure!(
        target.get(&info, &[]).await?.status() == 404,
        "no repository may be created"
    );
    // The same key under another identifier, and a stranger, have no such right.
    fixture
        .refused(&elsewhere(&helper, &fresh_identifier()))
        .await?;
    fixture.refused(&elsewhere(&Author::new(), &id)).await?;
    Ok(())
}

async fn arrival_order(target: &Target) -> Result<()> {
    let mut fixture = Fixture::new(target).await?;
    let old = fixture.announcement(vec![]);
    let new = fixture.announcement(vec![tag(["description", "newer"])]);
    fixture.held(&new).await?;
    let again = fixture.relay.publish(&new).await?;
    ensure!(
        again.accepted && again.message.starts_with("duplicate:"),
        "{again:?}"
    );
    fixture.refused(&old).await?;
    fixture.publish_and_push().await?;
    fixture.must_serve(&new.id).await?;
    // A replacement of a served announcement waits for nothing.
    let newest = fixture.announcement(vec![tag(["description", "newest"])]);
    fixture.accepted(&newest).await?;
    fixture.must_not_serve(&new.id).await?;
    fixture.refused(&old).await?;
    let found = fixture
        .relay
        .query(&[json!({"kinds": [30617], "#d": [fixture.identifier]})])
        .await?;
    ensure!(
        found.len() == 1 && found[0].id == newest.id,
        "only the newest version is served"
    );
    Ok(())
}

async fn eviction(target: &Target) -> Result<()> {
    let mut fixture = Fixture::announced(target).await?;
    ensure!(
        grip_testkit::git::ls_remote(&fixture.clone_url())
            .await
            .is_ok()
    );
    let at = Timestamp::now();
    let gone = fixture.owner.sign_at(
        30617,
        "",
        vec![
            tag(["d", &fixture.identifier]),
            tag(["clone", "https://elsewhere.example/x.git"]),
            tag(["relays", "wss://elsewhere.example"]),
        ],
        at,
    );
    fixture.refused(&gone).await?;
    let info = format!("{}/info/refs?service=git-upload-pack", fixture.path());
    ensure!(
        target.get(&info, &[]).await?.status() == 404,
        "the empty repository must go"
    );
    Ok(())
}
