//! Histories: what a page is, what counts, what is asked for again.

use std::sync::Arc;

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    Author, FakeRelay, LocalProject,
    events::tag,
    fake_relay::{Document, Nip77, Request, Script, honest},
    until_true,
};
use nostr::prelude::{Event, Timestamp};
use serde_json::{Value, json};

use super::{
    scene::{events_of, node_with, served, until_relay},
    scripted::{Events, Scene, Time, WITHOUT_NIP77, closed, empty, events, having, is_page},
};

/// So many announcements that do not list the node, one a second; they are refused.
fn foreign(count: u64) -> Vec<Event> {
    let began = Timestamp::now() - 10_000;
    let announcement = |n: u64| {
        let tags = vec![tag(["d", &format!("x{n}")])];
        Author::new().sign_at(30617, "", tags, began + n)
    };
    (0..count).map(announcement).collect()
}

/// A relay that gives no more than `most` events for a filter.
fn capped(events: &Events, most: usize) -> Script {
    let having = Arc::clone(events);
    let page = move |message: &Value| {
        let mut all = honest(message, &having.lock());
        let end = all.pop()?;
        all.truncate(most);
        all.push(end);
        Some(all)
    };
    having_pages(events, page)
}

fn having_pages(
    events: &Events,
    page: impl Fn(&Value) -> Option<Vec<Value>> + Send + Sync + 'static,
) -> Script {
    having(events, move |message| {
        is_page(message).then(|| page(message)).flatten()
    })
}

fn pages(relay: &FakeRelay) -> Vec<Request> {
    let requests = relay.requests().into_iter();
    requests.filter(Request::is_page).collect()
}

/// G02-19: events count as they come, though all of them are refused, and the next page ends where the last one
/// began. G02-20: `default_limit` counts once a page of exactly that length was followed by another; `max_limit`
/// does not.
#[tokio::test]
async fn g02_19_20_a_page_is_full_by_what_came_and_by_the_default_limit_of_the_relay() -> Result<()>
{
    let all = foreign(25);
    let at = |n: usize| Some(all[n].created_at.as_secs());
    let having = events(&all);
    let (told, not_told, untrue) = (
        FakeRelay::start("127.0.2.21", capped(&having, 10)).await?,
        FakeRelay::start("127.0.2.22", capped(&having, 10)).await?,
        FakeRelay::start("127.0.2.23", capped(&having, 25)).await?,
    );
    let limits = |name: &str| Document::Json(json!({ "limitation": { name: 10 } }));
    told.set_document(limits("default_limit"));
    not_told.set_document(limits("max_limit"));
    untrue.set_document(limits("default_limit"));
    let relays = [&told, &not_told, &untrue];
    let urls = relays.map(FakeRelay::url).join(",");
    let env = [WITHOUT_NIP77, ("NGIT_SYNC_BOOTSTRAP_RELAY_URL", &urls)];
    let node = node_with(&env).await?;
    for relay in relays {
        until_relay(&node, "its history is read", |it| {
            it["relay"] == relay.url().as_str() && it["full_at"].is_i64()
        })
        .await?;
    }
    let ends = |relay: &FakeRelay| -> Vec<Option<u64>> {
        let pages = pages(relay);
        pages.iter().map(|page| page.number("until")).collect()
    };
    // 24 … 15, 15 … 6, 6 … 0
    ensure!(ends(&told) == [None, at(15), at(6)], "{:?}", ends(&told));
    ensure!(ends(&not_told) == [None], "{:?}", ends(&not_told));
    ensure!(ends(&untrue) == [None], "{:?}", ends(&untrue));
    let with_limit = relays.iter().flat_map(|relay| pages(relay));
    ensure!(with_limit.into_iter().all(|page| !page.has("limit")));
    Ok(())
}

