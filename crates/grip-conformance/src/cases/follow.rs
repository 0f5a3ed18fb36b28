//! G02: served repositories are followed on the other relays that they list.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    Author, FakeRelay, RemoteHost,
    events::{Tags, tag},
    fake_relay::{Document, Nip77, honest},
    until_true,
};
use serde_json::{Value, json};

use super::cases;
use crate::{
    Target,
    fixture::{Fixture, INFO},
};

cases! {
    "G02-1" "what a listed relay has of a served repository is served here" Control => followed;
    "G02-4" "protected events are not taken from other relays" Control => protected;
    "G02-33" "a forged copy does not keep the real event out" Control => forged;
    "G02-35" "a state that was refused for want of a maintainer is taken once they are one" Control => judged_again;
    "G02-37" "the state of a held announcement is found though its relay never sends it by itself" Control => polled;
    "G02-43" "a relay that does not answer pings is left and dialled again" Control => silent_relay;
    "G02-44" "a relay that a newer announcement does not list is left" Control => left;
    "G02-47" "after a start listed relays are dialled before any other relay has answered" Control => start_up;
    "G02-39" "connections to many relays start a quarter of a second apart" Control => spread;
    "G02-56" "data of a synced state is fetched half a second later and that of a submitted one is not" Control => delays;
    "G02-49" "a bootstrap relay is asked for announcements though none names it" Control => bootstrap;
    "G02-50" "where NIP-77 is switched off no relay is asked by it" Control => without_nip77;
    "G02-52" "relays are not dialled with credentials" Control => credentials;
    "G02-53" "relays of private addresses are not dialled because an announcement lists them" Control => private_addresses;
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
        self.add_json(json!(event));
    }

    fn add_json(&self, event: Value) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push(event);
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

async fn forged(target: &Target) -> Result<()> {
    let mut followed = Followed::announced(target, "127.0.0.62").await?;
    let real = followed.fixture.issue(&Author::new(), "there");
    let (mut changed, mut stolen) = (json!(real), json!(real));
    changed["content"] = json!("send money");
    stolen["sig"] = json!("00".repeat(64));
    for event in [changed, stolen, json!(real)] {
        followed.add_json(event);
    }
    followed.fixture.publish_and_push().await?;
    followed.until_served(&real).await?;
    let filter = json!({"ids": [real.id.to_hex()]});
    let served = followed.fixture.relay.query(&[filter]).await?;
    ensure!(served == [real], "{served:?}");
    Ok(())
}

async fn judged_again(target: &Target) -> Result<()> {
    let mut followed = Followed::announced(target, "127.0.0.63").await?;
    let helper = Author::new();
    let tip = followed.fixture.tree.tip("HEAD")?;
    let refs = [("refs/heads/theirs", tip.as_str())];
    let state = followed.fixture.state_naming(&helper, &refs, None);
    let issue = followed.fixture.issue(&Author::new(), "there");
    followed.add(&state);
    followed.add(&issue);
    followed.fixture.publish_and_push().await?;
    followed.until_served(&issue).await?;
    let relays = tag(["relays".to_owned(), followed.relay.url()]);
    let listing = vec![tag(["maintainers", &helper.hex()]), relays];
    let listing = followed.fixture.announcement(listing);
    followed.fixture.accepted(&listing).await?;
    let back = followed.fixture.answers_back(&helper);
    followed.fixture.publish(&back).await?;
    followed.until_served(&state).await
}

async fn left(target: &Target) -> Result<()> {
    let mut followed = Followed::announced(target, "127.0.0.64").await?;
    followed.fixture.publish_and_push().await?;
    until_true("it is followed", || !followed.relay.open().is_empty()).await?;
    let without = followed.fixture.announcement(Tags::new());
    followed.fixture.accepted(&without).await?;
    until_true("nothing is asked for any more", || {
        followed.relay.open().is_empty()
    })
    .await
}

async fn bootstrap(target: &Target) -> Result<()> {
    let mut fixture = Fixture::new(target).await?;
    let announcement = fixture.announcement(Tags::new());
    let events = vec![json!(announcement)];
    let relay = FakeRelay::with_events("127.0.0.65", events).await?;
    let env = [("NGIT_SYNC_BOOTSTRAP_RELAY_URL", relay.url())];
    let env = env.each_ref().map(|(name, url)| (*name, url.as_str()));
    target.restart_with(&env).await?;
    let path = format!("{}/{INFO}", fixture.path());
    grip_testkit::until("what it announces is here", || async {
        (target.status(&path).await.ok()? == 200).then_some(())
    })
    .await
}

async fn without_nip77(target: &Target) -> Result<()> {
    let off = [NEAR[0], ("NGIT_SYNC_DISABLE_NEGENTROPY", "true")];
    target.restart_with(&off).await?;
    let mut fixture = Fixture::new(target).await?;
    let issue = fixture.issue(&Author::new(), "there");
    let (nip77, events) = (Nip77::default(), vec![json!(issue)]);
    let script = move |message: &Value| nip77.answer(message, &events);
    let relay = FakeRelay::start("127.0.0.66", Arc::new(script)).await?;
    relay.set_document(Document::Json(json!({"supported_nips": [1, 11, 77]})));
    let announcement = fixture.announcement(vec![tag(["relays".to_owned(), relay.url()])]);
    fixture.held(&announcement).await?;
    fixture.publish_and_push().await?;
    fixture.must_serve(&issue.id).await?;
    ensure!(relay.requests().iter().all(|it| !it.is_comparison));
    Ok(())
}

async fn credentials(target: &Target) -> Result<()> {
    target.restart_with(&NEAR).await?;
    let asked = FakeRelay::with_events("127.0.0.67", Vec::new()).await?;
    let left_out = FakeRelay::with_events("127.0.0.68", Vec::new()).await?;
    let secret = left_out.url().replace("ws://", "ws://user:secret@");
    let relays = vec![tag(["relays".to_owned(), secret, asked.url()])];
    let fixture = Fixture::announced_with(target, relays).await?;
    asks_for(&asked, &fixture.identifier).await?;
    ensure!(left_out.connected().is_empty() && left_out.described() == 0);
    Ok(())
}

/// Waits until a relay is asked for a repository.
async fn asks_for(relay: &FakeRelay, identifier: &str) -> Result<()> {
    until_true("the relay is asked for the repository", || {
        relay.requests().iter().any(|it| it.asks("#d", identifier))
    })
    .await
}

async fn private_addresses(target: &Target) -> Result<()> {
    // What the operator configured may be there, and is asked for the repository, too.
    let configured = FakeRelay::with_events("127.0.0.69", Vec::new()).await?;
    let named = FakeRelay::with_events("127.0.0.70", Vec::new()).await?;
    let url = configured.url();
    let env = [
        ("NGIT_SYNC_BOOTSTRAP_RELAY_URL", url.as_str()),
        ("NGIT_SYNC_ALLOW_NON_GLOBAL_TARGETS", "false"),
    ];
    target.restart_with(&env).await?;
    let relays = vec![tag(["relays".to_owned(), named.url()])];
    let fixture = Fixture::announced_with(target, relays).await?;
    asks_for(&configured, &fixture.identifier).await?;
    ensure!(named.connected().is_empty() && named.described() == 0);
    Ok(())
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
