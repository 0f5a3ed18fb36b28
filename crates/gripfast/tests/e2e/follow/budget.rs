//! Budgets of a relay: how much is asked of it at once, and what does not fit.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    Author, FakeRelay, LocalProject,
    events::tag,
    fake_relay::{Document, Request},
    until_true,
};
use nostr::prelude::{Event, Timestamp};
use serde_json::{Value, json};

use super::{
    scene::{node_with, publish, push, until_relay},
    scripted::{Scene, Time, WITHOUT_NIP77, announcement, closed, empty, events, having, is_live},
};

/// Filters of a message.
fn filters(message: &Value) -> usize {
    message.as_array().map_or(0, |parts| parts.len() - 2)
}

/// Refuses more than one filter in a request.
fn one_filter(message: &Value) -> Option<Vec<Value>> {
    let is_refused = message[0] == "REQ" && filters(message) > 1;
    is_refused.then(|| closed(message, "invalid: too many filters"))
}

/// Subscriptions that are open on the last connection: names begin again on each.
fn open_live(relay: &FakeRelay) -> Vec<Request> {
    let (open, connections) = (relay.open(), relay.connected().len());
    let requests = relay.requests().into_iter();
    let requests = requests.filter(|it| it.connection + 1 == connections && it.is_live());
    requests.filter(|it| open.contains(&it.name)).collect()
}

/// G02-13: never more than the relay says it allows, live subscriptions and history together. G02-14: two places
/// are for history, of two places one.
#[tokio::test]
async fn g02_13_14_no_more_is_open_than_a_relay_says_it_allows_and_places_are_left_for_history()
-> Result<()> {
    let cases = [
        ("127.0.2.51", 4, 2),
        ("127.0.2.52", 2, 1),
        ("127.0.2.53", 3, 1),
    ];
    let mut relays = Vec::new();
    for (address, most, _) in cases {
        let relay = FakeRelay::start(address, empty(one_filter)).await?;
        let document = json!({"limitation": {"max_subscriptions": most}});
        relay.set_document(Document::Json(document));
        relays.push(relay);
    }
    let node = node_with(&[WITHOUT_NIP77]).await?;
    let project = LocalProject::new("tides")?;
    let urls: Vec<String> = relays.iter().map(FakeRelay::url).collect();
    publish(&node, &announcement(&project, &node, &urls)).await?;
    push(&project, &node, 5).await?;
    for (relay, (_, most, live)) in relays.iter().zip(cases) {
        until_relay(&node, "its history is read", |it| {
            it["relay"] == relay.url().as_str() && it["full_at"].is_i64()
        })
        .await?;
        relay.settled().await?;
        let open = open_live(relay);
        ensure!(open.len() == live, "{open:#?}");
        ensure!(relay.most_open() <= most, "{} were open", relay.most_open());
        // What matters most is live (G02-15).
        ensure!(open.iter().any(|it| it.has("kinds")), "{open:#?}");
        let pages = relay.requests().into_iter().filter(Request::is_page);
        let read = pages
            .filter(|it| it.asks("#q", &project.coordinate()))
            .count();
        ensure!(read == 1, "what has no subscription was read {read} times");
    }
    Ok(())
}

/// Issues of many people: each id is 64 bytes of a filter.
const ISSUES: u64 = 1_000;
const PEOPLE: usize = 500;
/// Bytes of the values of a filter, and of a request.
const FILTER_BYTES: usize = 32 << 10;
const REQUEST_BYTES: usize = 96 << 10;