/// G02-21: the EOSE of another request ends nothing, and 120 s of silence end the request, with a CLOSE. G02-28:
/// what was not answered to its end is asked again after a pause of 65 s, which doubles.
#[tokio::test]
async fn g02_21_28_a_request_that_is_not_answered_to_its_end_confirms_nothing_and_pauses()
-> Result<()> {
    let event = json!(foreign(1)[0]);
    let silent = empty(move |message| {
        let answer = || vec![json!(["EVENT", message[1], event]), json!(["EOSE", "g999"])];
        is_page(message).then(answer)
    });
    let relay = FakeRelay::start("127.0.2.24", silent).await?;
    let mut scene = Scene::configured(relay, Time::Timers(1), &[WITHOUT_NIP77]).await?;
    let first = scene
        .request("its history is read", 0, Request::is_page)
        .await?;
    // The time that we take to decide is no silence of the relay.
    scene
        .shown("what came is decided", |it| it["events_received"] == 1)
        .await?;
    let close = json!(["CLOSE", first.name]);
    scene.pass(100).await?;
    ensure!(!scene.relay.heard().contains(&close), "{}", scene.story());
    scene.pass(25).await?;
    ensure!(scene.relay.heard().contains(&close), "{}", scene.story());
    let shown = scene
        .shown("it failed", |it| it["health"] == "degraded")
        .await?;
    ensure!(shown["full_at"].is_null(), "{shown}");
    scene.relay.set_script(empty(|message| {
        is_page(message).then(|| closed(message, "error: could not connect to the database"))
    }));
    scene.pass(45).await?;
    ensure!(scene.pages().len() == 1, "{}", scene.story());
    scene.pass(21).await?;
    let pages = scene.pages();
    ensure!(pages.len() == 2, "{}", scene.story());
    ensure!(pages[1].filters == first.filters, "{pages:#?}");
    scene.pass(110).await?;
    ensure!(scene.pages().len() == 2, "{}", scene.story());
    scene.relay.set_script(empty(|_| None));
    scene.pass(21).await?;
    ensure!(scene.pages().len() == 3, "{}", scene.story());
    scene
        .shown("it is read and well", |it| {
            it["full_at"].is_i64() && it["health"] == "healthy"
        })
        .await?;
    Ok(())
}

/// G02-21: a page that a lost connection cut off is asked for again as it was: what came of it moves nothing, and
/// what came before it is not asked for again.
#[tokio::test]
async fn g02_21_a_page_that_was_cut_off_is_read_again_from_where_the_last_one_ended() -> Result<()>
{
    let all = foreign(250);
    let having = events(&all);
    let whole = capped(&having, 100);
    let half = Arc::clone(&whole);
    let script = move |message: &Value| {
        let mut answer = half(message);
        if message[2]["until"].is_u64() {
            answer.truncate(50);
        }
        answer
    };
    let relay = FakeRelay::start("127.0.2.25", Arc::new(script)).await?;
    let scene = Scene::configured(relay, Time::Timers(5), &[WITHOUT_NIP77]).await?;
    let is_second = |it: &Request| it.is_page() && it.number("until").is_some();
    let cut = scene
        .request("the second page is asked for", 0, is_second)
        .await?;
    ensure!(cut.number("until") == Some(all[150].created_at.as_secs()));
    scene
        .shown("half of it came", |it| {
            it["events_received"].as_u64() >= Some(150)
        })
        .await?;
    let known = scene.relay.requests().len();
    scene.relay.set_script(whole);
    scene.relay.hang_up();
    let again = scene
        .request("it is asked again", known, Request::is_page)
        .await?;
    ensure!(
        again.connection == 1 && again.filters == cut.filters,
        "{again:?}"
    );
    scene
        .shown("all is read", |it| it["full_at"].is_i64())
        .await?;
    Ok(())
}

/// Bytes of one issue, and of those that a relay may have kept here at once.
const ISSUE_BYTES: usize = 20_000;
const SHARE: usize = 5 * ISSUE_BYTES;

