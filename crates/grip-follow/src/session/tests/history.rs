use negentropy::{Id, Negentropy, NegentropyStorageVector};

use super::*;

#[tokio::test(start_paused = true)]
async fn g02_19_pages_go_on_until_one_is_not_full() {
    let mut scene = Scene::new(one(Class::States));
    let (name, filter) = scene.requests().remove(0);
    assert!(filter["until"].is_null() && filter["limit"].is_null());
    for n in 0..500 {
        scene.deliver(&name, 10_000 - n);
    }
    scene.decide(Fate::Taken);
    scene.hear(json!(["EOSE", name]));
    assert!(!scene.is_complete());
    // Background requests start a second apart (G02-26).
    assert!(scene.requests().is_empty());
    scene.pass(1);
    let (name, filter) = scene.requests().remove(0);
    assert_eq!(filter["until"], 9_501);
    for n in 0..449 {
        scene.deliver(&name, 9_501 - n);
    }
    scene.decide(Fate::Known);
    scene.hear(json!(["EOSE", name]));
    assert!(scene.is_complete());
    assert_eq!(scene.session.progress.confirmed_at(), Some(start().unix));
}

#[tokio::test(start_paused = true)]
async fn g02_21_nothing_counts_before_eose_and_before_everything_is_decided() {
    let mut scene = Scene::new(one(Class::States));
    let (name, _) = scene.requests().remove(0);
    scene.deliver(&name, 5);
    // The EOSE of another request, and of one we never made.
    scene.hear(json!(["EOSE", "g1"]));
    scene.hear(json!(["EOSE", "x"]));
    scene.hear(json!(["EOSE", name]));
    assert!(!scene.is_complete());
    // What comes after the EOSE belongs to nothing.
    scene.deliver(&name, 4);
    assert_eq!(scene.decide(Fate::Taken), 1);
    assert!(scene.is_complete());
}

#[tokio::test(start_paused = true)]
async fn g02_22_an_event_that_could_not_be_decided_makes_the_page_incomplete() {
    let mut scene = Scene::new(one(Class::States));
    let (name, _) = scene.requests().remove(0);
    scene.deliver(&name, 5);
    scene.hear(json!(["EOSE", name]));
    scene.decide(Fate::Failed);
    assert!(!scene.is_complete() && scene.session.status().has_failed);
    // After its own pause it is asked for again (G02-28).
    scene.pass(64);
    assert!(scene.requests().is_empty());
    scene.pass(1);
    let (name, _) = scene.requests().remove(0);
    scene.hear(json!(["EOSE", name]));
    assert!(scene.is_complete() && !scene.session.status().has_failed);
}

