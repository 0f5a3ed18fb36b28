//! A private relay: who is let in, and what is told before (GRASP-08).

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use grip_nostr::{Event, PublicKey};
use grip_relay::{Access, Frame, Limits, Members};
use grip_types::Service;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::support::*;

struct Private {
    node: Node,
    members: watch::Sender<Arc<BTreeSet<PublicKey>>>,
    member: Author,
}

const URL: &str = "wss://git.example";

impl Private {
    /// A private relay with one member and one event.
    async fn start() -> Self {
        let limits = Limits {
            // Something comes before a client of these tests gives up.
            ping_every: Duration::from_secs(10),
            ..unlimited()
        };
        let (node, member) = (Node::with(limits), Author::new());
        let mut open = node.connect();
        assert!(open.publish(&member.note("secret")).await.0);
        let keys = BTreeSet::from([member.0.public_key()]);
        Self {
            node,
            members: watch::Sender::new(Arc::new(keys)),
            member,
        }
    }

    /// A client with the challenge that it was sent.
    async fn connect(&self) -> (Client, String) {
        let access = Access {
            service: Service::parse("git.example").unwrap(),
            members: Members::new(&self.members),
        };
        let mut client = self.node.connect_private(access);
        let message = client.next().await;
        assert_eq!(message[0], "AUTH");
        (client, message[1].as_str().unwrap().to_owned())
    }

    async fn log_in(&self) -> Client {
        let (mut client, challenge) = self.connect().await;
        let proof = proof(&self.member, &challenge, URL, now());
        assert_eq!(prove(&mut client, &proof).await, (true, String::new()));
        client
    }
}

fn proof(author: &Author, challenge: &str, relay: &str, at: u64) -> Event {
    let tags: [&[&str]; 2] = [&["relay", relay], &["challenge", challenge]];
    author.event(22_242, "", &tags, at)
}

async fn prove(client: &mut Client, proof: &Event) -> (bool, String) {
    client.send(json!(["AUTH", proof])).await;
    client.ok(proof).await
}

/// Waits for the end, and returns the code of the closing frame.
async fn closed(client: &mut Client) -> u16 {
    loop {
        match client.next_frame().await {
            Some(Frame::Close(code, _)) => return code,
            Some(_) => {}
            None => panic!("it ended without a reason"),
        }
    }
}

/// G08-4
#[tokio::test]
async fn before_a_proof_nothing_is_taken_told_or_counted() {
    let private = Private::start().await;
    let (mut client, _) = private.connect().await;
    let event = private.member.note("mine");
    let (accepted, text) = client.publish(&event).await;
    assert!(!accepted && text == "auth-required: authenticate before publishing");
    let mut answer = async |message: Value| {
        client.send(message).await;
        client.next().await
    };
    for (message, kind) in [
        (json!(["REQ", "s", {}]), "CLOSED"),
        (json!(["COUNT", "s", {}]), "CLOSED"),
        (json!(["NEG-OPEN", "s", {}, "6100"]), "NEG-ERR"),
        (json!(["NEG-MSG", "s", "6100"]), "NEG-ERR"),
    ] {
        let said = answer(message).await;
        assert_eq!((&said[0], &said[1]), (&json!(kind), &json!("s")));
        assert!(said[2].as_str().unwrap().starts_with("auth-required:"));
    }
    assert_eq!(answer(json!(["EVENT", {}])).await[0], "NOTICE");
    assert_eq!(answer(json!(["SING"])).await[0], "NOTICE");
    // What others publish is not passed on either.
    assert!(private.node.connect().publish(&event).await.0);
    assert_eq!(answer(json!(["SING"])).await[0], "NOTICE");
}

/// G08-5
#[tokio::test]
async fn a_member_is_let_in_and_its_proof_is_not_stored() {
    let private = Private::start().await;
    let mut client = private.log_in().await;
    assert!(client.publish(&private.member.note("more")).await.0);
    assert_eq!(client.request("s", json!({})).await.len(), 2);
    client.send(json!(["COUNT", "c", {"kinds": [22242]}])).await;
    assert_eq!(client.next().await, json!(["COUNT", "c", {"count": 0}]));
}

