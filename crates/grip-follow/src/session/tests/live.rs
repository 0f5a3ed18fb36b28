use super::*;

fn names(said: &[Value], kind: &str) -> Vec<String> {
    let of_kind = said.iter().filter(|message| message[0] == kind);
    of_kind
        .map(|message| message[1].as_str().unwrap().to_owned())
        .collect()
}

fn big_plan(filters: usize) -> Arc<Plan> {
    // Each value fills more than half of a filter.
    plan_of(
        Class::States,
        (0..filters).map(|n| format!("{n:05}{}", "x".repeat(20_000))),
    )
}

#[tokio::test(start_paused = true)]
async fn g02_5_live_subscriptions_begin_at_once_and_ask_for_nothing_stored() {
    let mut scene = Scene::new(one(Class::States));
    let said = scene.said();
    assert_eq!(said[0][0], "REQ");
    assert_eq!(said[0][2]["limit"], 0);
    assert_eq!(said[0][2]["#d"], json!(["x"]));
    let name = said[0][1].as_str().unwrap();
    scene.deliver(name, 5);
    assert_eq!(scene.decide(Fate::Taken), 1);
    // A subscription that we did not open delivers nothing.
    scene.deliver("g99", 5);
    assert_eq!(scene.decide(Fate::Taken), 0);
}

#[tokio::test(start_paused = true)]
async fn g02_13_a_relay_that_closes_the_21st_subscription_never_has_to() {
    for (said, most) in [
        (None, 20),
        (Some(5), 5),
        (Some(0), 20),
        (Some(2), 2),
        (Some(1), 1),
    ] {
        let limits = RemoteLimits {
            max_subscriptions: said,
            ..RemoteLimits::default()
        };
        let plan = big_plan(400);
        let mut scene = Scene::with(plan, limits, false, Progress::default());
        for _ in 0..10 {
            let status = scene.session.status(scene.now.unix);
            assert!(status.subscriptions <= most, "{said:?}: {status:?}");
            scene.pass(1);
        }
        assert!(!scene.session.live.is_whole());
    }
}

#[tokio::test(start_paused = true)]
async fn g02_15_what_does_not_fit_is_polled_with_an_overlap() {
    let mut scene = Scene::new(big_plan(200));
    let polled = scene.session.live.polled().1.len();
    assert!(polled > 0);
    // Everything has its history first.
    for _ in 0..3_000 {
        for (name, _) in scene.requests() {
            scene.hear(json!(["EOSE", name]));
        }
        if scene.is_complete() {
            break;
        }
        scene.pass(1);
    }
    assert!(scene.is_complete());
    // What became due meanwhile.
    for _ in 0..120 {
        for (name, _) in scene.requests() {
            scene.hear(json!(["EOSE", name]));
        }
        scene.pass(1);
    }
    let began = scene.now.unix;
    let mut requests = Vec::new();
    for _ in 0..30 {
        scene.pass(1);
        let asked = scene.requests();
        for (name, _) in &asked {
            scene.hear(json!(["EOSE", name]));
        }
        requests.extend(asked);
    }
    // One every five seconds.
    assert!((5..=7).contains(&requests.len()), "{}", requests.len());
    for (_, filter) in requests {
        let since = filter["since"].as_u64().unwrap();
        assert!(since <= began - 900, "{filter}");
    }
}

/// Says that every request for history has ended, for so many seconds; returns what was asked.
fn idle(scene: &mut Scene, seconds: u64) -> Vec<Value> {
    let mut asked = Vec::new();
    for _ in 0..seconds {
        for (name, filter) in scene.requests() {
            scene.hear(json!(["EOSE", name]));
            asked.push(filter);
        }
        scene.pass(1);
    }
    asked
}

#[tokio::test(start_paused = true)]
async fn g02_37_states_of_what_is_held_are_asked_for_every_thirty_seconds_and_of_32_at_once() {
    let identifiers = |most: usize| (0..most).map(|n| format!("{n:03}"));
    let mut scene = Scene::new(plan_of(Class::Held, identifiers(70)));
    idle(&mut scene, 20);
    assert!(scene.is_complete() && scene.session.live.is_whole());
    let asked = idle(&mut scene, 90);
    assert_eq!(asked.len(), 3, "{asked:?}");
    let mut names: Vec<String> = Vec::new();
    for filter in asked {
        let part: Vec<String> = serde_json::from_value(filter["#d"].clone()).unwrap();
        assert_eq!((part.len(), &filter["kinds"]), (32, &json!([30617, 30618])));
        names.extend(part);
    }
    names.sort();
    names.dedup();
    assert!(names.iter().cloned().eq(identifiers(70)), "{names:?}");
    // Nothing is held any more.
    scene.session.set_plan(one(Class::States), scene.now);
    idle(&mut scene, 20);
    assert!(idle(&mut scene, 90).is_empty());
}

