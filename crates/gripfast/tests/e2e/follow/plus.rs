//! Relays of those who take part in something (GRASP-03).

use std::sync::Arc;

use anyhow::{Result, ensure};
use grip_testkit::{
    Author, FakeRelay, LocalProject,
    events::tag,
    fake_relay::{Script, honest},
    until_true,
};
use nostr::prelude::Event;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::scene::{all_served, node_with, publish, push, served};

type Events = Arc<Mutex<Vec<Value>>>;

fn having(events: &Events) -> Script {
    let events = Arc::clone(events);
    Arc::new(move |message: &Value| honest(message, &events.lock()))
}

fn add(events: &Events, event: &Event) {
    events.lock().push(json!(event));
}

/// Profiles and lists of participants are kept (G03-3).
#[tokio::test]
async fn g03_2_3_participants_are_followed_by_their_lists_and_those_without_one_by_the_fallback()
-> Result<()> {
    let [at_index, at_own, at_fallback] = [(); 3].map(|()| Events::default());
    let index = FakeRelay::start("127.0.0.31", having(&at_index)).await?;
    let own = FakeRelay::start("127.0.0.32", having(&at_own)).await?;
    let fallback = FakeRelay::start("127.0.0.33", having(&at_fallback)).await?;
    let (listed, unlisted) = (Author::new(), Author::new());
    let profile = listed.sign(0, r#"{"name":"Ada"}"#, vec![]);
    let list = listed.sign(10002, "", vec![tag(["r".to_owned(), own.url()])]);
    add(&at_index, &profile);
    add(&at_index, &list);
    let node = node_with(&[
        ("NGIT_SYNC_PLUS_ENABLED", "true"),
        ("NGIT_USER_INDEX_RELAYS", &index.url()),
        ("NGIT_SYNC_PLUS_FALLBACK_RELAYS", &fallback.url()),
    ])
    .await?;
    let project = LocalProject::new("tides")?;
    publish(&node, &project.announcement_at(&[&node], &[], 60)).await?;
    push(&project, &node, 50).await?;
    let of_listed = listed.issue(&project.owner, "tides", "ebb");
    let of_unlisted = unlisted.issue(&project.owner, "tides", "flood");
    let elsewhere = Author::new().comment(&of_listed, "still");
    let far = Author::new().comment(&of_unlisted, "higher");
    add(&at_own, &elsewhere);
    add(&at_fallback, &far);
    publish(&node, &of_listed).await?;
    publish(&node, &of_unlisted).await?;
    all_served(&node, &[&profile, &list, &elsewhere, &far]).await?;
    // Nothing is published there but who the service is (G02-51, E-5), and the fallback is not asked
    // about who has a list.
    let names = node.json("/.well-known/nostr.json").await?;
    for relay in [&index, &own, &fallback] {
        let heard = relay.heard();
        let published = heard.iter().filter(|message| message[0] == "EVENT");
        let is_own = |event: &Value| {
            event["pubkey"] == names["names"]["_"]
                && [json!(0), json!(10002)].contains(&event["kind"])
        };
        ensure!(
            published.clone().all(|message| is_own(&message[1])),
            "{heard:?}"
        );
    }
    let asked = json!(fallback.heard()).to_string();
    ensure!(asked.contains(&unlisted.hex()) && !asked.contains(&listed.hex()));
    Ok(())
}

/// More participants than one query may name.
const AUTHORS: usize = 150;

/// Their number; when a failed look is repeated is told in docs/decisions/0112.
#[tokio::test]
async fn g03_6_lists_are_looked_up_at_the_index_by_a_hundred_authors_a_query() -> Result<()> {
    let index = FakeRelay::with_events("127.0.0.36", Vec::new()).await?;
    let node = node_with(&[
        ("NGIT_SYNC_PLUS_ENABLED", "true"),
        ("NGIT_USER_INDEX_RELAYS", &index.url()),
        ("NGIT_SYNC_PLUS_FALLBACK_RELAYS", ""),
    ])
    .await?;
    let project = LocalProject::new("tides")?;
    let authors: Vec<Author> = (0..AUTHORS).map(|_| Author::new()).collect();
    let issues = authors.iter().map(|author| {
        let issue = author.issue(&project.owner, "tides", "ebb");
        json!(issue)
    });
    let other = FakeRelay::with_events("127.0.0.37", issues.collect()).await?;
    let tags = vec![
        tag(["d", "tides"]),
        tag(["clone".to_owned(), project.url(&node)]),
        tag(["relays".to_owned(), node.relay_url(), other.url()]),
    ];
    publish(&node, &project.owner.sign(30617, "", tags)).await?;
    push(&project, &node, 50).await?;
    let queries = || -> Vec<Vec<String>> {
        let heard = index.heard();
        let requests = heard.iter().filter(|message| message[0] == "REQ");
        let filters = requests.flat_map(|message| message.as_array().into_iter().flatten().skip(2));
        let authors = filters.filter_map(|filter| filter["authors"].as_array());
        let text = |author: &Value| author.as_str().unwrap_or_default().to_owned();
        authors
            .map(|authors| authors.iter().map(text).collect())
            .collect()
    };
    until_true("everybody's list is looked up", || {
        let asked = queries().concat();
        authors.iter().all(|author| asked.contains(&author.hex()))
    })
    .await?;
    let most = queries().iter().map(Vec::len).max();
    ensure!(most <= Some(100), "{most:?} authors in one query");
    Ok(())
}

#[tokio::test]
async fn g03_13_where_it_is_off_no_index_is_asked() -> Result<()> {
    let events = Events::default();
    let index = FakeRelay::start("127.0.0.34", having(&events)).await?;
    let node = node_with(&[("NGIT_USER_INDEX_RELAYS", &index.url())]).await?;
    let other = FakeRelay::start("127.0.0.35", having(&events)).await?;
    let project = LocalProject::new("tides")?;
    let tags = vec![
        tag(["d", "tides"]),
        tag(["clone".to_owned(), project.url(&node)]),
        tag(["relays".to_owned(), node.relay_url(), other.url()]),
    ];
    publish(&node, &project.owner.sign(30617, "", tags)).await?;
    push(&project, &node, 50).await?;
    // Until another relay has been read.
    let issue = Author::new().issue(&project.owner, "tides", "ebb");
    let comment = Author::new().comment(&issue, "still");
    add(&events, &comment);
    publish(&node, &issue).await?;
    served(&node, &comment).await?;
    ensure!(index.heard().is_empty(), "{:?}", index.heard());
    Ok(())
}
