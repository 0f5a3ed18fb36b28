use std::time::Duration;

use grip_db::{Db, on_both_engines, prepare_all};
use grip_queue::Queue;
use serde_json::{Value, json};

use super::sql;
use crate::{
    accept::{Arrival, Batch},
    store::{EventQuery, Store, StoredEvent},
};

const A: char = 'a';
const B: char = 'b';
const LIVE: Duration = Duration::from_secs(u32::MAX as u64);
/// The moment that tests count from, in seconds.
const START: i64 = 1_760_000_000;

fn commit(letter: char) -> String {
    letter.to_string().repeat(40)
}

/// An event of a list: a push from one commit to another, so many seconds after the start.
fn event(id: u64, from: char, to: char, at: i64) -> Arrival {
    let at = jiff::Timestamp::from_second(START + at).unwrap();
    let words = json!({
        "id": id.to_string(), "type": "PushEvent",
        "actor": {"id": 7, "login": "jo", "url": "https://api.github.com/users/jo"},
        "repo": {"id": 9, "name": "acme/one"},
        "payload": {
            "push_id": id, "ref": "refs/heads/main", "head": commit(to), "before": commit(from),
        },
        "created_at": at.to_string(),
    });
    Arrival::Event(words.to_string().into())
}

/// The same in the words of a webhook.
fn delivery(id: &str, from: char, to: char, at: i64) -> Arrival {
    of_repository(9, id, from, to, at)
}

fn of_repository(repository: i64, id: &str, from: char, to: char, at: i64) -> Arrival {
    let words: Value = json!({
        "ref": "refs/heads/main", "before": commit(from), "after": commit(to),
        "repository": {"id": repository, "full_name": "acme/one", "pushed_at": START + at},
        "sender": {"id": 7, "login": "jo", "url": "https://api.github.com/users/jo"},
    });
    Arrival::Delivery {
        id: id.to_owned(),
        body: words.to_string().into(),
    }
}

struct Kept(Store, Queue);

fn kept(db: &Db) -> Kept {
    Kept(Store::new(db.clone()), Queue::new(db.clone()))
}

impl Kept {
    /// Takes them in together; says how many were new.
    async fn accept(&self, arrivals: &[Arrival]) -> u64 {
        let Self(store, queue) = self;
        let accepting = store.accept(queue, "test", Batch::read(arrivals), LIVE);
        let accepted = accepting.await.unwrap();
        assert_eq!(accepted.new + accepted.known, arrivals.len() as u64);
        accepted.new
    }

    /// Id, event and delivery of each row.
    async fn rows(&self) -> Vec<(String, Option<String>, Option<String>)> {
        let query = EventQuery {
            limit: 1_000,
            ..EventQuery::default()
        };
        let events = self.0.events(&query).await.unwrap().into_iter();
        let names = |row: StoredEvent| (row.id, row.event_id, row.delivery_id);
        let mut rows: Vec<_> = events.map(names).collect();
        rows.sort_unstable();
        rows
    }

    async fn jobs(&self) -> i64 {
        let stats = self.1.stats().await.unwrap();
        stats.iter().map(|kind| kind.due).sum()
    }
}

fn row(
    id: &str,
    event: Option<&str>,
    delivery: Option<&str>,
) -> (String, Option<String>, Option<String>) {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    (id.to_owned(), owned(event), owned(delivery))
}

