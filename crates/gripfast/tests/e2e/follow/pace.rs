//! The pace of requests to a relay, and what its refusals lead to.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    FakeRelay, LocalProject,
    fake_relay::{Request, Script},
    until, until_true,
};
use nostr::prelude::Event;
use serde_json::{Value, json};

use super::{
    scene::{node_with, publish, relays, until_relay},
    scripted::{Scene, Time, WITHOUT_NIP77, announcement, closed, empty, is_live, is_page},
};

/// G02-26: what is in the background starts a second apart, what is live does not wait for it.
#[tokio::test]
async fn g02_26_requests_for_history_start_a_second_apart_and_live_ones_at_once() -> Result<()> {
    let relay = FakeRelay::start("127.0.2.1", empty(|_| None)).await?;
    let scene = Scene::start(relay, Time::Day, &[WITHOUT_NIP77]).await?;
    let project = LocalProject::new("tides")?;
    scene.host(&project).await?;
    let coordinate = project.coordinate();
    let live = scene
        .request("it is subscribed to", 0, |it| {
            it.is_live() && it.asks("#a", &coordinate)
        })
        .await?;
    let page = scene
        .request("its history is read", 0, |it| {
            it.is_page() && it.asks("#a", &coordinate)
        })
        .await?;
    ensure!(live.at <= page.at, "{}", scene.story());
    let pages = scene.pages();
    ensure!(pages.len() >= 3, "{}", scene.story());
    for pair in pages.windows(2) {
        let apart = pair[1].at - pair[0].at;
        // Both times are of their arrival.
        ensure!(apart >= Duration::from_millis(900), "{apart:?} apart");
    }
    Ok(())
}

/// Relays that two announcements name: five each.
const NAMED: usize = 10;

/// G02-26: at most eight histories are read at once, one of each relay.
#[tokio::test]
async fn g02_26_eight_histories_are_read_at_once_and_one_of_each_relay() -> Result<()> {
    let hanging = || empty(|message| is_page(message).then(Vec::new));
    let mut others = Vec::new();
    for n in 0..NAMED {
        others.push(FakeRelay::start(&format!("127.0.2.{}", 10 + n), hanging()).await?);
    }
    let configured = FakeRelay::start("127.0.2.2", hanging()).await?;
    let scene = Scene::configured(configured, Time::Timers(5), &[WITHOUT_NIP77]).await?;
    for part in others.chunks(NAMED / 2) {
        let urls: Vec<String> = part.iter().map(FakeRelay::url).collect();
        let project = LocalProject::new("tides")?;
        publish(&scene.node, &announcement(&project, &scene.node, &urls)).await?;
    }
    let all = || others.iter().chain([&scene.relay]);
    until_true("all are subscribed to", || {
        all().all(|relay| relay.requests().iter().any(Request::is_live))
    })
    .await?;
    let reading = || -> Vec<usize> {
        let of = |relay: &FakeRelay| {
            let open = relay.open();
            let pages = relay.requests().into_iter().filter(Request::is_page);
            pages.filter(|it| open.contains(&it.name)).count()
        };
        all().map(of).collect()
    };
    until_true("eight are read", || reading().iter().sum::<usize>() == 8).await?;
    for relay in all() {
        relay.settled().await?;
    }
    let now = reading();
    ensure!(
        now.iter().sum::<usize>() == 8 && now.iter().all(|open| *open <= 1),
        "{now:?}"
    );
    // One comes to its end: another begins.
    let (at, _) = now
        .iter()
        .enumerate()
        .find(|(_, it)| **it == 1)
        .context("one")?;
    let waiting: Vec<usize> = (0..now.len()).filter(|at| now[*at] == 0).collect();
    let ended = all().nth(at).context("it is one of them")?;
    ended.set_script(empty(|_| None));
    let open = ended.open();
    let pages = ended.requests().into_iter().filter(Request::is_page);
    for page in pages.filter(|it| open.contains(&it.name)) {
        ended.say(json!(["EOSE", page.name]));
    }
    until_true("one that waited has its turn", || {
        let now = reading();
        waiting.iter().any(|at| now[*at] == 1) && now.iter().sum::<usize>() <= 8
    })
    .await
}

