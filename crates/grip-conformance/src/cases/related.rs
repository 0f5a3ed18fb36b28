//! G01-7 … G01-11: events that belong to what is served.

use anyhow::{Result, ensure};
use grip_testkit::{Author, events::tag};
use serde_json::json;

use super::cases;
use crate::{Target, fixture::Fixture};

cases! {
    "G01-7" "events that tag something served are taken, transitively" Url => forward;
    "G01-7" "events that something served tags are taken when they come later" Url => backward;
    "G01-7" "events about a repository never accepted are refused" Url => unrelated;
    "G01-8" "address values keep their colons and may name the state" Url => addresses;
    "G01-8" "events about a held announcement are never served" Url => about_held;
    "G01-9" "unrelated events are refused and no curation is claimed" Url => no_curation;
    "G01-10" "grasp lists and deletions need no relation" Url => always_taken;
    "G01-11" "a state with 20,000 refs is taken" Url => large_state;
}

async fn forward(target: &Target) -> Result<()> {
    let mut fixture = Fixture::served(target).await?;
    let (reporter, replier) = (Author::new(), Author::new());
    let issue = fixture.issue(&reporter, "broken");
    fixture.accepted(&issue).await?;
    let comment = replier.comment(&issue, "me too");
    fixture.accepted(&comment).await?;
    fixture
        .accepted(&reporter.comment(&comment, "thanks"))
        .await?;
    let coordinate = fixture.coordinate();
    let by = |kind: u16, name: &str, value: &str| replier.sign(kind, "x", vec![tag([name, value])]);
    fixture.accepted(&by(1111, "A", &coordinate)).await?;
    fixture.accepted(&by(1, "q", &coordinate)).await?;
    fixture.accepted(&by(1621, "q", &issue.id.to_hex())).await?;
    fixture.accepted(&by(1111, "E", &issue.id.to_hex())).await?;
    fixture.accepted(&by(1, "e", &issue.id.to_hex())).await?;
    fixture.accepted(&by(1617, "a", &coordinate)).await?;
    fixture.accepted(&by(1630, "e", &issue.id.to_hex())).await?;
    fixture.accepted(&by(7, "e", &comment.id.to_hex())).await
}

async fn backward(target: &Target) -> Result<()> {
    let mut fixture = Fixture::served(target).await?;
    let author = Author::new();
    let coordinate = fixture.coordinate();
    for letter in ["q", "e", "E"] {
        let later = author.sign(1, &format!("quoted by {letter}"), vec![]);
        fixture.refused(&later).await?;
        let quoting = author.sign(
            1621,
            "see",
            vec![tag(["a", &coordinate]), tag([letter, &later.id.to_hex()])],
        );
        fixture.accepted(&quoting).await?;
        fixture.accepted(&later).await?;
    }
    let article = author.sign(30023, "text", vec![tag(["d", "guide"])]);
    fixture.refused(&article).await?;
    let address = format!("30023:{}:guide", author.hex());
    let citing = author.sign(
        1621,
        "see",
        vec![tag(["a", &coordinate]), tag(["q", &address])],
    );
    fixture.accepted(&citing).await?;
    fixture.accepted(&article).await
}

async fn unrelated(target: &Target) -> Result<()> {
    let mut fixture = Fixture::served(target).await?;
    let stranger = Author::new();
    let issue = stranger.issue(&stranger, "never-seen", "x");
    let message = fixture.refused(&issue).await?;
    ensure!(message.starts_with("blocked:"), "{message}");
    fixture.refused(&stranger.comment(&issue, "x")).await?;
    fixture.refused(&stranger.sign(1, "hello", vec![])).await?;
    // A mention of a person is no relation.
    fixture
        .refused(&stranger.sign(1, "hi", vec![tag(["p", &fixture.owner.hex()])]))
        .await?;
    Ok(())
}

async fn addresses(target: &Target) -> Result<()> {
    let mut fixture = Fixture::new(target).await?;
    fixture.identifier = format!("a:b:{}", fixture.identifier);
    let announcement = fixture.announcement(vec![]);
    fixture.publish(&announcement).await?;
    fixture.publish_and_push().await?;
    let reporter = Author::new();
    fixture
        .accepted(&fixture.issue(&reporter, "colons"))
        .await?;
    let state = format!("30618:{}:{}", fixture.owner.hex(), fixture.identifier);
    fixture
        .accepted(&reporter.sign(1111, "about the state", vec![tag(["A", &state])]))
        .await
}

async fn about_held(target: &Target) -> Result<()> {
    let mut fixture = Fixture::announced(target).await?;
    let issue = Author::new().issue(&fixture.owner, &fixture.identifier, "early");
    let answer = fixture.relay.publish(&issue).await?;
    ensure!(
        !answer.is_served(),
        "an issue about a held repository must not be served: {answer:?}"
    );
    ensure!(!answer.message.is_empty(), "the answer says why");
    fixture.must_not_serve(&issue.id).await
}

async fn no_curation(target: &Target) -> Result<()> {
    let mut fixture = Fixture::new(target).await?;
    let wrap = fixture
        .owner
        .sign(1059, "secret", vec![tag(["p", &Author::new().hex()])]);
    let message = fixture.refused(&wrap).await?;
    ensure!(message.starts_with("blocked:"), "{message}");
    let document: serde_json::Value = target
        .get("/", &[("Accept", "application/nostr+json")])
        .await?
        .json()
        .await?;
    if let Some(curation) = document.get("curation") {
        ensure!(
            curation.as_str().is_some_and(|text| !text.is_empty()),
            "curation: {curation}"
        );
    }
    Ok(())
}

async fn always_taken(target: &Target) -> Result<()> {
    let mut fixture = Fixture::new(target).await?;
    let list = fixture
        .owner
        .sign(10317, "", vec![tag(["g", &target.relay])]);
    fixture.accepted(&list).await?;
    let deletion = fixture.owner.delete_events(&[list.id]);
    fixture.accepted(&deletion).await?;
    fixture.must_not_serve(&list.id).await?;
    fixture.refused(&list).await?;
    Ok(())
}

async fn large_state(target: &Target) -> Result<()> {
    let mut fixture = Fixture::announced(target).await?;
    let tip = fixture.tree.tip("HEAD")?;
    let names: Vec<String> = (0..20_000).map(|n| format!("refs/tags/v{n:05}")).collect();
    let refs: Vec<(&str, &str)> = names
        .iter()
        .map(|name| (name.as_str(), tip.as_str()))
        .collect();
    let state = fixture.state(&refs, None);
    ensure!(serde_json::to_string(&json!(state))?.len() > 1_200_000);
    fixture.held(&state).await
}