on_both_engines! {
    async fn every_statement_is_understood(test: TestDatabase) {
        prepare_all(test.db(), sql::ALL).await.unwrap();
    }

    async fn a_push_that_a_webhook_tells_first_is_one_row_with_the_events_name(test: TestDatabase) {
        let kept = kept(test.db());
        assert_eq!(kept.accept(&[delivery("d1", A, B, 0)]).await, 1);
        assert_eq!(kept.rows().await, [row("delivery d1", None, Some("d1"))]);
        for _ in 0..3 {
            assert_eq!(kept.accept(&[event(1, A, B, 3)]).await, 0);
        }
        assert_eq!(kept.rows().await, [row("delivery d1", Some("1"), Some("d1"))]);
        assert_eq!(kept.jobs().await, 1);
        assert_eq!(kept.0.counts().await.unwrap(), [("test".to_owned(), "PushEvent".to_owned(), 1)]);
    }

    async fn a_push_that_a_list_tells_first_is_one_row_with_the_deliverys_name(test: TestDatabase) {
        let kept = kept(test.db());
        assert_eq!(kept.accept(&[event(1, A, B, 3)]).await, 1);
        for _ in 0..3 {
            assert_eq!(kept.accept(&[delivery("d1", A, B, 0)]).await, 0);
        }
        assert_eq!(kept.accept(&[event(1, A, B, 3)]).await, 0);
        assert_eq!(kept.rows().await, [row("1", Some("1"), Some("d1"))]);
        assert_eq!(kept.jobs().await, 1);
    }

    async fn there_and_back_and_there_again_is_three_pushes_whoever_tells_first(test: TestDatabase) {
        let events = [event(1, A, B, 1), event(2, B, A, 31), event(3, A, B, 61)];
        let deliveries = [delivery("d1", A, B, 0), delivery("d2", B, A, 30), delivery("d3", A, B, 60)];
        let pairs = |a: &str, b: &str, c: &str| {
            let ids = [a, b, c].into_iter().zip(1..);
            ids.map(|(id, n)| row(id, Some(&n.to_string()), Some(&format!("d{n}")))).collect::<Vec<_>>()
        };
        // Each way first, at once and one by one; and both in turn, the latest of the others first.
        let one = kept(test.db());
        assert_eq!(one.accept(&deliveries).await, 3);
        assert_eq!(one.accept(&events).await, 0);
        assert_eq!(one.rows().await, pairs("delivery d1", "delivery d2", "delivery d3"));
        let elsewhere = |arrivals: &[Arrival], id: &str| -> Vec<Arrival> {
            let other = |arrival: &Arrival| {
                let body = String::from_utf8(arrival.body().to_vec()).unwrap();
                let body = body.replace("\"id\":9", &format!("\"id\":{id}"));
                match arrival {
                    Arrival::Event(_) => Arrival::Event(body.replace("\"id\":\"", &format!("\"id\":\"{id}")).into()),
                    Arrival::Delivery { id: name, .. } => Arrival::Delivery { id: format!("{name}-{id}"), body: body.into() },
                }
            };
            arrivals.iter().map(other).collect()
        };
        let (events_10, deliveries_10) = (elsewhere(&events, "10"), elsewhere(&deliveries, "10"));
        for event in &events_10 {
            assert_eq!(one.accept(std::slice::from_ref(event)).await, 1);
        }
        for delivery in deliveries_10.iter().rev() {
            assert_eq!(one.accept(std::slice::from_ref(delivery)).await, 0);
        }
        let (events_11, deliveries_11) = (elsewhere(&events, "11"), elsewhere(&deliveries, "11"));
        for (event, delivery) in events_11.iter().zip(&deliveries_11) {
            assert_eq!(one.accept(&[event.clone(), delivery.clone()]).await, 1);
        }
        let rows = one.rows().await;
        assert_eq!(rows.len(), 9);
        for (_, event, delivery) in rows {
            let (event, delivery) = (event.unwrap(), delivery.unwrap());
            let number = event.strip_prefix("10").or(event.strip_prefix("11")).unwrap_or(&event);
            assert!(delivery.starts_with(&format!("d{number}")), "{event} {delivery}");
        }
        assert_eq!(one.jobs().await, 9);
    }

    async fn other_pushes_are_not_taken_for_the_same(test: TestDatabase) {
        let kept = kept(test.db());
        assert_eq!(kept.accept(&[delivery("d1", A, B, 0)]).await, 1);
        // Too long after, from another commit, in another repository.
        assert_eq!(kept.accept(&[event(1, A, B, 601)]).await, 1);
        assert_eq!(kept.accept(&[event(2, 'c', B, 0)]).await, 1);
        assert_eq!(kept.accept(&[of_repository(8, "d8", A, B, 0)]).await, 1);
        assert_eq!(kept.accept(&[event(3, A, B, 600)]).await, 0);
        assert_eq!(kept.accept(&[event(4, A, B, 0)]).await, 1, "one delivery is of one push");
        assert_eq!(kept.rows().await.len(), 5);
    }

    async fn two_webhooks_that_tell_of_one_push_are_one_row(test: TestDatabase) {
        let kept = kept(test.db());
        assert_eq!(kept.accept(&[delivery("d1", A, B, 0)]).await, 1);
        assert_eq!(kept.accept(&[delivery("d2", A, B, 0)]).await, 0);
        assert_eq!(kept.accept(&[delivery("d3", B, A, 0)]).await, 1);
        assert_eq!(kept.accept(&[delivery("d4", A, B, 0)]).await, 1, "it was moved back in between");
        assert_eq!(kept.rows().await.len(), 3);
    }

    async fn both_ways_at_the_same_moment_are_one_row(test: TestDatabase) {
        let kept = kept(test.db());
        let now = kept.0.now_ms() / 1_000 - START;
        for round in 0..20 {
            let (from, to) = if round % 2 == 0 { (A, B) } else { (B, A) };
            let at = now - 60 + round;
            let (one, other) = ([event(round.unsigned_abs() + 1, from, to, at)], [delivery(&format!("d{round}"), from, to, at)]);
            let both = futures_util::future::join(kept.accept(&one), kept.accept(&other)).await;
            assert_eq!(both.0 + both.1, 1);
        }
        assert_eq!(kept.rows().await.len(), 20);
    }
}