/// A relay that refuses every request for history for the rate of requests.
fn limiting(words: &'static str) -> Script {
    empty(move |message| is_page(message).then(|| closed(message, words)))
}

/// G02-27: 65 s, then twice as long, whatever is said during the pause and on whichever connection. G02-32:
/// the number of seconds that the relay names is not read, and what it says elsewhere is no refusal.
#[tokio::test]
async fn g02_27_32_a_rate_limit_pauses_requests_for_65_seconds_and_then_for_twice_as_long()
-> Result<()> {
    let words = "rate-limited: slow down and wait 86400 seconds";
    let relay = FakeRelay::start("127.0.2.3", limiting(words)).await?;
    let mut scene = Scene::configured(relay, Time::Day, &[WITHOUT_NIP77]).await?;
    let is_paused = |relay: &Value| relay["health"] == "rate_limited";
    scene
        .shown("the relay has asked for patience", is_paused)
        .await?;
    ensure!(scene.pages().len() == 1, "{}", scene.story());
    scene.pass(50).await?;
    scene.relay.say(json!(["NOTICE", "you are throttled"]));
    scene.relay.settled().await?;
    ensure!(scene.pages().len() == 1, "{}", scene.story());
    scene.pass(16).await?;
    scene.read_times(2).await?;
    // A new connection is no new beginning.
    scene.relay.hang_up();
    until_true("it is connected again", || {
        scene.relay.connected().len() == 2
    })
    .await?;
    scene.pass(110).await?;
    ensure!(scene.pages().len() == 2, "{}", scene.story());
    scene.relay.set_script(empty(|_| None));
    scene.pass(21).await?;
    scene.read_times(3).await?;
    scene
        .shown("its history is read", |it| it["full_at"].is_i64())
        .await?;
    // Not said of a request of ours, and no NOTICE.
    for text in [
        json!(["OK", "00".repeat(32), false, words]),
        json!(["CLOSED", "nobody", words]),
    ] {
        scene.relay.say(text);
    }
    scene.relay.settled().await?;
    scene
        .shown("it is well", |it| it["health"] == "healthy")
        .await?;
    // After five minutes in peace the first pause is the shortest again.
    scene.pass(301).await?;
    scene.relay.say(json!(["NOTICE", "slow down"]));
    scene.relay.settled().await?;
    scene.relay.hang_up();
    until_true("it is connected again", || {
        scene.relay.connected().len() == 3
    })
    .await?;
    scene.pass(50).await?;
    ensure!(scene.pages().len() == 3, "{}", scene.story());
    scene.pass(16).await?;
    scene.read_times(4).await?;
    Ok(())
}

/// G02-27: requests are 600 ms apart, and NIP-77 is not spoken before the next connection.
#[tokio::test]
async fn g02_27_too_many_queries_space_requests_and_end_nip77_until_a_reconnect() -> Result<()> {
    let script = |message: &Value| match message[0].as_str() {
        Some("NEG-OPEN") => Some(vec![json!(["NEG-ERR", message[1], "too many queries"])]),
        Some("REQ") if message.as_array()?.len() > 3 => {
            Some(closed(message, "invalid: too many filters"))
        }
        _ => None,
    };
    let relay = FakeRelay::start("127.0.2.4", empty(script)).await?;
    let mut scene = Scene::configured(relay, Time::Day, &[]).await?;
    scene
        .shown("it has asked for patience", |it| {
            it["health"] == "rate_limited" && it["history_by"] == "req"
        })
        .await?;
    let project = LocalProject::new("tides")?;
    scene.host(&project).await?;
    let known = scene.relay.requests().len();
    scene.pass(66).await?;
    let single = || -> Vec<Request> {
        let requests = scene.relay.requests().into_iter().skip(known);
        requests
            .filter(|it| it.is_live() && it.filters.len() == 1)
            .collect()
    };
    until_true("each filter has its subscription", || single().len() >= 4).await?;
    for pair in single().windows(2) {
        let apart = pair[1].at - pair[0].at;
        ensure!(apart >= Duration::from_millis(500), "{apart:?} apart");
    }
    let compared = |after: usize| {
        let requests = scene.relay.requests().into_iter().skip(after);
        requests.filter(|it| it.is_comparison).count()
    };
    ensure!(compared(known) == 0, "{}", scene.story());
    let known = scene.relay.requests().len();
    scene.relay.hang_up();
    until_true("NIP-77 is tried again", || compared(known) > 0).await
}