/// G02-22: of a page some events are more than the share of the relay: the page confirms nothing, and the others
/// are asked for by id. G02-28: after a pause.
#[tokio::test]
async fn g02_22_what_could_not_be_decided_of_a_page_is_asked_for_again_by_id() -> Result<()> {
    let project = LocalProject::new("tides")?;
    let issue = |n: usize| {
        let content = format!("{n:0ISSUE_BYTES$}");
        let tags = vec![tag(["a", &project.coordinate()])];
        Author::new().sign(1621, &content, tags)
    };
    let issues: Vec<Event> = (0..7).map(issue).collect();
    let relay = FakeRelay::start("127.0.2.26", having(&events(&issues), |_| None)).await?;
    let share = SHARE.to_string();
    let env = [
        WITHOUT_NIP77,
        ("GRIPFAST_RELAY_SYNCED_BURST_BYTES", share.as_str()),
        ("GRIPFAST_RELAY_SYNCED_BYTES_PER_HOUR", "3600000"),
    ];
    let mut scene = Scene::start(relay, Time::Timers(1), &env).await?;
    scene.host(&project).await?;
    let shown = scene
        .shown("some were too many", |it| it["health"] == "degraded")
        .await?;
    ensure!(shown["full_at"].is_null(), "{shown}");
    let here = events_of(&scene.node).await?;
    let missing: Vec<String> = issues.iter().map(|it| it.id.to_hex()).collect();
    let missing: Vec<String> = missing
        .into_iter()
        .filter(|id| !here.contains(id))
        .collect();
    ensure!(
        !missing.is_empty() && missing.len() < issues.len(),
        "{missing:?}"
    );
    scene.pass(70).await?;
    let by_id = scene
        .request("they are asked for by id", 0, |it| it.has("ids"))
        .await?;
    let mut asked: Vec<&str> = by_id.values("ids").collect();
    asked.sort_unstable();
    let mut missing: Vec<&str> = missing.iter().map(String::as_str).collect();
    missing.sort_unstable();
    ensure!(asked == missing, "{asked:?} are not {missing:?}");
    for issue in &issues {
        served(&scene.node, issue).await?;
    }
    Ok(())
}

/// Comparisons by NIP-77 that were asked for.
fn comparisons(scene: &Scene) -> Vec<Request> {
    let requests = scene.relay.requests().into_iter();
    requests.filter(|it| it.is_comparison).collect()
}

/// G02-23: a relay that does not speak NIP-77 is read by pages, a day later too, and compared with when it is
/// connected again.
#[tokio::test]
async fn g02_23_a_relay_that_refuses_nip77_is_read_by_pages_until_it_is_connected_again()
-> Result<()> {
    let event = foreign(1);
    let refusing = |message: &Value| {
        let refusal = || json!(["NEG-ERR", message[1], "unsupported: no negentropy here"]);
        (message[0] == "NEG-OPEN").then(|| vec![refusal()])
    };
    let relay = FakeRelay::start("127.0.2.32", having(&events(&event), refusing)).await?;
    let mut scene = Scene::configured(relay, Time::Day, &[]).await?;
    scene
        .shown("its history is read", |it| {
            it["full_at"].is_i64() && it["history_by"] == "req" && it["events_received"] == 1
        })
        .await?;
    let read = scene.pages().len();
    scene.pass(25 * 3_600 + 700).await?;
    until_true("all is read again", || scene.pages().len() > read).await?;
    ensure!(comparisons(&scene).len() == 1, "{}", scene.story());
    scene.relay.hang_up();
    until_true("it is compared with again", || {
        comparisons(&scene).iter().any(|it| it.connection == 1)
    })
    .await
    .with_context(|| scene.story())?;
    ensure!(comparisons(&scene).len() == 2, "{}", scene.story());
    Ok(())
}