/// A long history does not keep what is held waiting.
#[tokio::test(start_paused = true)]
async fn g02_37_held_announcements_come_before_the_rest_of_a_long_history() {
    let mut plan = (*big_plan(100)).clone();
    plan.add(Class::Held, &"held".into());
    let mut scene = Scene::new(Arc::new(plan));
    idle(&mut scene, 35);
    assert!(!scene.is_complete());
    let asked = idle(&mut scene, 30);
    let polls = asked
        .iter()
        .filter(|filter| filter["#d"] == json!(["held"]));
    assert_eq!(polls.count(), 1, "{}", asked.len());
}

#[tokio::test(start_paused = true)]
async fn g02_17_a_refusal_of_many_filters_lowers_the_ceiling_and_one_of_a_single_filter_pauses() {
    let mut plan = Plan::default();
    for class in [
        Class::Announcements,
        Class::States,
        Class::Address,
        Class::Event,
    ] {
        plan.add(class, &"x".into());
    }
    let mut scene = Scene::new(Arc::new(plan));
    let mut open = names(&scene.said(), "REQ");
    assert_eq!(scene.session.status(scene.now.unix).filters, 10);
    let mut ceilings = Vec::new();
    for _ in 0..3 {
        let refused = open.remove(0);
        scene.hear(json!(["CLOSED", refused, "invalid number of filters"]));
        ceilings.push(scene.session.status(scene.now.unix).filters);
        // Refusals of what is closed already are ignored.
        scene.hear(json!(["CLOSED", refused, "invalid number of filters"]));
        let said = scene.said();
        let closed = names(&said, "CLOSE");
        open.retain(|name| !closed.contains(name));
        open.extend(names(&said, "REQ"));
        open.retain(|name| scene.session.live.knows(name));
    }
    assert_eq!(ceilings, [2, 1, 1]);
    assert!(scene.session.progress.is_refused(scene.now.unix));
    assert!(!scene.session.progress.is_refused(scene.now.unix + 86_400));
    // The others stay open.
    assert_eq!(scene.session.live.count(), 3);
}