/// Says whether a request is for announcements of everybody.
fn is_broad(request: &Request) -> bool {
    request
        .filters
        .iter()
        .any(|it| it["#d"].is_null() && it["kinds"].is_array())
}

fn broad(scene: &Scene) -> usize {
    let requests = scene.relay.requests();
    requests.iter().filter(|it| is_broad(it)).count()
}

/// G02-29: what is refused by policy is left alone for a day, and nothing else is.
#[tokio::test]
async fn g02_29_a_refused_class_of_requests_is_left_alone_for_a_day_and_others_stay() -> Result<()>
{
    let refusing = |message: &Value| {
        let filters = message.as_array()?.iter().skip(2);
        let is_broad = filters.clone().any(|it| it["#d"].is_null());
        (message[0] == "REQ" && is_broad).then(|| closed(message, "blocked: no broad filters"))
    };
    let relay = FakeRelay::start("127.0.2.5", empty(refusing)).await?;
    let mut scene = Scene::start(relay, Time::Day, &[WITHOUT_NIP77]).await?;
    let project = LocalProject::new("tides")?;
    scene.announce(&project).await?;
    scene
        .shown("the refusal is known, and the rest is read", |it| {
            it["health"] == "policy_limited" && it["is_reading_history"] == false
        })
        .await?;
    let stays = scene
        .live("#d", "tides")
        .context("what was allowed has ended")?;
    let before = broad(&scene);
    scene.pass(23 * 3_600).await?;
    ensure!(broad(&scene) == before, "{}", scene.story());
    // After the day it is tried once, and left alone again.
    scene.pass(2 * 3_600).await?;
    until_true("it is tried", || broad(&scene) > before).await?;
    scene.wake().await?;
    scene.wake().await?;
    ensure!(broad(&scene) == before + 1, "{}", scene.story());
    // And when the relay has changed its mind, it is followed.
    scene.relay.set_script(empty(|_| None));
    scene.pass(25 * 3_600).await?;
    until("announcements are subscribed to", async || {
        let open = scene.relay.open();
        let requests = scene.relay.requests();
        let mut live = requests.iter().filter(|it| it.is_live() && is_broad(it));
        live.any(|it| open.contains(&it.name)).then_some(())
    })
    .await
    .with_context(|| scene.story())?;
    ensure!(
        scene.relay.connected().len() == 1,
        "the connection did not stay"
    );
    ensure!(stays.connection == 0, "{stays:?}");
    Ok(())
}

/// The event of an AUTH.
fn proofs(relay: &FakeRelay) -> Result<Vec<Event>> {
    let heard = relay.heard().into_iter().filter(|it| it[0] == "AUTH");
    heard
        .map(|it| Ok(serde_json::from_value(it[1].clone())?))
        .collect()
}