/// G02-23: a comparison that is not answered ends after 15 s, with a NEG-CLOSE; what it was for is read by pages,
/// and for a minute nothing is compared.
#[tokio::test]
async fn g02_23_a_comparison_that_is_not_answered_gives_way_to_pages_for_a_minute() -> Result<()> {
    let silent = |message: &Value| (message[0] == "NEG-OPEN").then(Vec::new);
    let relay = FakeRelay::start("127.0.2.33", having(&events(&foreign(1)), silent)).await?;
    let mut scene = Scene::configured(relay, Time::Timers(1), &[]).await?;
    let first = scene
        .request("it is compared with", 0, |it| it.is_comparison)
        .await?;
    let close = json!(["NEG-CLOSE", first.name]);
    scene.pass(5).await?;
    ensure!(!scene.relay.heard().contains(&close), "{}", scene.story());
    ensure!(scene.pages().is_empty(), "{}", scene.story());
    scene.pass(11).await?;
    let page = scene
        .request("it is read by pages", 0, Request::is_page)
        .await?;
    ensure!(scene.relay.heard().contains(&close), "{}", scene.story());
    ensure!(page.filters == first.filters, "{}", scene.story());
    scene
        .shown("its history is read", |it| {
            it["full_at"].is_i64() && it["events_received"] == 1
        })
        .await?;
    let (soon, later) = (LocalProject::new("soon")?, LocalProject::new("later")?);
    scene.host(&soon).await?;
    scene
        .request("what is new is read by pages", 0, |it| {
            it.is_page() && it.asks("#a", &soon.coordinate())
        })
        .await?;
    ensure!(comparisons(&scene).len() == 1, "{}", scene.story());
    scene.pass(61).await?;
    scene.host(&later).await?;
    until_true("it is compared with again", || {
        comparisons(&scene).len() > 1
    })
    .await
    .with_context(|| scene.story())
}

/// A relay that by NIP-77 has `claimed`, and gives `given`.
fn claiming(claimed: Vec<Value>, given: Vec<Value>) -> Script {
    let nip77 = Nip77::default();
    Arc::new(move |message| {
        let compared = nip77.compare(message, &claimed);
        compared.unwrap_or_else(|| honest(message, &given))
    })
}

fn json_of(events: &[Event]) -> Vec<Value> {
    events.iter().map(|event| json!(event)).collect()
}

/// Requests by id.
fn fetches(relay: &FakeRelay) -> Vec<Request> {
    let requests = relay.requests().into_iter();
    requests.filter(|it| it.has("ids")).collect()
}

/// G02-24: again at once, then after 30 s doubling to 15 min, twelve times more in all.
#[tokio::test]
async fn g02_24_an_event_that_is_named_and_not_given_is_asked_for_twelve_times_more() -> Result<()>
{
    let script = claiming(json_of(&foreign(1)), Vec::new());
    let relay = FakeRelay::start("127.0.2.27", script).await?;
    let mut scene = Scene::configured(relay, Time::Timers(1), &[]).await?;
    until_true("it is asked for twice", || fetches(&scene.relay).len() == 2).await?;
    for (pause, count) in [(24, 2), (7, 3), (50, 3), (11, 4), (110, 4), (11, 5)] {
        scene.pass(pause).await?;
        let asked = fetches(&scene.relay).len();
        ensure!(asked == count, "{asked} times\n{}", scene.story());
    }
    // 240 s, 480 s, and then 15 min each.
    for (pause, count) in [
        (241, 6),
        (481, 7),
        (901, 8),
        (901, 9),
        (901, 10),
        (901, 11),
        (901, 12),
        (901, 13),
    ] {
        scene.pass(pause).await?;
        let asked = fetches(&scene.relay).len();
        ensure!(asked == count, "{asked} times\n{}", scene.story());
    }
    scene.pass(1_000).await?;
    ensure!(fetches(&scene.relay).len() == 13, "{}", scene.story());
    let shown = scene
        .shown("it has a gap", |it| it["health"] == "degraded")
        .await?;
    ensure!(shown["full_at"].is_null(), "{shown}");
    Ok(())
}

