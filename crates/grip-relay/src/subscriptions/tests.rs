use nostr::prelude::{EventBuilder, FinalizeEvent, Keys, Kind};
use serde_json::{Value, json};

use super::*;
use crate::{Frame, quota::Quota};

struct Listener {
    subscriptions: Subscriptions,
    send_queue: Arc<SendQueue>,
}

impl Listener {
    fn new(limit: usize) -> Self {
        let stats = Arc::new(Stats::default());
        Self {
            send_queue: Arc::new(SendQueue::new(
                limit,
                Quota::new(1 << 20).holder(None),
                Arc::clone(&stats),
            )),
            subscriptions: Subscriptions::new(stats),
        }
    }

    fn subscribe(&self) -> Key {
        let prepared = self.subscriptions.prepare(vec![Filter::default()]);
        self.subscriptions
            .subscribe(&self.send_queue, "s", prepared)
    }

    fn publish(&self, events: &[&Event]) {
        let batch = self.subscriptions.begin();
        self.subscriptions.publish(batch, events.iter().copied());
    }

    /// Contents of the events queued so far.
    async fn heard(&self) -> Vec<String> {
        // So that there is always something to take.
        self.send_queue.control(Frame::Binary);
        let frames = self.send_queue.drain(0).await.expect("not closed");
        let content = |frame: Frame| match frame {
            Frame::Text(text) => {
                let message: Value = serde_json::from_slice(&text).unwrap();
                assert_eq!((&message[0], &message[1]), (&json!("EVENT"), &json!("s")));
                Some(message[2]["content"].as_str().unwrap().to_owned())
            }
            _ => None,
        };
        frames.into_iter().filter_map(content).collect()
    }
}

fn note(content: &str) -> Event {
    EventBuilder::new(Kind::from(1), content)
        .finalize(&Keys::generate())
        .unwrap()
}

#[tokio::test]
async fn relay_3_what_comes_while_the_snapshot_is_read_waits_and_is_not_doubled() {
    let listener = Listener::new(1 << 20);
    let key = listener.subscribe();
    let (stored, late) = (note("stored"), note("late"));
    listener.publish(&[&stored, &late]);
    assert!(listener.heard().await.is_empty());
    listener.subscriptions.go_live(key, &[stored.id.to_bytes()]);
    assert_eq!(listener.heard().await, ["late"]);
    listener.publish(&[&note("live")]);
    assert_eq!(listener.heard().await, ["live"]);
}

#[tokio::test]
async fn relay_9_2_an_event_committed_before_the_snapshot_and_told_after_it_is_not_doubled() {
    let listener = Listener::new(1 << 20);
    let (stored, new) = (note("stored"), note("new"));
    // Committed, and so in the snapshot; its fan-out comes last of all.
    let batch = listener.subscriptions.begin();
    let key = listener.subscribe();
    listener.subscriptions.go_live(key, &[stored.id.to_bytes()]);
    listener
        .subscriptions
        .publish(batch, [&stored, &new].into_iter());
    assert_eq!(listener.heard().await, ["new"]);
    // The memory of the snapshot is gone with its batch.
    listener.publish(&[&stored]);
    assert_eq!(listener.heard().await, ["stored"]);
}

#[tokio::test]
async fn a_closed_key_reaches_nobody_even_if_its_place_is_taken_again() {
    let listener = Listener::new(1 << 20);
    let old = listener.subscribe();
    listener.subscriptions.unsubscribe(old);
    let new = listener.subscribe();
    listener.subscriptions.unsubscribe(old);
    listener.subscriptions.go_live(old, &[]);
    listener.publish(&[&note("held")]);
    assert!(listener.heard().await.is_empty(), "the new one is loading");
    listener.subscriptions.go_live(new, &[]);
    assert_eq!(listener.heard().await, ["held"]);
    assert_eq!(listener.subscriptions.stats.subscriptions.get(), 1);
}

#[tokio::test]
async fn relay_8_what_waits_for_a_snapshot_is_bounded() {
    let listener = Listener::new(1_000);
    listener.subscribe();
    listener.publish(&[&note(&"x".repeat(2_000))]);
    listener.send_queue.overflowed().await;
}

#[test]
fn filters_cost_what_they_take_in_the_index_and_what_they_delay() {
    let Listener { subscriptions, .. } = Listener::new(1 << 20);
    let cost = |json: Value| {
        let filter = Filter::parse(&json).unwrap();
        subscriptions.prepare(vec![filter]).bytes
    };
    let tags: Vec<String> = (0..1_000).map(|n| n.to_string()).collect();
    assert!(cost(json!({"#t": tags})) > 1_000 * TERM_BYTES);
    let narrow = cost(json!({"#t": ["x"]}));
    let by_kind = cost(json!({"kinds": [1]}));
    let any = cost(json!({"since": 1}));
    assert!(
        narrow < by_kind && by_kind < any,
        "{narrow} {by_kind} {any}"
    );
    // The same filter twice is one, and stands under its term once.
    let twice = vec![Filter::default(); 200];
    let prepared = subscriptions.prepare(twice);
    assert_eq!((prepared.filters.len(), prepared.terms.len()), (1, 1));
}

#[tokio::test]
async fn many_subscriptions_under_one_term_are_found_and_leave_nothing() {
    let listener = Listener::new(64 << 20);
    let keys: Vec<Key> = (0..500).map(|_| listener.subscribe()).collect();
    for key in &keys {
        listener.subscriptions.go_live(*key, &[]);
    }
    listener.publish(&[&note("x")]);
    assert_eq!(listener.heard().await.len(), 500);
    for key in keys {
        listener.subscriptions.unsubscribe(key);
    }
    listener.publish(&[&note("y")]);
    assert_eq!(listener.heard().await.len(), 0);
}
