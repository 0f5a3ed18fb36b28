//! G05-1 … G05-12: repositories that are mirrored though they do not list the server.

use anyhow::{Context as _, Result, ensure};
use grip_testkit::Author;
use serde_json::Value;

use super::cases;
use crate::{
    Target,
    fixture::{Fixture, INFO, fresh_identifier, refused},
};

cases! {
    "G05-5" "NIP-11 lists GRASP-05 exactly when repositories are archived" Control => listed;
    "G05-7" "an archived announcement is held, reachable and not served before its data" Control => held;
    "G05-8" "a read-only archive refuses pushes, and announcements that it does not select" Control => read_only;
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
