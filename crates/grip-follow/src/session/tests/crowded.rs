//! A relay that has no room for all that is wanted of it.

use std::collections::HashMap;

use super::*;

/// Bytes of one filter of [`plan`].
const FILTER_BYTES: usize = 30_000;
/// Messages that a session may send while nothing but answers come: more are a loop.
const MANY: usize = 2_000;

/// Counts the bytes of open requests as they are written, and refuses what is too much for it.
struct Crowded {
    room: usize,
    text: &'static str,
    open: HashMap<String, usize>,
    refused: usize,
    sent: usize,
    /// Values whose history was asked for and told to its end.
    read: Vec<String>,
}

impl Crowded {
    fn new(room: usize, text: &'static str) -> Self {
        Self {
            room,
            text,
            open: HashMap::new(),
            refused: 0,
            sent: 0,
            read: Vec::new(),
        }
    }

    fn hear(&mut self, message: &Value) -> Option<Value> {
        self.sent += 1;
        let name = message[1].as_str().unwrap();
        if message[0] == "CLOSE" {
            self.open.remove(name);
            return None;
        }
        let bytes = message.to_string().len();
        if self.open.values().sum::<usize>() + bytes > self.room {
            self.refused += 1;
            return Some(json!(["CLOSED", name, self.text]));
        }
        self.open.insert(name.to_owned(), bytes);
        // What is live has no end.
        let is_history = message[2]["limit"].is_null();
        let values = message[2]["#e"].as_array();
        let values = values.into_iter().flatten().filter(|_| is_history);
        self.read
            .extend(values.map(|it| it.as_str().unwrap().to_owned()));
        is_history.then(|| json!(["EOSE", name]))
    }

    /// Answers for so many seconds; what is said together is heard before anything is answered.
    fn serve(&mut self, scene: &mut Scene, seconds: u64) {
        for _ in 0..seconds {
            loop {
                let said = scene.said();
                if said.is_empty() {
                    break;
                }
                let answers: Vec<Value> = said.iter().filter_map(|it| self.hear(it)).collect();
                answers.into_iter().for_each(|answer| scene.hear(answer));
                assert!(self.sent < MANY, "{} messages", self.sent);
            }
            scene.pass(1);
        }
    }
}

/// So many filters.
fn plan(filters: usize) -> Arc<Plan> {
    let value = |n| format!("{n:05}{}", "x".repeat(FILTER_BYTES - 5));
    plan_of(Class::Event, (0..filters).map(value))
}

fn limits() -> RemoteLimits {
    RemoteLimits {
        max_subscriptions: Some(100),
        ..RemoteLimits::default()
    }
}

/// Waiting gives no room: who waits for it with a history reads none of it.
#[tokio::test(start_paused = true)]
async fn g02_18_a_history_is_read_where_not_all_subscriptions_have_room() {
    for text in [
        grip_relay::SUBSCRIPTIONS_TOO_LARGE,
        // It counts otherwise than it says.
        "error: active subscriptions exceed max size 100000000 bytes",
    ] {
        let mut relay = Crowded::new(1 << 20, text);
        let mut scene = Scene::with(plan(20), limits(), false, Progress::default());
        relay.serve(&mut scene, 40);
        assert!(scene.is_complete() && scene.session.live.is_whole());
        assert_eq!((relay.refused, relay.read.len()), (0, 20));
        // There comes more and more of it, as with a history that is being read.
        for filters in (20..=80).step_by(4) {
            scene.session.set_plan(plan(filters), scene.now);
            scene.collect();
            relay.serve(&mut scene, 10);
        }
        assert!(scene.is_complete(), "{text}");
        assert_eq!(scene.paused, [], "{text}");
        relay.read.sort();
        relay.read.dedup();
        assert_eq!(relay.read.len(), 80, "{text}");
        assert!((1..10).contains(&relay.refused), "{}", relay.refused);
        // Much of the room is used, and what has none is polled.
        let polled = scene.session.live.polled().1.len();
        let used: usize = relay.open.values().sum();
        assert!(used > relay.room / 2, "{used}");
        assert!((80 - used / FILTER_BYTES..60).contains(&polled), "{polled}");
    }
}

/// What was learnt of one connection is not held against the next.
#[tokio::test(start_paused = true)]
async fn g02_18_room_that_no_number_was_said_of_is_looked_for_again_after_a_reconnect() {
    let mut relay = Crowded::new(1 << 20, grip_relay::SUBSCRIPTIONS_TOO_LARGE);
    let mut scene = Scene::with(plan(60), limits(), false, Progress::default());
    relay.serve(&mut scene, 100);
    assert!(scene.is_complete() && !scene.session.live.is_whole());
    let (now, progress) = (scene.now, scene.session.end());
    let mut again = Scene::at(now, plan(60), limits(), false, progress);
    Crowded::new(4 << 20, "").serve(&mut again, 100);
    assert!(again.is_complete() && again.session.live.is_whole());
}

#[tokio::test(start_paused = true)]
async fn a_relay_without_room_for_one_request_is_left_alone_for_longer_and_longer() {
    let text = grip_relay::SUBSCRIPTIONS_TOO_LARGE;
    let mut relay = Crowded::new(0, text);
    let mut scene = Scene::with(plan(20), limits(), false, Progress::default());
    relay.serve(&mut scene, 3_600);
    assert!(relay.read.is_empty());
    assert!(relay.sent < 100, "{}", relay.sent);
    let said = (PauseReason::Rate, Some(text.to_owned()));
    assert!(scene.paused.len() >= 5 && scene.paused.iter().all(|it| *it == said));
}
