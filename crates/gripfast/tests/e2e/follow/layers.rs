//! Layers of filters: what is asked of which relay.

use std::{collections::BTreeSet, sync::Arc};

use anyhow::{Context as _, Result, ensure};
use grip_testkit::{
    Author, FakeRelay, LocalProject,
    events::tag,
    fake_relay::{Nip77, Request},
    until_true,
};
use nostr::prelude::{Event, Timestamp};

use super::{
    scene::{events_of, node, publish, push, relays, served},
    scripted::{Events, Scene, Time, WITHOUT_NIP77, announcement, empty, events, having},
};

/// G02-5: announcements of everybody at once, states alone of what is held, all that speaks of it of what is
/// served, then what speaks of issues and of the answers to them; live with `limit: 0`, and before that by NIP-77.
#[tokio::test]
async fn g02_5_what_is_asked_for_grows_from_announcements_to_the_answers_of_issues() -> Result<()> {
    let known = Events::default();
    let (nip77, having) = (Nip77::default(), Arc::clone(&known));
    let script = Arc::new(move |message: &_| nip77.answer(message, &having.lock()));
    let relay = FakeRelay::start("127.0.2.41", script).await?;
    let scene = Scene::start(relay, Time::Timers(5), &[]).await?;
    let project = LocalProject::new("tides")?;
    let coordinate = project.coordinate();
    let announced = scene.announce(&project).await?;
    let asks = |what: &'static str, field: &'static str, value: &str| {
        let value = value.to_owned();
        let scene = &scene;
        async move {
            let is_it = |it: &Request| it.is_live() && it.asks(field, &value);
            scene.request(what, 0, is_it).await?;
            let is_it = |it: &Request| it.is_comparison && it.asks(field, &value);
            scene.request(what, 0, is_it).await
        }
    };
    let held = asks("the state of what is held is asked for", "#d", "tides").await?;
    ensure!(
        held.filters[0]["kinds"].to_string().contains("30618"),
        "{held:?}"
    );
    let requests = scene.relay.requests();
    let first = requests.first().context("nothing was asked")?;
    let of_everybody = first.filters.iter().find(|it| it["#d"].is_null());
    let of_everybody = of_everybody.context("announcements were not asked for")?;
    ensure!(
        of_everybody["kinds"] == serde_json::json!([10_317, 30_617]),
        "{first:?}"
    );
    for field in ["#a", "#A", "#q", "#e", "#E"] {
        ensure!(
            requests.iter().all(|it| !it.has(field)),
            "{}",
            scene.story()
        );
    }
    push(&project, &scene.node, 5).await?;
    served(&scene.node, &announced).await?;
    for field in ["#a", "#A", "#q"] {
        asks(
            "what speaks of the repository is asked for",
            field,
            &coordinate,
        )
        .await?;
    }
    let issue = Author::new().issue(&project.owner, "tides", "ebb");
    scene.deliver("#a", &coordinate, &issue).await?;
    let id = issue.id.to_hex();
    for field in ["#e", "#E", "#q"] {
        asks("what speaks of the issue is asked for", field, &id).await?;
    }
    let answer = Author::new().sign(1111, "still", vec![tag(["e", &id])]);
    scene.deliver("#e", &id, &answer).await?;
    for field in ["#e", "#q"] {
        asks(
            "what speaks of the answer is asked for",
            field,
            &answer.id.to_hex(),
        )
        .await?;
    }
    // Nothing that is there is asked for by REQ, but what a comparison found.
    let pages = scene.pages();
    ensure!(pages.iter().all(|it| it.has("ids")), "{pages:#?}");
    Ok(())
}

