//! Comparisons of all that a relay has.

use super::*;

const LIMITS: RemoteLimits = RemoteLimits {
    max_subscriptions: None,
    default_limit: None,
    knows_nip77: Some(true),
    is_grasp: true,
};

/// A plan that is long enough for it.
fn plan(values: usize) -> Arc<Plan> {
    plan_of(Class::Event, (0..values).map(|n| format!("{n:064x}")))
}

fn items(range: std::ops::Range<u16>) -> Vec<Item> {
    let id = |n: u16| {
        let mut id = [7; 32];
        id[..2].copy_from_slice(&n.to_be_bytes());
        id
    };
    range.map(|n| (u64::from(n) + 1, id(n))).collect()
}

/// A relay with events, and what was exchanged with it.
struct Talk {
    scene: Scene,
    has: Vec<Item>,
    /// Events that are here, of what is wanted.
    ours: Vec<Item>,
    sent: usize,
    received: usize,
    /// The filters of all comparisons.
    compared: Vec<Value>,
    /// What the events that come by id are.
    fate: fn(u64) -> Fate,
}

impl Talk {
    fn new(scene: Scene, ours: Vec<Item>, has: Vec<Item>) -> Self {
        Self {
            scene,
            has,
            ours,
            sent: 0,
            received: 0,
            compared: Vec::new(),
            fate: |_| Fate::Taken,
        }
    }

    fn say(&mut self, message: Value) {
        self.received += message.to_string().len();
        self.scene.hear(message);
    }

    /// Answers everything until nothing is asked for any more.
    fn run(&mut self) {
        let mut peer = None;
        for _ in 0..100 {
            if std::mem::take(&mut self.scene.wants_set) {
                let ours = self.ours.clone();
                self.scene.session.set_loaded(Some(ours), self.scene.now);
                self.scene.collect();
            }
            let said = self.scene.said();
            self.sent += said.iter().map(|it| it.to_string().len()).sum::<usize>();
            for message in said {
                let name = message[1].clone();
                match message[0].as_str() {
                    Some("NEG-OPEN") => {
                        self.compared.push(message[2].clone());
                        let side = peer.insert(Peer::new(&self.has));
                        let answer = side.answer(&message[3]);
                        self.say(json!(["NEG-MSG", name, answer]));
                    }
                    Some("NEG-MSG") => {
                        let side = peer.as_mut().expect("one is open");
                        let answer = side.answer(&message[2]);
                        self.say(json!(["NEG-MSG", name, answer]));
                    }
                    Some("REQ") if !message[2]["ids"].is_null() => self.give(&message),
                    _ => {}
                }
            }
            self.scene.pass(1);
        }
    }

    fn give(&mut self, request: &Value) {
        let ids = request[2]["ids"].as_array().unwrap();
        for id in ids {
            let found = self.has.iter();
            let mut found =
                found.filter(|(_, it)| faster_hex::hex_string(it) == id.as_str().unwrap());
            let Some((at, id)) = found.next().copied() else {
                continue;
            };
            self.say(json!(["EVENT", request[1], {"created_at": at}]));
            let batch = self.scene.session.inbox.take().unwrap();
            let fate = (self.fate)(at);
            if fate == Fate::Taken {
                self.ours.push((at, id));
            }
            self.scene.session.inbox.decided();
            let fates = [(batch[0].job, id, fate)];
            self.scene.session.admitted(&fates, self.scene.now);
            self.scene.collect();
        }
        self.say(json!(["EOSE", request[1]]));
    }

