//! G03: those who take part in something are followed on the relays of their own lists.

use anyhow::{Result, ensure};
use grip_testkit::{
    Author, FakeRelay,
    events::{Tags, tag},
    until_true,
};
use nostr::prelude::{Event, Timestamp};
use serde_json::json;

use super::cases;
use crate::{Target, fixture::Fixture};

cases! {
    "G03-2" "what tags an issue is taken from the write relays of its author" Control => write_relays;
    "G03-3" "profiles and relay lists of participants are kept" Control => profiles;
    "G03-8" "who has no list is looked for on the fallback relays" Control => fallback;
    "G03-9" "a trap in a list is not dialled, and the rest of the list is" Control => traps;
    "G03-12" "a newer list replaces the relays of the older" Control => newer_list;
    "G03-13" "where it is off no index is asked" Control => off;
}

/// Restarts a server so that it looks lists up at `index`, and for those without one at `fallback`.
async fn follow_people(target: &Target, index: &FakeRelay, fallback: &FakeRelay) -> Result<()> {
    let (index, fallback) = (index.url(), fallback.url());
    target
        .restart_with(&[
            ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
            ("NGIT_SYNC_PLUS_ENABLED", "true"),
            ("NGIT_SYNC_DISCONNECT_CHECK_INTERVAL_SECS", "1"),
            ("NGIT_USER_INDEX_RELAYS", index.as_str()),
            ("NGIT_SYNC_PLUS_FALLBACK_RELAYS", &fallback),
        ])
        .await
}

fn list(author: &Author, urls: &[&str], at: Timestamp) -> Event {
    let tags = urls.iter().map(|url| tag(["r", url])).collect();
    author.sign_at(10002, "", tags, at)
}

async fn write_relays(target: &Target) -> Result<()> {
    let person = Author::new();
    let mut fixture = Fixture::new(target).await?;
    let issue = fixture.issue(&person, "here");
    let answer = Author::new().comment(&issue, "there");
    let own = FakeRelay::with_events("127.0.0.90", vec![json!(answer)]).await?;
    let list = list(&person, &[&own.url()], Timestamp::now());
    let index = FakeRelay::with_events("127.0.0.91", vec![json!(list)]).await?;
    follow_people(target, &index, &index).await?;
    announce_and_ask(&mut fixture, &issue).await?;
    fixture.must_serve(&answer.id).await
}

/// Has the repository served, with an issue.
async fn announce_and_ask(fixture: &mut Fixture<'_>, issue: &Event) -> Result<()> {
    fixture.relay = fixture.target.connect().await?;
    let announcement = fixture.announcement(Tags::new());
    fixture.held(&announcement).await?;
    fixture.publish_and_push().await?;
    fixture.accepted(issue).await
}

async fn profiles(target: &Target) -> Result<()> {
    let person = Author::new();
    let profile = person.sign(0, r#"{"name":"Ada"}"#, vec![]);
    let list = list(&person, &["wss://relay.example"], Timestamp::now());
    let stranger = Author::new().sign(0, r#"{"name":"Eve"}"#, vec![]);
    let events = [&profile, &list, &stranger].map(|event| json!(event));
    let index = FakeRelay::with_events("127.0.0.92", events.to_vec()).await?;
    follow_people(target, &index, &index).await?;
    let mut fixture = Fixture::new(target).await?;
    let issue = fixture.issue(&person, "here");
    announce_and_ask(&mut fixture, &issue).await?;
    fixture.must_serve(&profile.id).await?;
    fixture.must_serve(&list.id).await?;
    fixture.must_not_serve(&stranger.id).await
}

async fn fallback(target: &Target) -> Result<()> {
    let (listed, unlisted) = (Author::new(), Author::new());
    let list = list(&listed, &["ws://127.0.0.93:9"], Timestamp::now());
    let index = FakeRelay::with_events("127.0.0.93", vec![json!(list)]).await?;
    let fallback = FakeRelay::with_events("127.0.0.94", Vec::new()).await?;
    follow_people(target, &index, &fallback).await?;
    let mut fixture = Fixture::new(target).await?;
    let issue = fixture.issue(&listed, "here");
    announce_and_ask(&mut fixture, &issue).await?;
    let other = fixture.issue(&unlisted, "here, too");
    fixture.accepted(&other).await?;
    let asked = |author: &Author| {
        let requests = fallback.requests();
        requests.iter().any(|it| it.asks("authors", &author.hex()))
    };
    until_true("the fallback is asked", || asked(&unlisted)).await?;
    ensure!(!asked(&listed), "who has a list is looked for there");
    Ok(())
}

async fn traps(target: &Target) -> Result<()> {
    let person = Author::new();
    let good = FakeRelay::with_events("127.0.0.95", Vec::new()).await?;
    let trap = FakeRelay::with_events("127.0.0.96", Vec::new()).await?;
    let key = format!("{}/{}", trap.url(), "ab".repeat(32));
    let repeated = format!("{}/127.0.0.96", trap.url());
    let long = format!("{}/{}", trap.url(), "x".repeat(2_048));
    let secret = trap.url().replace("ws://", "ws://user:secret@");
    let urls = [&*key, &repeated, &long, &secret, "no address", &good.url()];
    let list = list(&person, &urls, Timestamp::now());
    let index = FakeRelay::with_events("127.0.0.97", vec![json!(list)]).await?;
    follow_people(target, &index, &index).await?;
    let mut fixture = Fixture::new(target).await?;
    let issue = fixture.issue(&person, "here");
    announce_and_ask(&mut fixture, &issue).await?;
    until_true("the rest of the list is followed", || {
        !good.requests().is_empty()
    })
    .await?;
    ensure!(trap.connected().is_empty() && trap.described() == 0);
    Ok(())
}

async fn newer_list(target: &Target) -> Result<()> {
    let person = Author::new();
    let older = FakeRelay::with_events("127.0.0.98", Vec::new()).await?;
    let newer = FakeRelay::with_events("127.0.0.99", Vec::new()).await?;
    let now = Timestamp::now();
    let first = list(&person, &[&older.url()], now - 60);
    let index = FakeRelay::with_events("127.0.0.100", vec![json!(first)]).await?;
    follow_people(target, &index, &index).await?;
    let mut fixture = Fixture::new(target).await?;
    let issue = fixture.issue(&person, "here");
    announce_and_ask(&mut fixture, &issue).await?;
    until_true("the older list is followed", || !older.open().is_empty()).await?;
    let second = list(&person, &[&newer.url()], now);
    fixture.accepted(&second).await?;
    until_true("the newer list is followed alone", || {
        !newer.open().is_empty() && older.open().is_empty()
    })
    .await
}

async fn off(target: &Target) -> Result<()> {
    let index = FakeRelay::with_events("127.0.0.101", Vec::new()).await?;
    let listed = FakeRelay::with_events("127.0.0.102", Vec::new()).await?;
    let url = index.url();
    target
        .restart_with(&[
            ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true"),
            ("NGIT_SYNC_PLUS_ENABLED", "false"),
            ("NGIT_USER_INDEX_RELAYS", url.as_str()),
        ])
        .await?;
    let relays = vec![tag(["relays".to_owned(), listed.url()])];
    let mut fixture = Fixture::served_with(target, relays).await?;
    let issue = fixture.issue(&Author::new(), "here");
    fixture.accepted(&issue).await?;
    let id = issue.id.to_hex();
    until_true("the listed relay is asked about the issue", || {
        listed.requests().iter().any(|it| it.asks("#e", &id))
    })
    .await?;
    ensure!(index.connected().is_empty() && index.described() == 0);
    Ok(())
}
