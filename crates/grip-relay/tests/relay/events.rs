//! EVENT and its OK: relay.md §1, §2, §6.

use grip_store::EventView;
use serde_json::{Value, json};

use crate::support::*;

#[tokio::test]
async fn relay_9_1_an_accepted_event_is_stored_when_its_ok_comes() {
    let (node, mut client, author) = start();
    let event = author.note("hello");
    assert_eq!(client.publish(&event).await, (true, String::new()));
    assert!(node.store.read().unwrap().contains(&event.id).unwrap());
}

#[tokio::test]
async fn relay_2_every_event_of_a_burst_gets_its_ok() {
    let (node, mut client, author) = start();
    let events: Vec<_> = (0..300).map(|n| author.note(&n.to_string())).collect();
    for event in &events {
        client.event(event).await;
    }
    for event in &events {
        assert_eq!(client.ok(event).await, (true, String::new()));
    }
    assert_eq!(node.store.stats().unwrap().events, 300);
}

#[tokio::test]
async fn relay_2_an_event_sent_twice_is_a_duplicate_and_ok() {
    let (_node, mut client, author) = start();
    let event = author.note("hello");
    client.publish(&event).await;
    let (accepted, message) = client.publish(&event).await;
    assert!(accepted && message.starts_with("duplicate:"), "{message}");
}

/// G01-102: a request names up to 2,048 targets, whatever the bound of other kinds is.
#[tokio::test]
async fn g01_102_a_deletion_request_of_2048_targets_is_taken_and_a_larger_one_is_not() {
    let (node, mut client, author) = start();
    let ids: Vec<String> = (0..2_049).map(|n| format!("{n:064x}")).collect();
    let tags: Vec<[&str; 2]> = ids.iter().map(|id| ["e", id.as_str()]).collect();
    let mut tags: Vec<&[&str]> = tags.iter().map(|tag| tag.as_slice()).collect();
    let beyond = author.event(5, "", &tags, now());
    tags.pop();
    tags.push(&["k", "1"]);
    let most = author.event(5, "", &tags, now());
    assert_eq!(client.publish(&most).await, (true, String::new()));
    assert!(node.store.read().unwrap().contains(&most.id).unwrap());
    let (accepted, message) = client.publish(&beyond).await;
    let told = "invalid: too many deletion targets; 2048 at most";
    assert_eq!((accepted, message.as_str()), (false, told));
}

#[tokio::test]
async fn relay_1_an_older_version_is_refused_and_a_tie_says_to_sign_again() {
    let (_node, mut client, author) = start();
    let at = now() - 100;
    let newer = author.event(30_000, "newer", &[&["d", "x"]], at + 1);
    let older = author.event(30_000, "older", &[&["d", "x"]], at);
    client.publish(&newer).await;
    client.refused(&older, "invalid: a newer version").await;

    let one = author.event(30_000, "one", &[&["d", "tie"]], at);
    let other = author.event(30_000, "other", &[&["d", "tie"]], at);
    let (low, high) = if one.id < other.id {
        (one, other)
    } else {
        (other, one)
    };
    assert!(client.publish(&low).await.0);
    let message = client.refused(&high, "invalid:").await;
    assert!(message.contains("sign again with a later created_at"));
}

#[tokio::test]
async fn relay_5_a_deleted_event_is_blocked() {
    let (_node, mut client, author) = start();
    let event = author.note("regret");
    client.publish(&event).await;
    let deletion = author.event(5, "", &[&["e", &event.id.to_hex()]], now());
    assert!(client.publish(&deletion).await.0);
    let message = client.refused(&event, "blocked:").await;
    assert!(message.contains("deleted"), "{message}");
}