/// G02-13: twenty where the relay says nothing. G02-15: states, `a` and `e` are live before what quotes answers,
/// which is polled: a minute later, with an overlap of 15 min. G02-16: requests have bounds.
#[tokio::test]
async fn g02_13_15_16_what_does_not_fit_into_twenty_subscriptions_is_polled_a_minute_later()
-> Result<()> {
    let project = LocalProject::new("tides")?;
    let people: Vec<Author> = (0..PEOPLE).map(|_| Author::new()).collect();
    let began = Timestamp::now() - 10_000;
    let issue = |n: u64| {
        let tags = vec![tag(["a", &project.coordinate()])];
        people[n as usize % PEOPLE].sign_at(1621, &n.to_string(), tags, began + n)
    };
    let mut all: Vec<Event> = (0..ISSUES).map(issue).collect();
    let answer = Author::new().sign(1111, "so it is", vec![tag(["e", &all[0].id.to_hex()])]);
    all.push(answer.clone());
    let is_strict = Arc::new(AtomicBool::new(false));
    let strict = Arc::clone(&is_strict);
    let script = having(&events(&all), move |message| {
        strict
            .load(Ordering::Relaxed)
            .then(|| one_filter(message))
            .flatten()
    });
    let relay = FakeRelay::start("127.0.2.54", script).await?;
    let mut scene = Scene::start(relay, Time::Timers(5), &[WITHOUT_NIP77]).await?;
    scene.host(&project).await?;
    let is_read = |it: &Value| it["full_at"].is_i64() && it["is_reading_history"] == false;
    let id = answer.id.to_hex();
    scene
        .request("the answer is followed", 0, |it| {
            it.is_live() && it.asks("#e", &id)
        })
        .await?;
    scene.shown("all is read", is_read).await?;
    for request in scene.relay.requests() {
        ensure!(
            request.filters.len() <= 10,
            "{} filters",
            request.filters.len()
        );
        let bytes: usize = request.filters.iter().map(|it| it.to_string().len()).sum();
        ensure!(bytes <= REQUEST_BYTES + 1_000, "{bytes} bytes");
        for field in ["#e", "#E", "#q", "#a", "#A", "#d"] {
            for filter in &request.filters {
                let values = filter[field].as_array().into_iter().flatten();
                let bytes: usize = values.map(|it| it.to_string().len()).sum();
                ensure!(bytes <= FILTER_BYTES, "{bytes} bytes of {field}");
            }
        }
    }
    // From now on each filter has a subscription of its own.
    is_strict.store(true, Ordering::Relaxed);
    scene.relay.hang_up();
    until_true("as many as may be are open", || {
        open_live(&scene.relay).len() == 18
    })
    .await?;
    scene.shown("all is read", is_read).await?;
    scene.relay.settled().await?;
    ensure!(
        scene.relay.most_open() <= 20,
        "{} were open",
        scene.relay.most_open()
    );
    let live = open_live(&scene.relay);
    ensure!(live.len() == 18, "{} are live", live.len());
    let is_live = |field: &str, value: &str| live.iter().any(|it| it.asks(field, value));
    ensure!(is_live("#d", "tides") && is_live("#a", &project.coordinate()));
    for issue in &all[..ISSUES as usize] {
        ensure!(is_live("#e", &issue.id.to_hex()), "an issue is not live");
    }
    ensure!(!is_live("#q", &id), "the answer is quoted live");
    // What is polled: not before its minute, then with an overlap, and closed by its EOSE.
    let polls = |scene: &Scene| -> Vec<Request> {
        let pages = scene.pages().into_iter();
        pages
            .filter(|it| it.connection == 1 && it.asks("#q", &id))
            .collect()
    };
    let before = polls(&scene).len();
    scene.pass(75).await?;
    until_true("it is polled", || polls(&scene).len() > before).await?;
    let poll = polls(&scene).pop().context("it was just there")?;
    let newest = answer.created_at.as_secs();
    let since = poll.number("since").context("all of it was asked for")?;
    ensure!(
        since <= newest - 900,
        "{since} is not 900 s before {newest}"
    );
    until_true("its place is free again", || {
        !scene.relay.open().contains(&poll.name)
    })
    .await?;
    ensure!(
        scene.relay.most_open() <= 20,
        "{} were open",
        scene.relay.most_open()
    );
    Ok(())
}

