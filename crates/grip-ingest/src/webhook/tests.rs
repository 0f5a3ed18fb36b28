use grip_db::{TestDatabase, on_both_engines, prepare_all};
use hmac::{Hmac, KeyInit as _, Mac as _};
use serde_json::{Value, json};
use sha2::Sha256;

use super::*;
use crate::store::{EventQuery, Store};

const SECRET: &str = "s3cret";
const DAY: Duration = Duration::from_secs(86_400);

/// Everything that a test needs around a webhook.
struct Node {
    webhook: Webhook,
    store: Store,
    queue: Queue,
}

fn node(db: &Db) -> Node {
    let secrets = Secrets::new(["old", SECRET]).unwrap();
    let queue = Queue::new(db.clone());
    let group = TaskGroup::new("webhooks");
    // Pushes of any age are of today.
    let live_for = DAY * 100_000;
    Node {
        webhook: Webhook::new(secrets, db.clone(), queue.clone(), live_for, group),
        store: Store::new(db.clone()),
        queue,
    }
}

fn signed(secret: &str, body: &[u8]) -> Option<Vec<u8>> {
    let key = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).unwrap();
    let digest = key.chain_update(body).finalize().into_bytes();
    Some(format!("sha256={}", faster_hex::hex_string(&digest)).into_bytes())
}

fn delivery(event: &str, id: &str, body: &Value) -> Delivery {
    let body = body.to_string();
    Delivery {
        event: Some(event.to_owned()),
        id: Some(id.to_owned()),
        signature: signed(SECRET, body.as_bytes()),
        content_type: Some("application/json".to_owned()),
        body: body.into(),
    }
}

fn push() -> Value {
    json!({
        "ref": "refs/heads/main",
        "before": "0".repeat(40),
        "after": "ab".repeat(20),
        "created": true, "deleted": false, "forced": false,
        "repository": {"id": 5, "full_name": "acme/one", "pushed_at": 1_557_933_657},
        "sender": {"id": 7, "login": "mona", "url": "https://api.github.com/users/mona"},
    })
}

impl Node {
    async fn receive(&self, delivery: Delivery) -> Result<Received, WebhookError> {
        self.webhook.receive(delivery).await
    }

    async fn ids(&self) -> Vec<String> {
        let query = EventQuery {
            limit: 100,
            ..EventQuery::default()
        };
        let events = self.store.events(&query).await.unwrap();
        events.into_iter().map(|event| event.id).collect()
    }

    async fn counts(&self) -> Vec<(String, String, i64)> {
        self.store.counts().await.unwrap()
    }
}

grip_db::statements! {
    mod age {
        DELIVERIES = "UPDATE ingest_deliveries SET at = 0";
    }
}

