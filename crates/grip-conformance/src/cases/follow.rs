//! G02: served repositories are followed on the other relays that they list.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{Author, FakeRelay, events::tag, fake_relay::honest};
use serde_json::{Value, json};

use super::cases;
use crate::{Target, fixture::Fixture};

cases! {
    "G02-1" "what a listed relay has of a served repository is served here" Control => followed;
    "G02-4" "protected events are not taken from other relays" Control => protected;
    "G02-51" "nothing is published to relays that are followed" Control => silent;
}

/// Relays of this machine are followed.
const NEAR: [(&str, &str); 1] = [("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "true")];

/// A repository of the server that lists another relay, too.
struct Followed<'a> {
    fixture: Fixture<'a>,
    relay: FakeRelay,
    events: Arc<Mutex<Vec<Value>>>,
}

impl<'a> Followed<'a> {
    /// Announces it; the other relay is empty.
    async fn announced(target: &'a Target, address: &str) -> Result<Self> {
        target.restart_with(&NEAR).await?;
        let events: Arc<Mutex<Vec<Value>>> = Arc::default();
        let known = Arc::clone(&events);
        let script = move |message: &Value| {
            honest(
                message,
                &known.lock().unwrap_or_else(PoisonError::into_inner),
            )
        };
        let relay = FakeRelay::start(address, Arc::new(script)).await?;
        let more = vec![tag(["relays".to_owned(), relay.url()])];
        let fixture = Fixture::announced_with(target, more).await?;
        Ok(Self {
            fixture,
            relay,
            events,
        })
    }

    fn add(&self, event: &nostr::prelude::Event) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(json!(event));
    }

    async fn until_served(&mut self, event: &nostr::prelude::Event) -> Result<()> {
        let asked = self.fixture.must_serve(&event.id).await;
        asked.with_context(|| format!("it was asked: {:?}", self.relay.heard()))
    }
}

async fn followed(target: &Target) -> Result<()> {
    let mut followed = Followed::announced(target, "127.0.0.71").await?;
    let issue = followed.fixture.issue(&Author::new(), "there");
    let answer = Author::new().comment(&issue, "and more");
    followed.add(&issue);
    followed.add(&answer);
    followed.fixture.publish_and_push().await?;
    followed.until_served(&issue).await?;
    followed.until_served(&answer).await
}

async fn protected(target: &Target) -> Result<()> {
    let mut followed = Followed::announced(target, "127.0.0.72").await?;
    let coordinate = followed.fixture.coordinate();
    let tags = vec![tag(["a", &coordinate]), tag(["-"])];
    let protected = Author::new().sign(1621, "mine alone", tags);
    let issue = followed.fixture.issue(&Author::new(), "there");
    followed.add(&protected);
    followed.add(&issue);
    followed.fixture.publish_and_push().await?;
    // Both come with one answer of the relay.
    followed.until_served(&issue).await?;
    followed.fixture.must_not_serve(&protected.id).await
}

async fn silent(target: &Target) -> Result<()> {
    let mut followed = Followed::announced(target, "127.0.0.73").await?;
    let there = followed.fixture.issue(&Author::new(), "there");
    followed.add(&there);
    followed.fixture.publish_and_push().await?;
    followed.until_served(&there).await?;
    let here = followed.fixture.issue(&Author::new(), "here");
    followed.fixture.publish(&here).await?;
    let heard = followed.relay.heard();
    ensure!(heard.iter().all(|it| it[0] != "EVENT"), "{heard:?}");
    Ok(())
}