/// G02-17: 10, 5, 2, 1, whatever number the relay names (G02-32), for as long as the connection lasts. What is said
/// of a subscription that has ended is nothing.
#[tokio::test]
async fn g02_17_32_a_refusal_of_many_filters_lowers_their_number_until_the_next_connection()
-> Result<()> {
    let script = |message: &Value| {
        let is_refused = is_live(message) && filters(message) > 2;
        is_refused.then(|| closed(message, "invalid: max filter count exceeded, 7 are allowed"))
    };
    let relay = FakeRelay::start("127.0.2.55", empty(script)).await?;
    let scene = Scene::start(relay, Time::Timers(5), &[WITHOUT_NIP77]).await?;
    let project = LocalProject::new("tides")?;
    scene.host(&project).await?;
    let sizes = |scene: &Scene, connection: usize| -> Vec<usize> {
        let requests = scene.relay.requests().into_iter();
        let live = requests.filter(|it| it.is_live() && it.connection == connection);
        live.map(|it| it.filters.len()).collect()
    };
    scene
        .shown("all is read", |it| {
            it["full_at"].is_i64() && it["is_reading_history"] == false && it["filters"] == 2
        })
        .await?;
    scene.relay.settled().await?;
    let first = sizes(&scene, 0);
    ensure!(first.iter().all(|size| *size <= 10), "{first:?}");
    // Of something that ended long ago.
    let ended = scene.relay.requests().into_iter().find(Request::is_live);
    let ended = ended.context("there was one")?;
    scene
        .relay
        .say(json!(["CLOSED", ended.name, "invalid: too many filters"]));
    scene.relay.settled().await?;
    let shown = scene
        .shown("it is shown", |it| it["filters"].is_u64())
        .await?;
    ensure!(shown["filters"] == 2, "{shown}");
    scene.relay.hang_up();
    until_true("it is connected again", || !sizes(&scene, 1).is_empty()).await?;
    let again = sizes(&scene, 1);
    ensure!(again[0] > 5, "{again:?}");
    until_true("it is refused again", || {
        sizes(&scene, 1).iter().any(|it| *it <= 2)
    })
    .await?;
    // Each time the next lower number, never the one that was named.
    let again = sizes(&scene, 1);
    ensure!(again.contains(&5) && !again.contains(&7), "{again:?}");
    Ok(())
}

/// Bytes that all subscriptions may have, and what is kept of them for one request of history.
const ACTIVE_BYTES: u64 = 98_560 + 200;

/// G02-18: how many bytes may be open is remembered over connections; what has no room is polled every five
/// minutes, with an overlap of one.
#[tokio::test]
async fn g02_18_what_has_no_room_among_the_bytes_of_a_relay_is_polled_every_five_minutes()
-> Result<()> {
    let newest = Timestamp::now() - 500;
    let project = LocalProject::new("tides")?;
    let tags = vec![tag(["a", &project.coordinate()])];
    let issue = Author::new().sign_at(1621, "ebb", tags, newest);
    let text = format!("ERROR: active subscriptions exceed max size {ACTIVE_BYTES} bytes");
    let script = having(&events([&issue]), move |message| {
        is_live(message).then(|| closed(message, &text))
    });
    let relay = FakeRelay::start("127.0.2.56", script).await?;
    let mut scene = Scene::start(relay, Time::Timers(5), &[WITHOUT_NIP77]).await?;
    scene.host(&project).await?;
    let is_read = |it: &Value| it["full_at"].is_i64() && it["is_reading_history"] == false;
    scene.shown("all is read", is_read).await?;
    scene.relay.hang_up();
    until_true("it is connected again", || {
        scene.relay.connected().len() == 2
    })
    .await?;
    scene
        .shown("what is new is read", |it| {
            is_read(it) && it["health"] == "healthy"
        })
        .await?;
    let on_second = scene
        .relay
        .requests()
        .into_iter()
        .filter(|it| it.connection == 1);
    let too_long = on_second
        .filter(|it| it.is_live() && it.size_bytes > 250)
        .count();
    ensure!(too_long == 0, "it was forgotten\n{}", scene.story());
    ensure!(
        scene.relay.most_open() <= 2,
        "{} were open",
        scene.relay.most_open()
    );
    let polls = |scene: &Scene| -> Vec<Request> {
        let pages = scene.pages().into_iter();
        let of = pages.filter(|it| it.connection == 1 && it.asks("#a", &project.coordinate()));
        of.collect()
    };
    let before = polls(&scene).len();
    scene.pass(240).await?;
    ensure!(polls(&scene).len() == before, "{}", scene.story());
    scene.pass(100).await?;
    until_true("it is polled", || polls(&scene).len() > before).await?;
    let poll = polls(&scene).pop().context("it was just there")?;
    // The newest that the relay gave is older than the last poll.
    let since = poll.number("since");
    let known = since.context("all of it was asked for")?;
    ensure!(
        known + 60 >= newest.as_secs() && known <= Timestamp::now().as_secs(),
        "{poll:?}"
    );
    Ok(())
}