on_both_engines! {
    async fn every_statement_is_understood(test: TestDatabase) {
        prepare_all(test.db(), sql::ALL).await.unwrap();
    }

    async fn a_signed_push_is_kept_and_its_work_asked_for(test: TestDatabase) {
        let node = node(test.db());
        let received = node.receive(delivery("push", "d-1", &push())).await.unwrap();
        assert_eq!(received, Received::Push);
        let query = EventQuery { limit: 9, ..EventQuery::default() };
        let events = node.store.events(&query).await.unwrap();
        let event = &events[0];
        assert_eq!((event.id.as_str(), event.source.as_str()), ("delivery d-1", "webhook"));
        assert_eq!((event.repository_id, event.actor_id), (5, Some(7)));
        assert_eq!(event.github_created_at, Some(1_557_933_657_000));
        assert_eq!(event.head, "ab".repeat(20));
        assert_eq!(serde_json::from_str::<Value>(&event.raw).unwrap(), push());
        let job = node.queue.find("push-event", "delivery d-1").await.unwrap();
        assert!(job.is_some());
    }

    async fn the_same_delivery_changes_nothing_also_after_a_restart(test: TestDatabase) {
        let first = node(test.db());
        first.receive(delivery("push", "d-1", &push())).await.unwrap();
        first.receive(delivery("issues", "d-2", &json!({}))).await.unwrap();
        let counts = first.counts().await;
        let lease = first.queue.claim("push-event", 9, DAY / 24).await.unwrap();
        first.queue.finish(&lease[0]).await.unwrap();
        drop(first);

        let test = test.reopen().await;
        let node = node(test.db());
        for _ in 0..3 {
            for (event, id) in [("push", "d-1"), ("issues", "d-2")] {
                let body = if event == "push" { push() } else { json!({}) };
                let received = node.receive(delivery(event, id, &body)).await.unwrap();
                assert_eq!(received, Received::Known);
            }
        }
        // Another body under the same id is no other delivery either.
        let mut other = push();
        other["ref"] = "refs/heads/evil".into();
        let received = node.receive(delivery("push", "d-1", &other)).await.unwrap();
        assert_eq!(received, Received::Known);
        assert_eq!(node.ids().await, ["delivery d-1"]);
        assert_eq!(node.counts().await, counts);
        assert!(node.queue.find("push-event", "delivery d-1").await.unwrap().is_none());
    }

    async fn deliveries_made_at_once_are_taken_in_once(test: TestDatabase) {
        let node = node(test.db());
        let body = push();
        let ten = (0..10).map(|_| node.receive(delivery("push", "d-1", &body)));
        let received = futures_util::future::join_all(ten).await;
        let new = received.iter().filter(|r| matches!(r, Ok(Received::Push))).count();
        let known = received.iter().filter(|r| matches!(r, Ok(Received::Known))).count();
        assert_eq!((new, known), (1, 9), "{received:?}");
        assert_eq!(node.ids().await.len(), 1);
    }

    async fn what_is_not_signed_leaves_no_trace(test: TestDatabase) {
        let node = node(test.db());
        let good = delivery("push", "d-1", &push());
        let unsigned = Delivery { signature: None, ..good.clone() };
        let wrong = Delivery { signature: signed("other", &good.body), ..good.clone() };
        let mut changed = good.clone();
        changed.body = [&good.body[..], b" "].concat().into();
        let malformed = Delivery { signature: Some(b"sha1=00".to_vec()), ..good.clone() };
        for (delivery, refused) in [
            (unsigned, Refused::Missing),
            (wrong, Refused::Wrong),
            (changed, Refused::Wrong),
            (malformed, Refused::Malformed),
        ] {
            let error = node.receive(delivery).await.unwrap_err();
            assert!(matches!(error, WebhookError::Refused(found) if found == refused), "{error:?}");
        }
        assert!(node.ids().await.is_empty());
        // The id is not used up: the real one is still taken in.
        assert_eq!(node.receive(good).await.unwrap(), Received::Push);
    }

    async fn a_push_that_cannot_be_read_is_kept_aside_with_its_reason(test: TestDatabase) {
        let node = node(test.db());
        let mut bad = push();
        bad["after"] = "not a commit".into();
        let received = node.receive(delivery("push", "d-1", &bad)).await.unwrap();
        let Received::KeptAside { reason } = received else {
            panic!("{received:?}");
        };
        assert!(reason.contains("head"), "{reason}");
        let rejected = node.store.recent_rejections(9).await.unwrap();
        assert_eq!(rejected.len(), 1);
        assert_eq!(rejected[0].reason, reason);
        assert!(node.ids().await.is_empty());
    }

    async fn a_delivery_that_cannot_be_read_is_read_when_it_is_delivered_again(test: TestDatabase) {
        let node = node(test.db());
        let mut bad = push();
        bad["after"] = "not a commit".into();
        for _ in 0..3 {
            // Never "it came before": nothing of it was taken in.
            let received = node.receive(delivery("push", "d-1", &bad)).await.unwrap();
            assert!(matches!(received, Received::KeptAside { .. }), "{received:?}");
        }
        let rejected = node.store.recent_rejections(9).await.unwrap();
        assert_eq!((rejected.len(), rejected[0].times), (1, 3));
        let received = node.receive(delivery("push", "d-1", &push())).await.unwrap();
        assert_eq!(received, Received::Push);
        assert_eq!(node.ids().await, ["delivery d-1"]);
        let received = node.receive(delivery("push", "d-1", &push())).await.unwrap();
        assert_eq!(received, Received::Known);
    }

    async fn a_ping_is_answered_and_others_are_counted(test: TestDatabase) {
        let node = node(test.db());
        let ping = json!({"zen": "Keep it logically awesome.\n", "hook_id": 1});
        let zen = "Keep it logically awesome.".to_owned();
        let received = node.receive(delivery("ping", "p-1", &ping)).await.unwrap();
        assert_eq!(received, Received::Pong { zen });
        for (event, id) in [("issues", "i-1"), ("issues", "i-2"), ("brand_new", "b-1")] {
            let received = node.receive(delivery(event, id, &json!({}))).await.unwrap();
            assert_eq!(received, Received::Counted);
        }
        let count = |kind: &str, n| ("webhook".to_owned(), kind.to_owned(), n);
        assert_eq!(node.counts().await, [count("issues", 2), count("unknown", 1)]);
    }

    async fn ids_are_forgotten_after_a_month_and_the_push_stays_known(test: TestDatabase) {
        let node = node(test.db());
        node.receive(delivery("push", "d-1", &push())).await.unwrap();
        test.db().execute(&age::DELIVERIES, &[]).await.unwrap();
        node.receive(delivery("issues", "i-1", &json!({}))).await.unwrap();
        let received = node.receive(delivery("push", "d-1", &push())).await.unwrap();
        assert_eq!(received, Received::Push, "the id alone is forgotten");
        assert_eq!(node.ids().await, ["delivery d-1"]);
        let pushes = node.counts().await.into_iter().find(|count| count.1 == "PushEvent");
        assert_eq!(pushes.unwrap().2, 1);
    }
}