    fn is_everything(&self) -> bool {
        let now = self.scene.now.unix;
        self.scene.session.progress.has_everything(now)
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_reading_of_a_long_plan_sends_and_receives_less_than_one_percent() {
    let plan = plan(2_000);
    let scene = Scene::with(Arc::clone(&plan), LIMITS, true, Progress::default());
    let mut first = Talk::new(scene, Vec::new(), items(0..3_000));
    first.run();
    assert!(first.is_everything(), "{:?}", first.compared.last());
    assert_eq!(first.ours.len(), 3_000);
    // Another connection, after a restart: all but the values is remembered.
    let ours = first.ours.clone();
    let (now, progress) = (first.scene.now, first.scene.session.end());
    let text = serde_json::to_string(&progress).unwrap();
    let mut saved: Progress = serde_json::from_str(&text).unwrap();
    let everything = progress.everything.unwrap().to_text();
    saved.everything = Everything::from_text(&everything);
    let later = Now {
        at: now.at + Duration::from_secs(80_000),
        unix: now.unix + 80_000,
    };
    let scene = Scene::at(later, plan, LIMITS, true, saved);
    let mut second = Talk::new(scene, ours, items(0..3_000));
    second.run();
    assert_eq!(second.compared, [json!({})]);
    assert!(second.scene.is_complete() && second.is_everything());
    assert!(
        second.sent * 100 < first.sent,
        "{} after {}",
        second.sent,
        first.sent
    );
    assert!(
        second.received * 100 < first.received,
        "{} after {}",
        second.received,
        first.received
    );
    // What is new on the relay is found by it.
    second.has.extend(items(3_000..3_005));
    second
        .scene
        .session
        .progress
        .look_again(second.scene.now.unix);
    second.scene.pass(70);
    second.run();
    assert_eq!(second.ours.len(), 3_005);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_wanted_of_a_relay_is_fetched_once_and_never_again() {
    let scene = Scene::with(plan(400), LIMITS, true, Progress::default());
    let mut talk = Talk::new(scene, items(0..100), items(0..150));
    // By values nothing is missing; the fifty others are foreign.
    talk.fate = Fate::Foreign;
    let reads_by_values = |talk: &mut Talk| {
        let has = std::mem::replace(&mut talk.has, items(0..100));
        for _ in 0..3 {
            if std::mem::take(&mut talk.scene.wants_set) {
                let ours = talk.ours.clone();
                talk.scene.session.set_loaded(Some(ours), talk.scene.now);
                talk.scene.collect();
            }
        }
        let open = talk.scene.said().pop().unwrap();
        let answer = Peer::new(&talk.has).answer(&open[3]);
        talk.has = has;
        talk.scene.hear(json!(["NEG-MSG", open[1], answer]));
    };
    reads_by_values(&mut talk);
    talk.run();
    assert!(talk.is_everything());
    let received = talk.received;
    talk.scene.session.progress.look_again(talk.scene.now.unix);
    talk.scene.pass(70);
    talk.run();
    assert!(
        talk.received - received < 1_000,
        "{}",
        talk.received - received
    );
    // One that has come to be wanted is asked for by its value.
    let mut more = (*plan(400)).clone();
    more.add(Class::Event, &"new".into());
    talk.compared.clear();
    talk.scene.session.set_plan(Arc::new(more), talk.scene.now);
    talk.run();
    assert_eq!(talk.compared[0], json!({"#e": ["new"]}));
}

/// A node that was killed before it knew its plan does not begin with the list of it.
#[tokio::test(start_paused = true)]
async fn after_a_restart_with_another_plan_what_was_foreign_is_judged_again() {
    let scene = Scene::with(plan(400), LIMITS, true, Progress::default());
    let mut first = Talk::new(scene, items(0..100), items(0..100));
    first.run();
    assert!(first.is_everything());
    first.has.extend(items(100..110));
    let foreign = items(100..110).into_iter();
    let foreign: Vec<_> = foreign
        .map(|(at, id)| (None, id, Fate::Foreign(at)))
        .collect();
    first.scene.session.admitted(&foreign, first.scene.now);
    let now = first.scene.now;
    let mut saved = first.scene.session.end();
    let text = serde_json::to_string(&saved).unwrap();
    let everything = saved.everything.take().unwrap().to_text();
    saved = serde_json::from_str(&text).unwrap();
    saved.everything = Everything::from_text(&everything);
    let mut more = (*plan(400)).clone();
    more.add(Class::Event, &"new".into());
    let scene = Scene::at(now, Arc::new(more), LIMITS, true, saved);
    let mut second = Talk::new(scene, items(0..100), items(0..110));
    second.run();
    assert_eq!(second.compared, [json!({})]);
    assert_eq!(second.ours.len(), 110);
    assert!(second.is_everything() && second.scene.is_complete());
}

#[tokio::test(start_paused = true)]
async fn a_relay_with_much_else_is_asked_by_values_again() {
    let plan = plan(400);
    let scene = Scene::with(Arc::clone(&plan), LIMITS, true, Progress::default());
    let mut talk = Talk::new(scene, Vec::new(), Vec::new());
    talk.run();
    assert!(talk.is_everything());
    let live = talk.scene.session.status(talk.scene.now.unix).subscriptions;
    assert_eq!(live, 1);
    // A flood of what is not wanted.
    let fates: Vec<_> = items(0..1_001)
        .into_iter()
        .map(|(at, id)| (None, id, Fate::Foreign(at)))
        .collect();
    talk.scene.session.admitted(&fates, talk.scene.now);
    talk.scene.collect();
    assert!(!talk.is_everything());
    talk.compared.clear();
    talk.run();
    assert!(
        talk.compared.iter().all(|it| !it["#e"].is_null()),
        "{:?}",
        talk.compared
    );
    assert!(!talk.compared.is_empty() && talk.scene.is_complete());
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_refuses_or_does_not_end_a_comparison_of_everything_loses_nothing() {
    for answer in [Some("blocked: too many events"), None] {
        let scene = Scene::with(plan(400), LIMITS, true, Progress::default());
        let mut talk = Talk::new(scene, Vec::new(), Vec::new());
        for _ in 0..40 {
            if std::mem::take(&mut talk.scene.wants_set) {
                talk.scene
                    .session
                    .set_loaded(Some(Vec::new()), talk.scene.now);
                talk.scene.collect();
            }
            for message in talk.scene.said() {
                if message[0] != "NEG-OPEN" {
                    continue;
                }
                talk.compared.push(message[2].clone());
                let name = message[1].clone();
                match answer {
                    _ if message[2] != json!({}) => {
                        let answer = Peer::new(&[]).answer(&message[3]);
                        talk.scene.hear(json!(["NEG-MSG", name, answer]));
                    }
                    Some(text) => talk.scene.hear(json!(["NEG-ERR", name, text])),
                    None => {}
                }
            }
            talk.scene.pass(1);
        }
        assert_eq!(talk.compared.last(), Some(&json!({})));
        assert!(!talk.is_everything() && talk.scene.is_complete());
        assert!(talk.scene.session.progress.confirmed_at().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn short_plans_and_relays_that_are_no_grasp_servers_are_asked_by_values_alone() {
    let others = RemoteLimits {
        is_grasp: false,
        ..LIMITS
    };
    for (plan, limits) in [(plan(2), LIMITS), (plan(400), others)] {
        let scene = Scene::with(plan, limits, true, Progress::default());
        let mut talk = Talk::new(scene, Vec::new(), Vec::new());
        talk.run();
        assert!(talk.scene.is_complete() && !talk.is_everything());
        assert!(talk.compared.iter().all(|it| *it != json!({})));
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_ends_after_the_one_that_stands_for_it_is_open() {
    let mut scene = Scene::new(one(Class::States));
    scene.said();
    let mut more = (*one(Class::States)).clone();
    more.add(Class::States, &"y".into());
    scene.session.set_plan(Arc::new(more), scene.now);
    scene.collect();
    let said = scene.said();
    let at = |kind: &str| said.iter().position(|it| it[0] == kind).unwrap();
    assert!(at("REQ") < at("CLOSE"), "{said:?}");
}
