//! Lists of events, and people and repositories word for word.

use std::time::Duration;

use grip_testkit::assert_matches;
use grip_testkit::github::Behaviour;
use serde_json::{Value, json};

use super::support::{Pair, pair, repo};
use crate::{Cursor, EventSource, EventsPage, GitHubError, Login, RepoKey, Response};

async fn page(pair: &Pair, source: &str, at: Option<Cursor>) -> EventsPage {
    let source = source.parse().unwrap();
    let page = pair.github.events(&source, at, None).await.unwrap();
    page.fresh().expect("all was asked for")
}

fn ids(page: &EventsPage) -> Vec<String> {
    let id = |text: &str| serde_json::from_str::<Value>(text).unwrap()["id"].clone();
    let ids = page.events.iter().map(|event| id(event.get()));
    ids.map(|id| id.as_str().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn events_are_listed_the_latest_first_by_whom_and_where() {
    let pair = pair().await;
    let first = pair.host.push("jo", "acme/one");
    let second = pair.host.push("al", "al/tool");
    for (source, expected) in [
        ("events", vec![&second, &first]),
        ("orgs/acme", vec![&first]),
        ("users/jo", vec![&first]),
        ("repos/al/tool", vec![&second]),
        ("orgs/nobody", vec![]),
    ] {
        let page = page(&pair, source, None).await;
        assert_eq!(
            ids(&page),
            expected
                .iter()
                .map(|e| e["id"].as_str().unwrap())
                .collect::<Vec<_>>()
        );
        assert_eq!(page.poll_interval, Some(Duration::from_secs(60)));
        assert_eq!(page.next, None);
    }
}

#[tokio::test]
async fn a_list_ends_at_three_hundred_and_moves_while_it_is_read() {
    let pair = pair().await;
    for _ in 0..350 {
        pair.host.push("jo", "acme/one");
    }
    let arriving = (0..2).map(|_| vec![pair.host.push_event("jo", "acme/one")]);
    pair.host.emit_between_pages(arriving);
    let first = page(&pair, "events", None).await;
    let second = page(&pair, "events", first.next).await;
    let third = page(&pair, "events", second.next).await;
    assert_eq!(third.next, None);
    assert_eq!(ids(&first).last(), ids(&second).first());
    let mut all: Vec<_> = [&first, &second, &third]
        .into_iter()
        .flat_map(ids)
        .collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 298);
}

#[tokio::test]
async fn an_unchanged_list_is_free_and_one_event_that_is_nonsense_harms_no_other() {
    let pair = pair().await;
    pair.host.push("jo", "acme/one");
    pair.host.emit(json!("nonsense"));
    let found = page(&pair, "events", None).await;
    assert_eq!(found.events.len(), 2);
    let source = EventSource::Public;
    let same = pair.github.events(&source, None, found.etag.as_ref()).await;
    assert_matches!(same, Ok(Response::NotModified));
    pair.host.behave("/events", Behaviour::Html);
    let error = pair.github.events(&source, None, None).await.unwrap_err();
    assert_matches!(error, GitHubError::Malformed { .. });
}

#[tokio::test]
async fn people_are_read_word_for_word_and_never_another() {
    let pair = pair().await;
    let id = pair.host.add_user("Jo");
    pair.host.add_user("al");
    let jo = Login::parse("jo").unwrap();
    let found = pair.github.user_raw(&jo, None).await.unwrap();
    let found = found.fresh().unwrap();
    assert_eq!(found.id, id);
    assert!(found.text.starts_with('{') && found.text.contains("\"U_1000\""));
    let same = pair.github.user_raw(&jo, found.etag.as_ref()).await;
    assert_eq!(same.unwrap(), Response::NotModified);
    pair.host
        .behave("/users/jo", Behaviour::Instead("/users/al".into()));
    let error = pair.github.user_raw(&jo, None).await.unwrap_err();
    assert_matches!(error, GitHubError::Malformed { .. });
    let nobody = Login::parse("nobody").unwrap();
    let error = pair.github.user_raw(&nobody, None).await.unwrap_err();
    assert_matches!(error, GitHubError::NotFound { .. });
}

#[tokio::test]
async fn repositories_are_read_word_for_word_by_name_and_by_id() {
    let pair = pair().await;
    let id = pair.host.add("acme/two");
    pair.host.rename("acme/two", "acme/new");
    for key in [RepoKey::Name(repo("acme/two")), RepoKey::Id(id)] {
        let found = pair.github.repository_raw(&key, None).await.unwrap();
        let found = found.fresh().unwrap();
        assert_eq!(found.id, id);
        assert!(found.text.contains("\"acme/new\""), "{}", found.text);
    }
    for (key, path) in [
        (RepoKey::Name(repo("acme/new")), "/repos/acme/new"),
        (RepoKey::Id(id), "/repositories"),
    ] {
        pair.host
            .behave(path, Behaviour::Instead("/repos/acme/one".into()));
        let error = pair.github.repository_raw(&key, None).await.unwrap_err();
        assert_matches!(error, GitHubError::Malformed { .. }, "{key:?}");
    }
}