/// G08-5
#[tokio::test]
async fn a_valid_proof_of_a_stranger_ends_the_connection() {
    let private = Private::start().await;
    let (mut client, challenge) = private.connect().await;
    let proof = proof(&Author::new(), &challenge, URL, now());
    let (accepted, text) = prove(&mut client, &proof).await;
    assert!(!accepted);
    assert_eq!(text, "restricted: authenticated pubkey is not whitelisted");
    assert_eq!(closed(&mut client).await, 1008);
}

/// G08-5
#[tokio::test]
async fn a_proof_for_another_relay_challenge_time_or_kind_does_not_count() {
    let private = Private::start().await;
    let (_, of_another) = private.connect().await;
    for case in 0..7 {
        let (mut client, challenge) = private.connect().await;
        let author = &private.member;
        let wrong = match case {
            0 => proof(author, &challenge, "wss://other.example", now()),
            1 => proof(author, &challenge, "wss://git.example/x", now()),
            2 => proof(author, &of_another, URL, now()),
            3 => proof(author, &challenge, URL, now() - 200),
            4 => proof(author, &challenge, URL, now() + 200),
            5 => author.event(
                27_235,
                "",
                &[&["relay", URL], &["challenge", &challenge]],
                now(),
            ),
            _ => {
                let mut forged = proof(&Author::new(), &challenge, URL, now());
                forged.pubkey = author.0.public_key();
                forged
            }
        };
        let (accepted, text) = prove(&mut client, &wrong).await;
        assert!(!accepted && text.starts_with("invalid:"), "{case}: {text}");
        client.send(json!(["REQ", "s", {}])).await;
        assert_eq!(client.next().await[0], "CLOSED", "{case}");
        // The address may be written in any of its spellings.
        let right = proof(author, &challenge, "ws://GIT.example:80//", now());
        assert!(prove(&mut client, &right).await.0, "{case}");
    }
}

/// G08-5
#[tokio::test]
async fn the_third_invalid_proof_ends_the_connection() {
    let private = Private::start().await;
    let (mut client, _) = private.connect().await;
    for _ in 0..3 {
        let wrong = proof(&private.member, "guess", URL, now());
        assert!(!prove(&mut client, &wrong).await.0);
    }
    assert_eq!(closed(&mut client).await, 1008);
}

/// G08-5
#[tokio::test]
async fn who_proves_nothing_within_thirty_seconds_is_cut_off() {
    let private = Private::start().await;
    // From here on no other thread is waited for.
    tokio::time::pause();
    let (mut client, _) = private.connect().await;
    let began = tokio::time::Instant::now();
    assert_eq!(closed(&mut client).await, 1008);
    assert!((30..32).contains(&began.elapsed().as_secs()));
}

/// G08-6
#[tokio::test]
async fn a_key_that_is_struck_off_loses_its_connections_at_once() {
    let private = Private::start().await;
    let (mut client, mut other) = (private.log_in().await, private.log_in().await);
    client.send(json!(["REQ", "s", {"kinds": [7]}])).await;
    assert_eq!(client.next().await[0], "EOSE");
    private.members.send_replace(Arc::default());
    assert_eq!(closed(&mut client).await, 1008);
    assert_eq!(closed(&mut other).await, 1008);
    let (mut client, challenge) = private.connect().await;
    let proof = proof(&private.member, &challenge, URL, now());
    assert!(!prove(&mut client, &proof).await.0);
}

/// E-9, NIP-70: a protected event comes from its author, who has shown the key.
#[tokio::test]
async fn a_protected_event_is_taken_from_its_authenticated_author_alone() {
    let private = Private::start().await;
    let mut client = private.log_in().await;
    let own = private.member.event(1, "mine", &[&["-"]], now());
    assert_eq!(client.publish(&own).await, (true, String::new()));
    let others = Author::new().event(1, "theirs", &[&["-"]], now());
    client.refused(&others, "blocked: a protected event").await;
    let text = serde_json::to_string(&own).unwrap();
    for (kind, is_taken) in [(6, false), (16, false), (1, true)] {
        let repost = private.member.event(kind, &text, &[], now());
        assert_eq!(client.publish(&repost).await.0, is_taken, "{kind}");
    }
    // Nobody can show a key to a public relay.
    let (_node, mut client, author) = start();
    let own = author.event(1, "mine", &[&["-"]], now());
    client.refused(&own, "blocked: a protected event").await;
    let open = author.event(1, "for all", &[&["t", "-"]], now());
    assert!(client.publish(&open).await.0);
}
