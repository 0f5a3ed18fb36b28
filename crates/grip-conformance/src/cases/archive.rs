//! G05-1 … G05-12: repositories that are mirrored though they do not list the server.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Author, events::tag};
use serde_json::Value;

use super::cases;
use crate::{
    Target,
    fixture::{Fixture, INFO, fresh_identifier, refused},
};

cases! {
    "G05-5" "NIP-11 lists GRASP-05 exactly when repositories are archived" Control => listed;
    "G05-6" "a whitelist selects by key, by repository and by name" Control => whitelist;
    "G05-6" "services select what they have a clone URL of" Control => services;
    "G05-7" "an archived announcement is held, reachable and not served before its data" Control => held;
    "G05-8" "a read-only archive refuses pushes, and announcements that it does not select" Control => read_only;
    "G05-9" "the blacklist comes before the selection, and maintainers of what is selected before a refusal" Control => order;
    "G05-9" "an archive that is not read-only hosts who lists it, within the repository whitelist" Control => beside_hosting;
    "G05-11" "NIP-11 says what a read-only archive mirrors" Control => curation;
    "G05-12" "what the selection no longer covers leaves the service" Control => shrinking;
}

const ALL: [(&str, &str); 1] = [("NGIT_ARCHIVE_ALL", "true")];
const ELSEWHERE: &str = "git.elsewhere.example";

async fn document(target: &Target) -> Result<Value> {
    let accept = [("Accept", "application/nostr+json")];
    Ok(target.get("/", &accept).await?.json().await?)
}

async fn lists_archive(target: &Target) -> Result<bool> {
    let document = document(target).await?;
    let grasps = document["supported_grasps"].as_array();
    let grasps = grasps.context("supported_grasps")?;
    Ok(grasps.iter().any(|grasp| grasp == "GRASP-05"))
}

async fn listed(target: &Target) -> Result<()> {
    ensure!(!lists_archive(target).await?, "nothing is archived yet");
    target.restart_with(&ALL).await?;
    ensure!(lists_archive(target).await?, "everything is archived");
    Ok(())
}

async fn held(target: &Target) -> Result<()> {
    target.restart_with(&ALL).await?;
    let mut fixture = Fixture::new(target).await?;
    let event = fixture
        .owner
        .announcement(ELSEWHERE, &fixture.identifier, vec![]);
    fixture.held(&event).await?;
    let info = format!("{}/{INFO}", fixture.path());
    ensure!(target.status(&info).await? == 200, "it is reachable");
    let state = fixture.own_state()?;
    fixture.held(&state).await?;
    fixture.must_not_serve(&event.id).await
}

async fn read_only(target: &Target) -> Result<()> {
    let chosen = fresh_identifier();
    let settings = [("NGIT_ARCHIVE_WHITELIST", chosen.as_str())];
    target.restart_with(&settings).await?;
    let mut fixture = Fixture::new(target).await?;
    let other = fixture.announcement(vec![]);
    refused(fixture.relay.publish(&other).await?, &other)?;
    fixture.identifier = chosen;
    let event = fixture.announcement(vec![]);
    fixture.held(&event).await?;
    let state = fixture.own_state()?;
    fixture.held(&state).await?;
    let reason = fixture.push_refused(&["main"]).await?;
    ensure!(reason.contains("read-only"), "{reason}");
    Ok(())
}

async fn whitelist(target: &Target) -> Result<()> {
    let [everything, one, stranger] = [0; 3].map(|_| Author::new());
    let (by_name, other) = (fresh_identifier(), fresh_identifier());
    let list = format!("{},{}/{other},{by_name}", everything.npub(), one.npub());
    target
        .restart_with(&[("NGIT_ARCHIVE_WHITELIST", list.as_str())])
        .await?;
    let mut fixture = Fixture::new(target).await?;
    for (author, identifier) in [(&everything, &other), (&one, &other), (&stranger, &by_name)] {
        let selected = author.announcement(ELSEWHERE, identifier, vec![]);
        fixture.held(&selected).await?;
    }
    let own = fresh_identifier();
    for (author, identifier) in [(&one, &own), (&stranger, &other)] {
        let left_out = author.announcement(ELSEWHERE, identifier, vec![]);
        fixture.refused(&left_out).await?;
    }
    Ok(())
}