/// G02-4: neither what is ephemeral nor what is protected is taken, by whichever way it comes, and a state waits
/// for its data as one that a person sends.
#[tokio::test]
async fn g02_4_synced_events_pass_the_same_policy_and_some_are_never_taken() -> Result<()> {
    let project = LocalProject::new("tides")?;
    let about = || tag(["a", &project.coordinate()]);
    let ephemeral = Author::new().sign(20_001, "passing", vec![about()]);
    let protected = Author::new().sign(1621, "mine alone", vec![about(), tag(["-"])]);
    let issue = Author::new().issue(&project.owner, "tides", "ebb");
    let unborn = "1".repeat(40);
    let state = project
        .owner
        .state("tides", &[("refs/heads/main", &unborn)], None);
    let known = events([&ephemeral, &protected, &issue, &state]);
    let relay = FakeRelay::start("127.0.2.42", having(&known, |_| None)).await?;
    let scene = Scene::start(relay, Time::Timers(5), &[WITHOUT_NIP77]).await?;
    scene.host(&project).await?;
    served(&scene.node, &issue).await?;
    // Live, too; what follows on the same subscription was decided after them.
    let last = Author::new().issue(&project.owner, "tides", "flood");
    let live = scene
        .live("#a", &project.coordinate())
        .context("it is live")?;
    for event in [&ephemeral, &protected] {
        scene
            .relay
            .say(serde_json::json!(["EVENT", live.name, event]));
    }
    scene.deliver("#a", &project.coordinate(), &last).await?;
    scene
        .shown("all is read", |it| it["full_at"].is_i64())
        .await?;
    let here = events_of(&scene.node).await?;
    for event in [&ephemeral, &protected, &state] {
        ensure!(
            !here.contains(&event.id.to_hex()),
            "kind {} is served",
            event.kind
        );
    }
    let explained = scene.node.explain(&state.id.to_hex()).await?;
    ensure!(explained["status"] == "held", "{explained}");
    Ok(())
}

/// G02-11: scheme, host and a lone `/` in one spelling, while paths and queries tell relays apart. G02-10: our own
/// relay is none, however it is spelt.
#[tokio::test]
async fn g02_10_11_one_relay_is_dialled_once_however_it_is_spelt_and_the_own_one_never()
-> Result<()> {
    let relay = FakeRelay::start("127.0.2.43", empty(|_| None)).await?;
    let node = node().await?;
    let project = LocalProject::new("tides")?;
    let url = relay.url();
    let own = node.relay_url();
    let spelt = [
        url.replace("ws:", "WS:"),
        format!("{url}/"),
        format!("{url}/#top"),
        url.clone(),
        format!("{url}/a"),
        format!("{url}/a?b=1"),
        format!("{}/", own.replace("ws:", "Ws:")),
        own,
    ];
    publish(&node, &announcement(&project, &node, &spelt)).await?;
    let expected: BTreeSet<String> =
        [url.clone(), format!("{url}/a"), format!("{url}/a?b=1")].into();
    until_true("each is connected", || {
        relay.connected().len() == expected.len()
    })
    .await?;
    let shown = relays(&node).await?;
    let shown = shown
        .iter()
        .filter_map(|it| it["relay"].as_str().map(str::to_owned));
    let shown: BTreeSet<String> = shown.collect();
    ensure!(shown == expected, "{shown:?}");
    relay.settled().await?;
    ensure!(relay.connected().len() == expected.len());
    Ok(())
}

/// G02-10, G01-79: a relay that only an invited key names is asked for announcements and states, where the
/// acceptance may be. When it has come, the relay is that of a co-maintainer, and followed for everything.
#[tokio::test]
async fn g02_10_relays_of_invited_keys_are_asked_for_announcements_and_states_alone() -> Result<()>
{
    let relay = FakeRelay::start("127.0.2.47", empty(|_| None)).await?;
    let scene = Scene::start(relay, Time::Timers(5), &[WITHOUT_NIP77]).await?;
    let project = LocalProject::new("tides")?;
    let invited = Author::new();
    let own = project.url(&scene.node);
    let elsewhere = invited.clone_url("git.example", "tides");
    let announced = |relay: String, place: &str, maintainers: &[String]| {
        let listed = maintainers.iter().cloned();
        vec![
            tag(["d", "tides"]),
            tag(["clone", place]),
            tag(["relays".to_owned(), relay]),
            tag(["maintainers".to_owned()].into_iter().chain(listed)),
        ]
    };
    let invitation = announced(scene.node.relay_url(), &own, &[invited.hex()]);
    publish(&scene.node, &project.owner.sign(30617, "", invitation)).await?;
    push(&project, &scene.node, 5).await?;
    let refused = announced(scene.relay.url(), &elsewhere, &[]);
    let before = Timestamp::now() - 60;
    publish(&scene.node, &invited.sign_at(30617, "", refused, before)).await?;
    let is_it = |it: &Request| it.is_live() && it.asks("#d", "tides");
    let asked = scene
        .request("the acceptance is asked for", 0, is_it)
        .await?;
    let of_it = asked.filters.iter().find(|it| !it["#d"].is_null());
    ensure!(
        of_it.is_some_and(|it| it["kinds"] == serde_json::json!([30_617, 30_618])),
        "{asked:?}"
    );
    scene
        .shown("all is read", |it| it["full_at"].is_i64())
        .await?;
    for field in ["#a", "#A", "#q", "#e", "#E"] {
        let requests = scene.relay.requests();
        ensure!(
            requests.iter().all(|it| !it.has(field)),
            "{}",
            scene.story()
        );
    }
    let acceptance = announced(scene.relay.url(), &elsewhere, &[project.owner.hex()]);
    let acceptance = invited.sign(30617, "", acceptance);
    scene.deliver("#d", "tides", &acceptance).await?;
    let coordinate = project.coordinate();
    let is_it = |it: &Request| it.is_live() && it.asks("#a", &coordinate);
    scene
        .request("the relay of a co-maintainer is followed", 0, is_it)
        .await?;
    Ok(())
}