#[tokio::test]
async fn a_long_body_is_read_whole_and_one_that_is_too_long_not_at_all() {
    let test = TestDatabase::sqlite().await;
    let node = node(test.db());
    let mut long = push();
    long["commits"] = vec!["x".repeat(1_000); 3_000].into();
    let received = node.receive(delivery("push", "d-1", &long)).await.unwrap();
    assert_eq!(received, Received::Push);
    let mut too_long = delivery("push", "d-2", &push());
    too_long.body = vec![b' '; MAX_BODY + 1].into();
    let error = node.receive(too_long).await.unwrap_err();
    assert!(matches!(error, WebhookError::Bad(BadDelivery::TooBig)));
}

#[test]
fn a_form_holds_the_same_as_json() {
    let json = push().to_string();
    let body = url::form_urlencoded::Serializer::new(String::new())
        .append_pair("payload", &json)
        .finish();
    let form = Delivery {
        content_type: Some("application/x-www-form-urlencoded; charset=utf-8".to_owned()),
        body: body.into(),
        ..delivery("push", "d-1", &push())
    };
    assert_eq!(parse(&form), parse(&delivery("push", "d-1", &push())));
    for body in ["", "other=1", "payload=1&payload=2", "payload=1&x=2"] {
        let form = Delivery {
            body: body.into(),
            ..form.clone()
        };
        assert_eq!(parse(&form), Err(BadDelivery::Form), "{body}");
    }
}

#[test]
fn names_of_events_and_deliveries_are_plain_words() {
    for bad in [
        None,
        Some(""),
        Some("a b"),
        Some("ü"),
        Some("a\n"),
        Some(&*"x".repeat(65)),
    ] {
        let bad = bad.map(str::to_owned);
        let good = delivery("push", "d-1", &push());
        let event = Delivery {
            event: bad.clone(),
            ..good.clone()
        };
        assert_eq!(parse(&event), Err(BadDelivery::Header("X-GitHub-Event")));
        let id = Delivery { id: bad, ..good };
        assert_eq!(parse(&id), Err(BadDelivery::Header("X-GitHub-Delivery")));
    }
}
