//! Token buckets: relay.md §8.

use grip_relay::{Limits, Rate, Rates};
use serde_json::json;

use crate::support::*;

fn bounded(rates: Rates) -> Limits {
    Limits {
        connection_rates: rates,
        address_rates: Rates::OFF,
        ..Limits::default()
    }
}

#[tokio::test]
async fn relay_8_events_beyond_the_rate_are_rate_limited_under_their_id() {
    let node = Node::with(bounded(Rates {
        events: Rate::new(1, 2),
        ..Rates::OFF
    }));
    let mut client = node.connect();
    let author = Author::new();
    let mut refused = 0;
    for n in 0..6 {
        let (accepted, message) = client.publish(&author.note(&n.to_string())).await;
        if !accepted {
            assert!(message.starts_with("rate-limited:"), "{message}");
            refused += 1;
        }
    }
    assert!(refused >= 2, "{refused}");
}

#[tokio::test]
async fn relay_8_requests_beyond_the_rate_are_closed_and_closing_stays_possible() {
    let node = Node::with(bounded(Rates {
        requests: Rate::new(1, 1),
        ..Rates::OFF
    }));
    let mut client = node.connect();
    client.request("a", json!({})).await;
    for message in [json!(["REQ", "b", {}]), json!(["COUNT", "b", {}])] {
        client.send(message).await;
        let answer = client.next().await;
        assert_eq!((&answer[0], &answer[1]), (&json!("CLOSED"), &json!("b")));
        assert!(answer[2].as_str().unwrap().starts_with("rate-limited:"));
    }
    client.send(json!(["NEG-OPEN", "n", {}, "61"])).await;
    let answer = client.next().await;
    assert_eq!((&answer[0], &answer[1]), (&json!("NEG-ERR"), &json!("n")));
    client.send(json!(["CLOSE", "a"])).await;
    eventually("it is closed", || {
        node.relay.stats().subscriptions.get() == 0
    })
    .await;
}

#[tokio::test]
async fn relay_8_connections_of_one_address_share_its_rate() {
    let node = Node::with(Limits {
        connection_rates: Rates::OFF,
        address_rates: Rates {
            messages: Rate::new(1, 2),
            ..Rates::OFF
        },
        ..Limits::default()
    });
    let (mut one, mut other) = (node.connect(), node.connect());
    one.request("a", json!({})).await;
    other.request("a", json!({})).await;
    one.send(json!(["REQ", "b", {}])).await;
    assert!(
        one.next().await[2]
            .as_str()
            .unwrap()
            .starts_with("rate-limited:")
    );
    let event = Author::new().note("x");
    let (accepted, message) = other.publish(&event).await;
    assert!(
        !accepted && message.starts_with("rate-limited:"),
        "{message}"
    );
}