/// An answer by its parent alone.
fn reply(parent: &Event, at: Timestamp) -> Event {
    let tags = vec![tag(["e", &parent.id.to_hex()])];
    Author::new().sign_at(1111, "so it is", tags, at)
}

/// G02-12: eight levels down; what the eighth is answered with is taken, and not followed.
#[tokio::test]
async fn g02_12_answers_are_followed_eight_levels_down() -> Result<()> {
    let project = LocalProject::new("tides")?;
    let issue = Author::new().issue(&project.owner, "tides", "ebb");
    let mut chain = vec![issue];
    for n in 0..10_u64 {
        let parent = chain.last().context("the issue")?;
        chain.push(reply(parent, Timestamp::now() - 100 + n));
    }
    let relay = FakeRelay::start("127.0.2.44", having(&events(&chain), |_| None)).await?;
    let scene = Scene::start(relay, Time::Timers(10), &[WITHOUT_NIP77]).await?;
    scene.host(&project).await?;
    served(&scene.node, &chain[9]).await?;
    scene
        .shown("all is read", |it| {
            it["full_at"].is_i64() && it["is_reading_history"] == false
        })
        .await?;
    let requests = scene.relay.requests();
    let is_asked = |event: &Event| requests.iter().any(|it| it.asks("#e", &event.id.to_hex()));
    ensure!(
        chain[..9].iter().all(is_asked) && !is_asked(&chain[9]),
        "{}",
        scene.story()
    );
    let here = events_of(&scene.node).await?;
    ensure!(
        !here.contains(&chain[10].id.to_hex()),
        "the tenth was followed"
    );
    Ok(())
}

/// G02-12: of all answers the first levels, each by age: two nodes that got them in another order choose the same.
#[tokio::test]
async fn g02_12_nodes_with_the_same_answers_follow_the_same_of_them() -> Result<()> {
    let project = LocalProject::new("tides")?;
    let issue = Author::new().issue(&project.owner, "tides", "ebb");
    let began = Timestamp::now() - 1_000;
    let direct: Vec<Event> = [4, 1, 3, 2].map(|at| reply(&issue, began + at)).into();
    // Older than all of them, and a level below.
    let below = reply(&direct[1], began);
    let mut expected = [&issue, &direct[1], &direct[3]].map(|it| it.id.to_hex());
    expected.sort();
    let mut all: Vec<&Event> = direct.iter().chain([&issue, &below]).collect();
    let limit = ("NGIT_SYNC_RECURSIVE_DESCENDANT_LIMIT", "2");
    for address in ["127.0.2.45", "127.0.2.46"] {
        all.reverse();
        let relay = FakeRelay::start(address, having(&events(all.clone()), |_| None)).await?;
        let scene = Scene::start(relay, Time::Timers(10), &[WITHOUT_NIP77, limit]).await?;
        scene.host(&project).await?;
        for event in &all {
            served(&scene.node, event).await?;
        }
        scene
            .shown("all is read", |it| {
                it["full_at"].is_i64() && it["is_reading_history"] == false
            })
            .await?;
        let open = scene.relay.open();
        let live = scene.relay.requests().into_iter();
        let live: Vec<Request> = live
            .filter(|it| it.is_live() && open.contains(&it.name))
            .collect();
        let mut followed: Vec<String> = live
            .iter()
            .flat_map(|it| it.values("#e").map(str::to_owned))
            .collect();
        followed.sort();
        ensure!(
            followed == expected,
            "{followed:?} are not {expected:?}\n{}",
            scene.story()
        );
    }
    Ok(())
}