async fn services(target: &Target) -> Result<()> {
    target
        .restart_with(&[("NGIT_ARCHIVE_GRASP_SERVICES", ELSEWHERE)])
        .await?;
    let mut fixture = Fixture::new(target).await?;
    let there = fixture
        .owner
        .announcement(ELSEWHERE, &fixture.identifier, vec![]);
    fixture.held(&there).await?;
    let third = Author::new().announcement("git.third.example", &fixture.identifier, vec![]);
    fixture.refused(&third).await.map(drop)
}

async fn order(target: &Target) -> Result<()> {
    let (owner, banned) = (Author::new(), Author::new());
    let chosen = fresh_identifier();
    let (list, blacklist) = (
        format!("{}/{chosen},{}", owner.npub(), banned.npub()),
        banned.npub(),
    );
    target
        .restart_with(&[
            ("NGIT_ARCHIVE_WHITELIST", list.as_str()),
            ("NGIT_REPOSITORY_BLACKLIST", &blacklist),
        ])
        .await?;
    let mut fixture = Fixture::new(target).await?;
    let left_out = banned.announcement(ELSEWHERE, &chosen, vec![]);
    fixture.refused(&left_out).await?;
    // A key that is listed is no stranger, though it is not selected.
    let (listed, stranger) = (Author::new(), Author::new());
    let listing = vec![tag(["maintainers", &listed.hex()])];
    fixture
        .held(&owner.announcement(ELSEWHERE, &chosen, listing))
        .await?;
    let theirs = listed.announcement(ELSEWHERE, &chosen, vec![]);
    fixture.publish(&theirs).await?;
    let strange = stranger.announcement(ELSEWHERE, &chosen, vec![]);
    fixture.refused(&strange).await.map(drop)
}

async fn beside_hosting(target: &Target) -> Result<()> {
    let (hosted, archived) = (fresh_identifier(), fresh_identifier());
    target
        .restart_with(&[
            ("NGIT_ARCHIVE_WHITELIST", archived.as_str()),
            ("NGIT_ARCHIVE_READ_ONLY", "false"),
            ("NGIT_REPOSITORY_WHITELIST", &hosted),
        ])
        .await?;
    let mut fixture = Fixture::new(target).await?;
    fixture.identifier = hosted.clone();
    let listing = fixture.announcement(vec![]);
    fixture.held(&listing).await?;
    let elsewhere = Author::new().announcement(ELSEWHERE, &archived, vec![]);
    fixture.held(&elsewhere).await?;
    fixture.identifier = fresh_identifier();
    let unchosen = fixture.announcement(vec![]);
    fixture.refused(&unchosen).await?;
    // To be hosted here is not enough to be copied from elsewhere.
    let elsewhere = Author::new().announcement(ELSEWHERE, &hosted, vec![]);
    fixture.refused(&elsewhere).await.map(drop)
}

async fn curation(target: &Target) -> Result<()> {
    let chosen = [("NGIT_ARCHIVE_WHITELIST", "chosen")];
    target.restart_with(&chosen).await?;
    let text = document(target).await?["curation"].clone();
    ensure!(
        text == "Read-only sync of whitelisted repositories and maintainers",
        "{text}"
    );
    target.restart_with(&ALL).await?;
    let text = document(target).await?["curation"].clone();
    ensure!(
        text == "Read-only sync of all repositories found on network",
        "{text}"
    );
    Ok(())
}

async fn shrinking(target: &Target) -> Result<()> {
    target.restart_with(&ALL).await?;
    let mut fixture = Fixture::new(target).await?;
    let event = Author::announcement(&fixture.owner, ELSEWHERE, &fixture.identifier, vec![]);
    fixture.held(&event).await?;
    let info = format!("{}/{INFO}", fixture.path());
    ensure!(target.status(&info).await? == 200);
    let fewer = [
        ("NGIT_ARCHIVE_ALL", "false"),
        ("NGIT_ARCHIVE_WHITELIST", "other"),
    ];
    target.restart_with(&fewer).await?;
    grip_testkit::until("the repository is gone", || async {
        let status = target.status(&info).await.ok()?;
        (status == 404).then_some(())
    })
    .await
}