#[tokio::test(start_paused = true)]
async fn g02_31_a_subscription_closed_without_a_known_reason_is_repaired_after_65_seconds() {
    let mut scene = Scene::new(one(Class::States));
    let name = names(&scene.said(), "REQ").remove(0);
    scene.hear(json!(["CLOSED", name, "error: shutting down"]));
    scene.pass(64);
    assert_eq!(scene.session.live.count(), 0);
    scene.pass(1);
    assert_eq!(scene.session.live.count(), 1);
    // The next time it is left alone for longer.
    let name = names(&scene.said(), "REQ").pop().unwrap();
    scene.hear(json!(["CLOSED", name, "error: shutting down"]));
    scene.pass(129);
    assert_eq!(scene.session.live.count(), 0);
    scene.pass(1);
    assert_eq!(scene.session.live.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn g02_31_the_duty_to_repair_outlives_a_pause_by_rate() {
    let mut scene = Scene::new(one(Class::States));
    let name = names(&scene.said(), "REQ").remove(0);
    scene.pass(60);
    scene.hear(json!(["CLOSED", name, "error: shutting down"]));
    scene.pass(10);
    scene.hear(json!(["NOTICE", "rate limited"]));
    scene.pass(64);
    assert_eq!(scene.session.live.count(), 0);
    scene.pass(1);
    assert_eq!(scene.session.live.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn g02_18_a_limit_of_bytes_is_remembered_and_what_does_not_fit_is_polled_every_five_minutes()
{
    let plan = big_plan(30);
    let mut scene = Scene::new(Arc::clone(&plan));
    let before = scene.session.live.count();
    assert!(before > 2 && scene.session.live.polled().1.is_empty());
    let text = "ERROR: active subscriptions exceed max size 200000 bytes";
    scene.hear(json!(["NOTICE", text]));
    let bytes = |scene: &Scene| -> u64 {
        let live = scene.session.live.sizes();
        live.into_iter().sum()
    };
    assert!(
        bytes(&scene) <= 200_000 - (96 << 10) - 256,
        "{}",
        bytes(&scene)
    );
    assert!(scene.session.live.count() > 0);
    let polled = scene.session.live.polled().1.len();
    assert!(polled > 0);
    // It holds for the next connection.
    let (now, progress) = (scene.now, scene.session.end());
    let mut again = Scene::at(now, plan, RemoteLimits::default(), false, progress);
    assert_eq!(again.session.live.polled().1.len(), polled);
    for _ in 0..200 {
        for (name, _) in again.requests() {
            again.deliver(&name, now.unix);
            again.decide(Fate::Known);
            again.hear(json!(["EOSE", name]));
        }
        again.pass(1);
    }
    assert!(again.is_complete() && again.requests().is_empty());
    again.pass(100);
    let (_, filter) = again.requests().remove(0);
    assert_eq!(filter["since"], now.unix - 60);
}

#[tokio::test(start_paused = true)]
async fn g02_27_too_many_queries_space_requests_and_end_nip77() {
    let mut plan = Plan::default();
    for n in 0..3 {
        plan.add(Class::States, &format!("{n}{}", "x".repeat(20_000)).into());
    }
    let limits = RemoteLimits::default();
    let mut scene = Scene::with(Arc::new(plan), limits, true, Progress::default());
    assert!(scene.session.status(scene.now.unix).by_nip77);
    scene.hear(json!(["NOTICE", "too many queries"]));
    // The same episode.
    scene.hear(json!(["NOTICE", "too many queries"]));
    assert_eq!(scene.session.spacing, Duration::from_millis(600));
    assert!(!scene.session.status(scene.now.unix).by_nip77);
    for seconds in [1_200_u64, 2_400, 4_800, 9_600, 10_000, 10_000] {
        scene.pass(60);
        scene.hear(json!(["NOTICE", "too many queries"]));
        assert_eq!(scene.session.spacing, Duration::from_millis(seconds));
    }
}

#[tokio::test(start_paused = true)]
async fn g02_27_a_rate_limit_stops_new_requests_and_the_subscription_comes_back_after_it() {
    let mut scene = Scene::new(one(Class::States));
    let name = names(&scene.said(), "REQ").remove(0);
    scene.hear(json!(["CLOSED", name, "rate-limited: slow down"]));
    scene.pass(64);
    assert!(names(&scene.said(), "REQ").is_empty());
    scene.pass(1);
    assert_eq!(scene.session.live.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn new_values_change_few_subscriptions() {
    let first: Vec<String> = (0..4)
        .map(|n| format!("b{n}{}", "x".repeat(30_000)))
        .collect();
    let mut scene = Scene::new(plan_of(Class::States, first.clone()));
    scene.said();
    let more = [first, vec!["a".to_owned()]].concat();
    let plan = plan_of(Class::States, more);
    scene.session.set_plan(plan, scene.now);
    scene.collect();
    let said = scene.said();
    assert_eq!(names(&said, "CLOSE").len(), 1, "{}", said.len());
}

#[tokio::test(start_paused = true)]
async fn g02_30_who_we_are_is_told_once_and_what_was_refused_before_is_asked_again() {
    let mut scene = Scene::new(one(Class::States));
    let refused = |name: &str| json!(["CLOSED", name, "auth-required: who are you?"]);
    let names = |said: &[Value]| -> Vec<String> {
        let requests = said.iter().filter(|it| it[0] == "REQ");
        requests
            .map(|it| it[1].as_str().unwrap().to_owned())
            .collect()
    };
    let open = names(&scene.said());
    assert_eq!(open.len(), 2, "one live, one history");
    scene.hear(json!(["AUTH", "c1"]));
    // Nobody's request but ours is a reason.
    scene.hear(refused("x"));
    assert!(scene.said().is_empty());
    scene.hear(refused(&open[0]));
    scene.hear(refused(&open[1]));
    scene.pass(1);
    let said = scene.said();
    assert_eq!(said[0], json!(["AUTH", "c1"]));
    let again = names(&said);
    assert_eq!(again.len(), 2, "{said:?}");
    // Refused again, though it knows us: left alone for a day.
    scene.hear(refused(&again[0]));
    scene.hear(refused(&again[1]));
    scene.pass(3_600);
    assert!(scene.said().iter().all(|it| it[0] == "CLOSE"));
    scene.pass(86_400);
    assert!(!names(&scene.said()).is_empty());
}

#[tokio::test(start_paused = true)]
async fn g02_14_places_are_kept_for_history_and_never_more_is_used_than_the_relay_allows() {
    for (budget, live) in [(20, 18), (3, 1), (1, 0)] {
        let limits = RemoteLimits {
            max_subscriptions: Some(budget),
            ..RemoteLimits::default()
        };
        let scene = Scene::with(big_plan(200), limits, false, Progress::default());
        let status = scene.session.status(scene.now.unix);
        assert!(status.subscriptions <= budget, "{status:?}");
        assert_eq!(scene.session.live.count(), live, "{budget}");
    }
}