/// G02-24: 300 ids in one request; where of twenty and more hardly any comes, by what was meant.
#[tokio::test]
async fn g02_24_missing_events_are_asked_for_300_at_once_and_by_filter_where_none_comes()
-> Result<()> {
    // Of each its own: what one relay has given is not missing on another.
    let [many, some, few] = [350, 20, 19].map(|count| json_of(&foreign(count)));
    let relays = [
        FakeRelay::start("127.0.2.28", claiming(many.clone(), many.clone())).await?,
        FakeRelay::start("127.0.2.29", claiming(some.clone(), some[..2].to_vec())).await?,
        FakeRelay::start("127.0.2.30", claiming(few, Vec::new())).await?,
    ];
    let [whole, lying, small] = &relays;
    let urls = relays.each_ref().map(FakeRelay::url).join(",");
    let node = node_with(&[("NGIT_SYNC_BOOTSTRAP_RELAY_URL", &urls)]).await?;
    until_relay(&node, "one is read", |it| {
        it["relay"] == whole.url().as_str() && it["full_at"].is_i64()
    })
    .await?;
    let counts: Vec<usize> = fetches(whole)
        .iter()
        .map(|it| it.values("ids").count())
        .collect();
    ensure!(counts == [300, 50], "{counts:?}");
    let semantic = |relay: &FakeRelay| {
        let pages = pages(relay).into_iter();
        pages.filter(|it| !it.has("ids") && it.has("kinds")).count()
    };
    until_true("it is asked by filter", || semantic(lying) == 1).await?;
    until_true("they are asked for again", || fetches(small).len() == 2).await?;
    ensure!(fetches(lying).len() == 1, "{:#?}", fetches(lying));
    ensure!(semantic(whole) + semantic(small) == 0);
    Ok(())
}

/// G02-25: after a short break only what is newer, with an overlap of 15 min; all of it after a long one, once a
/// day, and when the relay says that it has other limits.
#[tokio::test]
async fn g02_25_history_is_read_from_the_last_confirmed_moment_or_from_its_beginning() -> Result<()>
{
    let all = foreign(1);
    let newest = all[0].created_at.as_secs();
    let relay = FakeRelay::start("127.0.2.31", having(&events(&all), |_| None)).await?;
    let limits = |most: u32| Document::Json(json!({"limitation": {"max_subscriptions": most}}));
    relay.set_document(limits(50));
    let mut scene = Scene::configured(relay, Time::Day, &[WITHOUT_NIP77]).await?;
    let is_read = |it: &Value| it["full_at"].is_i64() && it["is_reading_history"] == false;
    scene.shown("its history is read", is_read).await?;
    ensure!(last(&scene)?.number("since").is_none(), "{}", scene.story());
    reconnect(&mut scene, 0, 2).await?;
    ensure!(
        last(&scene)?.number("since") == Some(newest - 900),
        "{}",
        scene.story()
    );
    reconnect(&mut scene, 16 * 60, 3).await?;
    ensure!(last(&scene)?.number("since").is_none(), "{}", scene.story());
    reconnect(&mut scene, 0, 4).await?;
    ensure!(last(&scene)?.number("since").is_some(), "{}", scene.story());
    scene.relay.set_document(limits(60));
    reconnect(&mut scene, 0, 5).await?;
    ensure!(last(&scene)?.number("since").is_none(), "{}", scene.story());
    // The last full pass was just now; the connection stays.
    scene.pass(22 * 3_600 + 3_000).await?;
    ensure!(scene.pages().len() == 5, "{}", scene.story());
    scene.pass(2 * 3_600 + 700).await?;
    until_true("all is read again", || scene.pages().len() == 6).await?;
    let again = last(&scene)?;
    ensure!(
        again.number("since").is_none() && again.connection == 4,
        "{again:?}"
    );
    Ok(())
}

/// Ends the connection, lets time pass, and waits until the history was read that makes it so many.
async fn reconnect(scene: &mut Scene, away: i64, pages: usize) -> Result<()> {
    scene
        .shown("nothing is under way", |it| {
            it["is_reading_history"] == false
        })
        .await?;
    scene.relay.hang_up();
    scene.jump(away)?;
    until_true("its history is read", || scene.pages().len() == pages)
        .await
        .with_context(|| scene.story())
}

fn last(scene: &Scene) -> Result<Request> {
    scene.pages().pop().context("nothing was read")
}
