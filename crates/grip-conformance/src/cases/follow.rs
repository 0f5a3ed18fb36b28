//! G02: served repositories are followed on the other relays that they list.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    Author, FakeRelay, RemoteHost,
    events::{Tags, tag},
    fake_relay::honest,
    until_true,
};
use serde_json::{Value, json};

use super::cases;
use crate::{Target, fixture::Fixture};

cases! {
    "G02-1" "what a listed relay has of a served repository is served here" Control => followed;
    "G02-4" "protected events are not taken from other relays" Control => protected;
    "G02-37" "the state of a held announcement is found though its relay never sends it by itself" Control => polled;
    "G02-43" "a relay that does not answer pings is left and dialled again" Control => silent_relay;
    "G02-47" "after a start listed relays are dialled before any other relay has answered" Control => start_up;
    "G02-39" "connections to many relays start a quarter of a second apart" Control => spread;
    "G02-56" "data of a synced state is fetched half a second later and that of a submitted one is not" Control => delays;
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
        let mut followed = Self::unannounced(target, address).await?;
        followed.announce(Tags::new()).await?;
        Ok(followed)
    }

    async fn unannounced(target: &'a Target, address: &str) -> Result<Self> {
        target.restart_with(&NEAR).await?;
        let events: Arc<Mutex<Vec<Value>>> = Arc::default();
        let known = Arc::clone(&events);
        let script = move |message: &Value| {
            honest(
                message,
                &known.lock().unwrap_or_else(PoisonError::into_inner),
            )
        };
        Ok(Self {
            relay: FakeRelay::start(address, Arc::new(script)).await?,
            fixture: Fixture::new(target).await?,
            events,
        })
    }

    /// Announces it with further tags.
    async fn announce(&mut self, mut more: Tags) -> Result<()> {
        more.push(tag(["relays".to_owned(), self.relay.url()]));
        let event = self.fixture.announcement(more);
        self.fixture.held(&event).await
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

/// How often the poll of what is held is waited for before the last time.
const POLL_WAITS: usize = 2;
/// The delay of what was synced, and what the way there and back may take beside it.
const SYNCED_DELAY: Duration = Duration::from_millis(500);
const ON_THE_WAY: Duration = Duration::from_secs(10);
/// The least time between the starts of two dials.
const DIAL_SPACING: Duration = Duration::from_millis(250);

async fn polled(target: &Target) -> Result<()> {
    let host = RemoteHost::start("127.0.0.74").await?;
    let mut followed = Followed::unannounced(target, "127.0.0.75").await?;
    let clone = host.host(&followed.fixture.tree, "x.git")?;
    followed.announce(vec![tag(["clone", &clone])]).await?;
    let identifier = json!(followed.fixture.identifier);
    // Its history was read when nothing was there.
    until_true("the held announcement is followed", || {
        let asks = |it: &Value| it[0] == "REQ" && it.to_string().contains(&identifier.to_string());
        followed.relay.heard().iter().filter(|it| asks(it)).count() > 1
    })
    .await?;
    let state = followed.fixture.own_state()?;
    followed.add(&state);
    // A poll comes later than anything else is waited for.
    for _ in 0..POLL_WAITS {
        if followed.until_served(&state).await.is_ok() {
            return Ok(());
        }
    }
    followed.until_served(&state).await
}

async fn silent_relay(target: &Target) -> Result<()> {
    let soon = [
        ("NGIT_SYNC_DISCONNECT_CHECK_INTERVAL_SECS", "2"),
        ("NGIT_SYNC_BASE_BACKOFF_SECS", "1"),
    ];
    target
        .restart_with(&[NEAR.as_slice(), &soon].concat())
        .await?;
    let relay = FakeRelay::mute("127.0.0.76").await?;
    let relays = vec![tag(["relays".to_owned(), relay.url()])];
    let _fixture = Fixture::announced_with(target, relays).await?;
    until_true("the relay is pinged", || {
        relay.heard().contains(&json!(["PING"]))
    })
    .await?;
    until_true("it is dialled again", || relay.connected().len() > 1).await
}

async fn start_up(target: &Target) -> Result<()> {
    let mut followed = Followed::announced(target, "127.0.0.77").await?;
    followed.fixture.publish_and_push().await?;
    // The one relay that the operator names takes connections and never answers.
    let bootstrap = FakeRelay::mute("127.0.0.78").await?;
    let url = bootstrap.url();
    let before = followed.relay.heard().len();
    let env = [NEAR.as_slice(), &[("NGIT_SYNC_BOOTSTRAP_RELAY_URL", &url)]].concat();
    target.restart_with(&env).await?;
    let coordinate = followed.fixture.coordinate();
    until_true("the listed relay is asked for the repository", || {
        let heard = followed.relay.heard();
        let mut new = heard.iter().skip(before);
        new.any(|it| it[0] == "REQ" && it.to_string().contains(&coordinate))
    })
    .await
}

async fn spread(target: &Target) -> Result<()> {
    target.restart_with(&NEAR).await?;
    let mut relays = Vec::new();
    for n in 80..86 {
        relays.push(FakeRelay::with_events(&format!("127.0.0.{n}"), Vec::new()).await?);
    }
    let urls = relays.iter().map(FakeRelay::url);
    let tags = vec![["relays".to_owned()].into_iter().chain(urls).collect()];
    let _fixture = Fixture::announced_with(target, tags).await?;
    until_true("all are connected", || {
        relays.iter().all(|relay| !relay.connected().is_empty())
    })
    .await?;
    let mut at: Vec<Instant> = relays.iter().map(|relay| relay.connected()[0]).collect();
    at.sort();
    let took = *at.last().context("one")? - at[0];
    // What a busy machine delays by is not counted for each of them.
    let least = DIAL_SPACING * (relays.len() as u32 - 1) - DIAL_SPACING;
    ensure!(
        took >= least,
        "{} connections within {took:?}",
        relays.len()
    );
    Ok(())
}

async fn delays(target: &Target) -> Result<()> {
    let synced = RemoteHost::start("127.0.0.79").await?;
    let submitted = RemoteHost::start("127.0.0.87").await?;
    let mut followed = Followed::unannounced(target, "127.0.0.88").await?;
    // Sent to the server itself, and its data is elsewhere, too: somebody is about to push it.
    let mut other = Fixture::new(target).await?;
    let clone = submitted.host(&other.tree, "x.git")?;
    let announcement = other.announcement(vec![tag(["clone", &clone])]);
    other.held(&announcement).await?;
    let awaited = other.own_state()?;
    other.held(&awaited).await?;
    let state = followed.fixture.own_state()?;
    followed.add(&state);
    let clone = synced.host(&followed.fixture.tree, "x.git")?;
    let began = tokio::time::Instant::now();
    followed.announce(vec![tag(["clone", &clone])]).await?;
    followed.until_served(&state).await?;
    let requests = synced.requests();
    let asked = requests.first().context("nobody asked for the data")?.at;
    let after = asked.duration_since(began);
    ensure!(
        after >= SYNCED_DELAY && after < ON_THE_WAY,
        "asked after {after:?}"
    );
    ensure!(
        submitted.requests().is_empty(),
        "the push was not waited for"
    );
    Ok(())
}