#[tokio::test(start_paused = true)]
async fn g02_21_half_a_history_confirms_nothing() {
    let mut scene = Scene::new(one(Class::States));
    let (name, _) = scene.requests().remove(0);
    scene.deliver(&name, 5);
    scene.decide(Fate::Taken);
    scene.pass(120);
    // CLOSE is sent before the place is free.
    assert!(scene.said().contains(&json!(["CLOSE", name])));
    assert!(!scene.is_complete());
    scene.hear(json!(["EOSE", name]));
    assert!(!scene.is_complete());
    assert_eq!(scene.session.end().confirmed_at(), None);
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_drips_or_floods_is_cut_off() {
    let mut scene = Scene::new(one(Class::States));
    let (name, _) = scene.requests().remove(0);
    for _ in 0..6 {
        scene.deliver(&name, 5);
        scene.decide(Fate::Worthless);
        scene.pass(60);
    }
    assert!(scene.said().contains(&json!(["CLOSE", name])));
    scene.pass(65);
    let (name, _) = scene.requests().remove(0);
    for _ in 0..20_001 {
        scene.session.hear(
            &json!(["EVENT", name, {"created_at": 1}]).to_string(),
            scene.now,
        );
        if scene.session.inbox.is_full() {
            scene.decide(Fate::Worthless);
        }
    }
    scene.collect();
    assert!(scene.said().contains(&json!(["CLOSE", name])));
    assert!(!scene.is_complete());
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_ignores_until_is_not_asked_for_ever() {
    let mut scene = Scene::new(one(Class::States));
    let mut requests = 0;
    for _ in 0..600 {
        for (name, _) in scene.requests() {
            requests += 1;
            for n in 0..100 {
                scene.deliver(&name, 10_000 - n);
            }
            scene.decide(Fate::Known);
            scene.hear(json!(["EOSE", name]));
        }
        scene.pass(1);
    }
    assert!(!scene.is_complete());
    assert!(requests < 20, "{requests} requests in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn g02_25_after_a_short_break_only_what_is_new_is_asked_for() {
    let plan = one(Class::States);
    let mut scene = Scene::new(Arc::clone(&plan));
    let (name, _) = scene.requests().remove(0);
    scene.hear(json!(["EOSE", name]));
    assert!(scene.is_complete());
    let mut now = scene.now;
    let progress = scene.session.end();
    now.unix += 600;
    now.at += Duration::from_secs(600);
    let limits = RemoteLimits::default();
    let mut again = Scene::at(now, Arc::clone(&plan), limits, false, progress.clone());
    let (_, filter) = again.requests().remove(0);
    assert_eq!(filter["since"], start().unix - 900);
    // Also after a restart, where the plan is the same.
    let saved: Progress = serde_json::from_str(&serde_json::to_string(&progress).unwrap()).unwrap();
    let mut again = Scene::at(now, Arc::clone(&plan), limits, false, saved.clone());
    assert_eq!(again.requests().remove(0).1["since"], start().unix - 900);
    let mut other = Scene::at(now, one(Class::Address), limits, false, saved);
    assert!(other.requests().remove(0).1["since"].is_null());
    // Later everything is.
    now.unix += 400;
    let mut late = Scene::at(now, plan, limits, false, progress);
    assert!(late.requests().remove(0).1["since"].is_null());
}

#[tokio::test(start_paused = true)]
async fn g02_25_everything_is_read_again_once_a_day() {
    let mut scene = Scene::new(one(Class::States));
    let (name, _) = scene.requests().remove(0);
    scene.hear(json!(["EOSE", name]));
    scene.pass(23 * 3_600 - 1);
    assert!(scene.requests().is_empty());
    scene.pass(2 * 3_600 + 1);
    let (_, filter) = scene.requests().remove(0);
    assert!(filter["since"].is_null());
}

#[tokio::test(start_paused = true)]
async fn progress_of_pages_survives_a_kill() {
    let plan = one(Class::States);
    let mut scene = Scene::new(Arc::clone(&plan));
    let (name, _) = scene.requests().remove(0);
    for n in 0..100 {
        scene.deliver(&name, 10_000 - n);
    }
    scene.decide(Fate::Taken);
    scene.hear(json!(["EOSE", name]));
    assert!(scene.saves > 0);
    // What was saved last, as the next process reads it.
    let saved = serde_json::to_string(&scene.session.progress).unwrap();
    let saved: Progress = serde_json::from_str(&saved).unwrap();
    let mut again = Scene::with(plan, RemoteLimits::default(), false, saved);
    let (_, filter) = again.requests().remove(0);
    assert_eq!(filter["until"], 9_901);
}

/// The other side of a reconciliation.
struct Peer(Negentropy<'static, NegentropyStorageVector>);

impl Peer {
    fn new(items: &[Item]) -> Self {
        let mut storage = NegentropyStorageVector::new();
        for (at, id) in items {
            storage.insert(*at, Id::from_byte_array(*id)).unwrap();
        }
        storage.seal().unwrap();
        Self(Negentropy::owned(storage, 0).unwrap())
    }

    fn answer(&mut self, hex: &Value) -> String {
        let hex = hex.as_str().unwrap();
        let mut message = vec![0; hex.len() / 2];
        faster_hex::hex_decode(hex.as_bytes(), &mut message).unwrap();
        faster_hex::hex_string(&self.0.reconcile(&message).unwrap())
    }
}

fn items(range: std::ops::Range<u8>) -> Vec<Item> {
    range.map(|n| (u64::from(n) + 1, [n; 32])).collect()
}

fn reconciling(ours: Vec<Item>) -> (Scene, Value) {
    let limits = RemoteLimits {
        max_subscriptions: None,
        knows_nip77: Some(true),
    };
    let mut scene = Scene::with(one(Class::States), limits, true, Progress::default());
    assert!(scene.wants_set);
    scene.session.set_loaded(Some(ours), scene.now);
    scene.collect();
    let open = scene.said().pop().unwrap();
    assert_eq!(open[0], "NEG-OPEN");
    (scene, open)
}

#[tokio::test(start_paused = true)]
async fn g02_23_only_what_is_missing_here_is_fetched() {
    let (mut scene, open) = reconciling(items(0..90));
    let answer = Peer::new(&items(0..100)).answer(&open[3]);
    scene.hear(json!(["NEG-MSG", open[1], answer]));
    let said = scene.said();
    assert_eq!(said[0], json!(["NEG-CLOSE", open[1]]));
    let ids = said[1][2]["ids"].as_array().unwrap();
    assert_eq!((said[1][0].as_str(), ids.len()), (Some("REQ"), 10));
    let name = said[1][1].as_str().unwrap().to_owned();
    for n in 90..100_u8 {
        scene.hear(json!(["EVENT", name, {"created_at": 1}]));
        let batch = scene.session.inbox.take().unwrap();
        let fates = [(batch[0].job, [n; 32], Fate::Taken)];
        scene.session.inbox.decided();
        scene.session.admitted(&fates, scene.now);
    }
    scene.hear(json!(["EOSE", name]));
    assert!(scene.is_complete());
}

#[tokio::test(start_paused = true)]
async fn nothing_new_costs_one_message() {
    let (mut scene, open) = reconciling(items(0..100));
    let answer = Peer::new(&items(0..100)).answer(&open[3]);
    scene.hear(json!(["NEG-MSG", open[1], answer]));
    assert!(scene.is_complete());
    assert_eq!(scene.said(), [json!(["NEG-CLOSE", open[1]])]);
}

#[tokio::test(start_paused = true)]
async fn g02_24_events_that_are_named_and_not_given_are_asked_for_again_and_then_by_filter() {
    let (mut scene, open) = reconciling(Vec::new());
    let answer = Peer::new(&items(0..30)).answer(&open[3]);
    scene.hear(json!(["NEG-MSG", open[1], answer]));
    let (name, _) = scene.requests().remove(0);
    // A forged copy is no delivery.
    scene.deliver(&name, 1);
    scene.decide(Fate::Worthless);
    scene.hear(json!(["EOSE", name]));
    scene.pass(1);
    let (_, filter) = scene.requests().remove(0);
    assert_eq!(filter["#d"], json!(["x"]));
    // Fewer of them are asked for by id, at once and then ever more rarely.
    let (mut scene, open) = reconciling(Vec::new());
    let answer = Peer::new(&items(0..5)).answer(&open[3]);
    scene.hear(json!(["NEG-MSG", open[1], answer]));
    let mut attempts = 0;
    for _ in 0..4 * 3_600 {
        for (name, filter) in scene.requests() {
            assert_eq!(filter["ids"].as_array().unwrap().len(), 5);
            scene.hear(json!(["EOSE", name]));
            attempts += 1;
        }
        scene.pass(1);
    }
    assert_eq!(attempts, 13);
}

#[tokio::test(start_paused = true)]
async fn g02_23_a_relay_without_nip77_is_asked_by_pages() {
    for refusal in [
        json!(["NEG-ERR", "g2", "unsupported: no"]),
        json!(["NEG-ERR", "g2", "blocked: too big"]),
        json!(["NOTICE", "ERROR: bad msg: unknown cmd NEG-OPEN"]),
        json!(["NEG-MSG", "g2", "00"]),
    ] {
        let (mut scene, open) = reconciling(items(0..3));
        assert_eq!(open[1], "g2");
        scene.hear(refusal.clone());
        let (_, filter) = scene
            .requests()
            .pop()
            .unwrap_or_else(|| panic!("{refusal}"));
        assert_eq!(filter["#d"], json!(["x"]));
    }
    // And so is one that does not answer.
    let (mut scene, _) = reconciling(items(0..3));
    scene.pass(15);
    assert_eq!(scene.requests().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn g02_29_a_refused_class_is_left_alone_for_a_day_and_others_go_on() {
    let mut plan = Plan::default();
    plan.add(Class::States, &"x".into());
    plan.add(Class::Address, &"y".into());
    let mut scene = Scene::new(Arc::new(plan));
    let (name, filter) = scene.requests().remove(0);
    assert_eq!(filter["#d"], json!(["x"]));
    scene.hear(json!(["CLOSED", name, "blocked: no states here"]));
    scene.pass(1);
    let (name, filter) = scene.requests().remove(0);
    assert_eq!(filter["#a"], json!(["y"]));
    scene.hear(json!(["EOSE", name]));
    assert!(!scene.is_complete());
    scene.pass(86_398);
    assert!(scene.requests().is_empty());
    scene.pass(2);
    assert_eq!(scene.requests().len(), 1);
}