/// G02-30: the first `auth-required` of a request of ours is answered with the key of the service, and what was
/// refused is asked again; a second one is a policy (G02-29), and one of a request that is not ours is nothing.
#[tokio::test]
async fn g02_30_the_key_of_the_service_is_proved_once_and_for_requests_of_its_own() -> Result<()> {
    let is_known = AtomicBool::new(false);
    let refused = |message: &Value| {
        let mut answer = vec![json!(["AUTH", "high-water"])];
        answer.extend(closed(message, "auth-required: who are you?"));
        answer
    };
    let asking = empty(move |message: &Value| match message[0].as_str() {
        Some("AUTH") => {
            is_known.store(true, Ordering::Relaxed);
            Some(vec![json!(["OK", message[1]["id"], true, ""])])
        }
        Some("REQ") => (!is_known.load(Ordering::Relaxed)).then(|| refused(message)),
        _ => None,
    });
    let asking = FakeRelay::start("127.0.2.6", asking).await?;
    let never_content = empty(move |message| (message[0] == "REQ").then(|| refused(message)));
    let never_content = FakeRelay::start("127.0.2.7", never_content).await?;
    let of_others = empty(|message| {
        is_live(message).then(|| {
            let foreign = json!(["CLOSED", "g999", "auth-required: who are you?"]);
            vec![
                json!(["AUTH", "low-water"]),
                foreign,
                json!(["EOSE", message[1]]),
            ]
        })
    });
    let of_others = FakeRelay::start("127.0.2.8", of_others).await?;
    let all = [&asking, &never_content, &of_others];
    let urls = all.map(FakeRelay::url).join(",");
    let env = [WITHOUT_NIP77, ("NGIT_SYNC_BOOTSTRAP_RELAY_URL", &urls)];
    let node = node_with(&env).await?;
    let is_shown = |relay: &Value, of: &FakeRelay, health: &str| {
        relay["relay"] == of.url().as_str() && relay["health"] == health
    };
    for relay in [&asking, &of_others] {
        until_relay(&node, "its history is read", |it| {
            is_shown(it, relay, "healthy") && it["full_at"].is_i64()
        })
        .await?;
    }
    let is_limited = |it: &Value| is_shown(it, &never_content, "policy_limited");
    until_relay(&node, "a second refusal is a policy", is_limited).await?;
    for relay in all {
        relay.settled().await?;
    }
    let accept = [("accept", "application/nostr+json")];
    let document: Value = node.ask("GET", "/", &accept, b"").await?.json()?;
    for relay in [&asking, &never_content] {
        let proofs = proofs(relay)?;
        let [proof] = proofs.as_slice() else {
            anyhow::bail!("it was proved {} times", proofs.len());
        };
        proof.verify()?;
        ensure!(document["self"] == proof.pubkey.to_hex(), "{proof:?}");
        let tags = json!(proof)["tags"].clone();
        ensure!(proof.kind.as_u16() == 22_242, "{proof:?}");
        ensure!(tags.to_string().contains("high-water"), "{tags}");
        ensure!(tags.to_string().contains(&relay.url()), "{tags}");
    }
    ensure!(
        proofs(&of_others)?.is_empty(),
        "a stranger's request was answered for"
    );
    // Each was asked again once: the subscription and the history.
    for (relay, most) in [(&asking, 4), (&never_content, 4)] {
        let requests = relay.requests();
        ensure!(requests.len() <= most, "{requests:#?}");
    }
    ensure!(relays(&node).await?.len() == 3);
    Ok(())
}

/// G02-31: 65 s later, and not while another pause lasts.
#[tokio::test]
async fn g02_31_a_subscription_that_was_closed_for_no_known_reason_is_repaired_when_all_pauses_are_over()
-> Result<()> {
    let relay = FakeRelay::start("127.0.2.9", empty(|_| None)).await?;
    let mut scene = Scene::configured(relay, Time::Timers(1), &[WITHOUT_NIP77]).await?;
    scene
        .shown("its history is read", |it| it["full_at"].is_i64())
        .await?;
    let live: Vec<Request> = lives(&scene);
    ensure!(live.len() == 1, "{}", scene.story());
    end(&scene, &live[0]).await?;
    scene.pass(50).await?;
    ensure!(lives(&scene).len() == 1, "{}", scene.story());
    scene.pass(16).await?;
    let live = lives(&scene);
    ensure!(live.len() == 2, "{}", scene.story());
    // The second time it takes 130 s, and a pause of 65 s begins before their end.
    end(&scene, &live[1]).await?;
    scene.pass(100).await?;
    scene.relay.say(json!(["NOTICE", "slow down"]));
    scene.relay.settled().await?;
    scene.pass(45).await?;
    ensure!(lives(&scene).len() == 2, "{}", scene.story());
    scene.pass(21).await?;
    ensure!(lives(&scene).len() == 3, "{}", scene.story());
    Ok(())
}

/// Has the relay end a subscription without saying why.
async fn end(scene: &Scene, live: &Request) -> Result<()> {
    let text = "error: shutting down idle subscription";
    scene.relay.say(json!(["CLOSED", live.name, text]));
    scene.relay.settled().await
}

fn lives(scene: &Scene) -> Vec<Request> {
    let requests = scene.relay.requests().into_iter();
    requests.filter(Request::is_live).collect()
}
