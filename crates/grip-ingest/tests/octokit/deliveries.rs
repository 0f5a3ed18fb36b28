//! Every example of a webhook.

use std::collections::BTreeMap;

use grip_ingest::{
    Actor,
    extract::{self, Event},
    webhook::{About, Delivery, parse},
};
use serde_json::{Value, json};

use super::examples;

fn delivery(event: &str, body: &Value) -> Delivery {
    Delivery {
        event: Some(event.to_owned()),
        id: Some("72d3162e-cc78-11e3-81ab-4c9367dc0958".to_owned()),
        signature: None,
        content_type: Some("application/json".to_owned()),
        body: body.to_string().into(),
    }
}

#[test]
fn every_push_is_accepted_and_all_others_are_counted() {
    let (mut pushes, mut pings) = (0, 0);
    let mut others = BTreeMap::<&str, usize>::new();
    for (event, body) in examples() {
        let parsed = parse(&delivery(&event, &body)).unwrap();
        match parsed.about {
            About::Push(arrival) => {
                assert_eq!(event, "push");
                pushes += 1;
                let grip_ingest::Arrival::Delivery { id, body } = arrival else {
                    panic!("{arrival:?}");
                };
                extract::delivery(&id, &body).unwrap_or_else(|why| panic!("{why}: {body:?}"));
            }
            About::Ping { zen } => {
                assert_eq!(event, "ping");
                assert!(!zen.is_empty());
                pings += 1;
            }
            About::Other(kind) => {
                assert_eq!(kind, event, "an event without a name of its own");
                *others.entry(kind).or_default() += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    println!("{pushes} pushes, {pings} pings, {others:?}");
    assert!(pushes >= 14 && pings >= 10, "{pushes} {pings}");
    assert!(others.len() >= 50, "{others:?}");
}

#[test]
fn every_column_of_a_push_is_found_in_the_words_of_a_webhook() {
    let (mut branches, mut removed) = (0, 0);
    for (_, body) in examples().iter().filter(|(event, _)| event == "push") {
        let push = extract::delivery("d-1", body.to_string().as_bytes()).unwrap();
        assert_eq!(push.id, "delivery d-1");
        assert_eq!(Value::from(push.head.clone()), body["after"]);
        assert_eq!(
            push.before.clone().map(Value::from).as_ref(),
            body.get("before")
        );
        assert_eq!(Value::from(push.git_ref.clone()), body["ref"]);
        assert_eq!(Value::from(push.repository_id), body["repository"]["id"]);
        let name = &body["repository"]["full_name"];
        assert_eq!(push.repository_name.map(Value::from).as_ref(), Some(name));
        assert_eq!(
            push.actor_id.map(Value::from).as_ref(),
            body.pointer("/sender/id")
        );
        assert_eq!(
            push.actor_login.map(Value::from).as_ref(),
            body.pointer("/sender/login")
        );
        assert!(
            matches!(push.actor, Actor::User { .. } | Actor::Bot),
            "{:?}",
            push.actor
        );
        assert!(
            push.at_ms.is_some_and(|at| at > 1_400_000_000_000),
            "{:?}",
            push.at_ms
        );
        assert_eq!(serde_json::from_str::<Value>(&push.raw).unwrap(), *body);
        branches += usize::from(push.git_ref.starts_with("refs/heads/"));
        removed += usize::from(push.head.bytes().all(|byte| byte == b'0'));
    }
    assert!(branches > 0 && removed > 0, "{branches} {removed}");
}

/// The lists of events have other words for the same: the parts of a webhook put into them.
#[test]
fn a_push_in_the_words_of_a_list_is_the_same_push() {
    for (_, body) in examples().iter().filter(|(event, _)| event == "push") {
        let by_hook = extract::delivery("d-1", body.to_string().as_bytes()).unwrap();
        let event = json!({
            "id": "22249084964",
            "type": "PushEvent",
            "actor": body["sender"],
            "repo": {"id": body["repository"]["id"], "name": body["repository"]["full_name"]},
            "payload": {
                "push_id": 10_115_855_396_i64,
                "ref": body["ref"], "head": body["after"], "before": body["before"],
            },
            "public": true,
            "created_at": "2022-06-09T12:47:28Z",
        });
        let Ok(Event::Push(by_list)) = extract::event(event.to_string().as_bytes()) else {
            panic!("{event}");
        };
        assert_eq!(by_list.actor, by_hook.actor);
        assert_eq!(by_list.actor_id, by_hook.actor_id);
        assert_eq!(by_list.repository_name, by_hook.repository_name);
        assert_eq!(
            (by_list.head, by_list.before),
            (by_hook.head, by_hook.before)
        );
    }
}

/// Whatever is taken for something else: columns or a reason, and never a push by mistake. Only a
/// replica that reports what it has copied does so in the words of a push; the header tells them
/// apart.
#[test]
fn no_example_is_taken_for_an_event_of_a_list() {
    for (event, body) in examples() {
        let found = extract::event(body.to_string().as_bytes());
        assert!(found.is_err(), "{event}");
        let found = extract::delivery("d-1", body.to_string().as_bytes());
        let is_push = matches!(event.as_str(), "push" | "cache_sync");
        assert_eq!(found.is_ok(), is_push, "{event}: {found:?}");
    }
}