/// Sends `event` changed by `change` and returns the text of the refusal.
async fn refusal_of(change: impl FnOnce(&mut Value)) -> String {
    let node = Node::start();
    let mut client = node.connect();
    let mut event = json!(Author::new().note("hello"));
    let id = event["id"].clone();
    change(&mut event);
    client.send(json!(["EVENT", event])).await;
    let answer = client.next().await;
    assert_eq!(
        (&answer[0], &answer[1], &answer[2]),
        (&json!("OK"), &id, &json!(false))
    );
    assert_eq!(node.store.stats().unwrap().events, 0);
    answer[3].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn relay_1_forged_events_are_invalid() {
    let forged = refusal_of(|event| event["content"] = json!("changed")).await;
    assert_eq!(forged, "invalid: the id is not the hash of the event");
    let sig = json!(Author::new().note("other"))["sig"].clone();
    let unsigned = refusal_of(|event| event["sig"] = sig).await;
    assert_eq!(unsigned, "invalid: the signature does not fit the event");
}

#[tokio::test]
async fn relay_1_events_of_the_wrong_form_are_invalid_under_the_id_they_claim() {
    for change in [
        |event: &mut Value| event["created_at"] = json!(1.0),
        |event: &mut Value| event["created_at"] = json!(-1),
        |event: &mut Value| event["kind"] = json!(70_000),
        |event: &mut Value| event["tags"] = json!([[]]),
        |event: &mut Value| event["tags"] = json!([["t", null]]),
        |event: &mut Value| event["content"] = json!(null),
        |event: &mut Value| event["pubkey"] = json!("A".repeat(64)),
        |event: &mut Value| drop(event.as_object_mut().unwrap().remove("sig")),
    ] {
        let message = refusal_of(change).await;
        assert!(message.starts_with("invalid:"), "{message}");
    }
}

#[tokio::test]
async fn relay_1_duplicate_keys_and_lone_surrogates_are_invalid() {
    let (_node, mut client, author) = start();
    let event = author.note("hello");
    let text = json!(event).to_string();
    let twice = text.replacen('{', r#"{"content":"first","#, 1);
    let lone = text.replace("hello", r"\ud800");
    for bad in [twice, lone] {
        client.text(format!(r#"["EVENT",{bad}]"#)).await;
        let (accepted, message) = client.ok(&event).await;
        assert!(!accepted && message.starts_with("invalid:"), "{message}");
    }
}

#[tokio::test]
async fn relay_1_extra_keys_are_ignored_and_not_stored() {
    let (_node, mut client, author) = start();
    let event = author.note("hello");
    let mut extra = json!(event);
    extra["seen_on"] = json!(["wss://other.example"]);
    client.send(json!(["EVENT", extra])).await;
    assert!(client.ok(&event).await.0);
    client
        .send(json!(["REQ", "s", {"ids": [event.id.to_hex()]}]))
        .await;
    assert_eq!(client.next().await, json!(["EVENT", "s", event]));
}

#[tokio::test]
async fn relay_8_events_from_the_future_and_expired_ones_are_invalid() {
    let (_node, mut client, author) = start();
    let soon = author.event(1, "soon", &[], now() + 800);
    assert!(client.publish(&soon).await.0);
    let late = author.event(1, "late", &[], now() + 1_000);
    client.refused(&late, "invalid: created_at").await;
    let past = (now() - 10).to_string();
    let expired = author.event(1, "over", &[&["expiration", &past]], now() - 100);
    client.refused(&expired, "invalid:").await;
    let odd = author.event(1, "odd", &[&["expiration", "soon"]], now());
    assert!(
        client.publish(&odd).await.0,
        "an unreadable expiration is as good as none"
    );
}

#[tokio::test]
async fn relay_6_protected_events_reposts_of_them_and_auth_events_are_refused() {
    let (node, mut client, author) = start();
    let protected = author.event(1, "mine", &[&["-"]], now());
    client.refused(&protected, "blocked:").await;
    let repost = author.event(6, &json!(protected).to_string(), &[], now());
    client.refused(&repost, "blocked:").await;
    let auth = author.event(22_242, "", &[], now());
    client.refused(&auth, "invalid:").await;
    assert_eq!(node.store.stats().unwrap().events, 0);
}

#[tokio::test]
async fn relay_8_a_state_of_20000_refs_fits_and_other_kinds_have_tighter_bounds() {
    let (_node, mut client, author) = start();
    let names: Vec<String> = (0..20_000)
        .map(|n| format!("refs/heads/branch-{n:05}"))
        .collect();
    let oid = "a".repeat(40);
    let tags: Vec<[&str; 2]> = names
        .iter()
        .map(|name| [name.as_str(), oid.as_str()])
        .collect();
    let mut tags: Vec<&[&str]> = tags.iter().map(|tag| tag.as_slice()).collect();
    tags.push(&["d", "large"]);
    let state = author.event(30_618, "", &tags, now());
    assert!(json!(state).to_string().len() > 1_400_000);
    assert_eq!(client.publish(&state).await, (true, String::new()));

    let other = author.event(30_000, "", &tags, now());
    client
        .refused(&other, "invalid: an event of kind 30000")
        .await;
    let long = author.note(&"x".repeat(200 << 10));
    assert!(
        client
            .refused(&long, "invalid:")
            .await
            .contains("at most 196608 bytes")
    );
    let huge = author.note(&"x".repeat(3 << 20));
    assert!(
        client
            .refused(&huge, "invalid:")
            .await
            .contains("at most 2097152 bytes")
    );
    assert_eq!(
        client.request("s", json!({"kinds": [30618]})).await,
        [state.id.to_hex()]
    );
}

#[tokio::test]
async fn ephemeral_events_are_broadcast_and_not_stored() {
    let node = Node::start();
    let (mut publisher, mut listener) = (node.connect(), node.connect());
    listener.request("live", json!({"kinds": [20_001]})).await;
    let event = Author::new().event(20_001, "now", &[], now());
    assert!(publisher.publish(&event).await.0);
    assert_eq!(listener.next().await, json!(["EVENT", "live", event]));
    assert_eq!(node.store.stats().unwrap().events, 0);
}

#[tokio::test]
async fn deferred_events_are_settled_by_the_policy_in_arrival_order() {
    let (node, mut client, author) = start();
    let events: Vec<_> = (0..4)
        .map(|n| author.event([1, 1617][n % 2], &n.to_string(), &[], now()))
        .collect();
    for event in &events {
        client.event(event).await;
    }
    for (n, event) in events.iter().enumerate() {
        let expected = ["", "purgatory: settled"][n % 2];
        assert_eq!(client.ok(event).await, (true, expected.to_owned()));
    }
    assert_eq!(
        *node.policy.settled.lock(),
        [events[1].clone(), events[3].clone()]
    );
}

#[tokio::test]
async fn a_client_that_leaves_does_not_stop_what_it_sent() {
    let node = Node::start();
    node.policy.gate.send_replace(false);
    let mut client = node.connect();
    let author = Author::new();
    let (plain, deferred) = (author.note("plain"), author.event(1617, "", &[], now()));
    client.event(&plain).await;
    client.event(&deferred).await;
    assert!(client.ok(&plain).await.0);
    client.hang_up();
    node.policy.gate.send_replace(true);
    client.ended().await;
    assert_eq!(*node.policy.settled.lock(), [deferred]);
}

#[tokio::test]
async fn other_messages_are_answered_while_an_event_is_being_settled() {
    let node = Node::start();
    node.policy.gate.send_replace(false);
    let mut client = node.connect();
    let deferred = Author::new().event(1617, "", &[], now());
    client.event(&deferred).await;
    client.expect_silence().await;
    node.policy.gate.send_replace(true);
    assert!(client.ok(&deferred).await.0);
}

#[tokio::test]
async fn the_policy_hears_of_refusals() {
    let (node, mut client, author) = start();
    let refused = author.note(REFUSED);
    assert_eq!(
        client.publish(&refused).await,
        (false, "blocked: you asked for it".into())
    );
    let protected = author.event(1, "", &[&["-"]], now());
    client.publish(&protected).await;
    let noted: Vec<_> = node
        .policy
        .noted
        .lock()
        .iter()
        .map(|(event, _)| event.id)
        .collect();
    assert_eq!(noted, [refused.id, protected.id]);
    let counted: Vec<_> = node
        .relay
        .stats()
        .refused()
        .filter(|(_, n)| *n > 0)
        .collect();
    assert_eq!(counted, [("blocked", 2)]);
}
