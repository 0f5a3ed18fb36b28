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

/// G02-28: with a pause of its own.
#[tokio::test(start_paused = true)]
async fn g02_22_an_event_that_could_not_be_decided_makes_the_page_incomplete() {
    let mut scene = Scene::new(one(Class::States));
    let (name, _) = scene.requests().remove(0);
    scene.deliver(&name, 5);
    scene.hear(json!(["EOSE", name]));
    scene.decide(Fate::Failed);
    assert!(!scene.is_complete() && scene.session.status(scene.now.unix).has_failed);
    // After its own pause it is asked for again (G02-28).
    scene.pass(64);
    assert!(scene.requests().is_empty());
    scene.pass(1);
    let (name, _) = scene.requests().remove(0);
    scene.hear(json!(["EOSE", name]));
    assert!(scene.is_complete() && !scene.session.status(scene.now.unix).has_failed);
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

/// The decision on a live event counted as an answer to the page under way.
#[tokio::test(start_paused = true)]
async fn g02_21_live_events_do_not_keep_a_page_open_that_is_not_answered() {
    let mut scene = Scene::new(one(Class::States));
    let is_live = |it: &&Value| it[0] == "REQ" && it[2]["limit"] == 0;
    let live = scene.said.iter().find(is_live).unwrap()[1].clone();
    let (page, _) = scene.requests().remove(0);
    scene.pass(100);
    scene.deliver(live.as_str().unwrap(), scene.now.unix);
    assert_eq!(scene.decide(Fate::Taken), 1);
    scene.pass(20);
    assert!(scene.said().contains(&json!(["CLOSE", page])));
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
    scene.deliver(&name, start().unix);
    scene.decide(Fate::Known);
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
async fn a_clock_that_is_ahead_skips_nothing() {
    let plan = one(Class::States);
    let mut scene = Scene::new(Arc::clone(&plan));
    let (name, _) = scene.requests().remove(0);
    // Everybody else is two hours behind us.
    scene.deliver(&name, start().unix - 7_200);
    scene.decide(Fate::Taken);
    scene.hear(json!(["EOSE", name]));
    let (now, progress) = (scene.now, scene.session.end());
    let mut again = Scene::at(now, plan, RemoteLimits::default(), false, progress);
    let (_, filter) = again.requests().remove(0);
    assert_eq!(filter["since"], start().unix - 7_200 - 900);
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

fn items(range: std::ops::Range<u8>) -> Vec<Item> {
    range.map(|n| (u64::from(n) + 1, [n; 32])).collect()
}

fn reconciling(ours: Vec<Item>) -> (Scene, Value) {
    let limits = RemoteLimits {
        knows_nip77: Some(true),
        ..RemoteLimits::default()
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
    scene.deliver(&name, start().unix);
    scene.decide(Fate::Known);
    scene.hear(json!(["EOSE", name]));
    // What is refused is not waited for, and not confirmed.
    assert!(scene.is_complete() && scene.session.progress.is_refused(scene.now.unix));
    let since = |scene: &Scene, class, value: &str| {
        scene.session.progress.since(class, value, scene.now.unix)
    };
    assert!(since(&scene, Class::Address, "y").is_some());
    assert!(since(&scene, Class::States, "x").is_none());
    // The daily reading of the rest goes on; the class itself waits for its probe.
    scene.pass(86_398);
    for (name, filter) in scene.requests() {
        assert!(filter["#d"].is_null(), "{filter}");
        scene.hear(json!(["EOSE", name]));
    }
    let mut probes = 0;
    for _ in 0..10 {
        scene.pass(2);
        for (name, filter) in scene.requests() {
            probes += usize::from(filter["#d"] == json!(["x"]));
            scene.hear(json!(["EOSE", name]));
        }
    }
    assert_eq!(probes, 1);
    assert!(since(&scene, Class::States, "x").is_some());
}

#[tokio::test(start_paused = true)]
async fn g02_22_what_could_not_be_decided_is_asked_for_by_id_and_no_kill_passes_it_over() {
    let plan = one(Class::States);
    let mut scene = Scene::new(Arc::clone(&plan));
    let (name, _) = scene.requests().remove(0);
    for n in 0..100 {
        scene.deliver(&name, 10_000 - n);
    }
    let batch = scene.session.inbox.take().unwrap();
    let fates: Vec<_> = batch
        .iter()
        .enumerate()
        .map(|(n, it)| match n {
            7 => (it.job, [7; 32], Fate::Failed),
            _ => (it.job, [1; 32], Fate::Taken),
        })
        .collect();
    scene.session.inbox.decided();
    scene.session.admitted(&fates, scene.now);
    scene.hear(json!(["EOSE", name]));
    // The pages go on, but a kill now starts where nothing was left out.
    let saved = serde_json::to_string(&scene.session.progress).unwrap();
    let saved: Progress = serde_json::from_str(&saved).unwrap();
    let mut again = Scene::with(plan, RemoteLimits::default(), false, saved);
    assert!(again.requests().remove(0).1["until"].is_null());
    scene.pass(1);
    let (name, filter) = scene.requests().remove(0);
    assert_eq!(filter["until"], 9_901);
    scene.hear(json!(["EOSE", name]));
    assert!(!scene.is_complete());
    scene.pass(30);
    let (name, filter) = scene.requests().remove(0);
    assert_eq!(filter["ids"], json!(["07".repeat(32)]));
    scene.deliver(&name, 1);
    let batch = scene.session.inbox.take().unwrap();
    scene.session.inbox.decided();
    scene
        .session
        .admitted(&[(batch[0].job, [7; 32], Fate::Taken)], scene.now);
    scene.hear(json!(["EOSE", name]));
    assert!(scene.is_complete());
}

#[tokio::test(start_paused = true)]
async fn g02_20_a_page_that_is_exactly_as_long_as_the_relay_says_is_followed_by_another() {
    let limits = RemoteLimits {
        default_limit: Some(50),
        ..RemoteLimits::default()
    };
    let mut scene = Scene::with(one(Class::States), limits, false, Progress::default());
    let (name, _) = scene.requests().remove(0);
    for n in 0..50 {
        scene.deliver(&name, 10_000 - n);
    }
    scene.decide(Fate::Taken);
    scene.hear(json!(["EOSE", name]));
    assert!(!scene.is_complete());
    scene.pass(1);
    let (name, filter) = scene.requests().remove(0);
    assert_eq!(filter["until"], 9_951);
    scene.deliver(&name, 9_951);
    scene.decide(Fate::Known);
    scene.hear(json!(["EOSE", name]));
    assert!(scene.is_complete());
}

#[tokio::test(start_paused = true)]
async fn g02_25_other_limits_than_before_make_everything_unknown() {
    let plan = one(Class::States);
    let limits = RemoteLimits {
        max_subscriptions: Some(10),
        ..RemoteLimits::default()
    };
    let mut scene = Scene::with(Arc::clone(&plan), limits, false, Progress::default());
    let (name, _) = scene.requests().remove(0);
    scene.deliver(&name, start().unix);
    scene.decide(Fate::Known);
    scene.hear(json!(["EOSE", name]));
    let (now, progress) = (scene.now, scene.session.end());
    // A document that could not be read says nothing new.
    for (limits, is_known) in [
        (limits, true),
        (RemoteLimits::default(), true),
        (
            RemoteLimits {
                max_subscriptions: Some(9),
                ..limits
            },
            false,
        ),
    ] {
        let mut again = Scene::at(now, Arc::clone(&plan), limits, false, progress.clone());
        let (_, filter) = again.requests().remove(0);
        assert_eq!(filter["since"].is_u64(), is_known, "{limits:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn g02_46_a_pass_with_gaps_confirms_nothing_and_counts_until_a_full_one_succeeds() {
    let (mut scene, open) = reconciling(Vec::new());
    let answer = Peer::new(&items(0..5)).answer(&open[3]);
    scene.hear(json!(["NEG-MSG", open[1], answer]));
    let mut now = 0;
    while !scene.is_complete() && now < 5 * 3_600 {
        for (name, _) in scene.requests() {
            scene.hear(json!(["EOSE", name]));
        }
        scene.pass(1);
        now += 1;
    }
    assert!(scene.is_complete() && scene.session.status(scene.now.unix).has_failed);
    assert_eq!(scene.session.progress.confirmed_at(), None);
    assert_eq!(scene.session.progress.full_at(), None);
    // A day later everything is compared again, and this time nothing is missing.
    scene.pass(25 * 3_600);
    assert!(scene.wants_set);
    scene.session.set_loaded(Some(items(0..5)), scene.now);
    scene.collect();
    let open = scene.said().pop().unwrap();
    let answer = Peer::new(&items(0..5)).answer(&open[3]);
    scene.hear(json!(["NEG-MSG", open[1], answer]));
    assert!(scene.is_complete() && !scene.session.status(scene.now.unix).has_failed);
}

#[tokio::test(start_paused = true)]
async fn g02_23_nip77_that_failed_is_tried_again_ever_more_rarely() {
    let mut pauses = Vec::new();
    let limits = RemoteLimits::default();
    let plan = one(Class::States);
    let mut scene = Scene::with(Arc::clone(&plan), limits, true, Progress::default());
    let mut failed_at = None;
    for n in 0..30_000_u64 {
        // A new value each minute gives it reason to compare.
        if n % 60 == 0 {
            let values = ["x".to_owned(), format!("y{n}")];
            scene
                .session
                .set_plan(plan_of(Class::States, values), scene.now);
            scene.collect();
        }
        if std::mem::take(&mut scene.wants_set) {
            pauses.extend(failed_at.map(|at| n - at));
            scene.session.set_loaded(Some(Vec::new()), scene.now);
            scene.collect();
            failed_at = Some(n);
        }
        for message in scene.said() {
            match message[0].as_str() {
                Some("NEG-OPEN") => scene.hear(json!(["NEG-ERR", message[1], "error: broken"])),
                Some("REQ") => scene.hear(json!(["EOSE", message[1]])),
                _ => {}
            }
        }
        scene.pass(1);
    }
    for (pause, least) in pauses.iter().zip([60, 300, 1_800, 7_200]) {
        assert!(*pause >= least && *pause < least + 120, "{pauses:?}");
    }
    assert!(pauses.len() >= 4, "{pauses:?}");
}

#[tokio::test(start_paused = true)]
async fn g02_35_other_maintainers_make_an_identifier_be_read_again() {
    let mut plan = Plan::default();
    plan.add(Class::States, &"x".into());
    plan.add(Class::Address, &"y".into());
    plan.revisions.insert("x".into(), 1);
    let mut scene = Scene::new(Arc::new(plan.clone()));
    for _ in 0..3 {
        for (name, _) in scene.requests() {
            scene.hear(json!(["EOSE", name]));
        }
        scene.pass(1);
    }
    assert!(scene.is_complete());
    plan.revisions.insert("x".into(), 2);
    for _ in 0..3 {
        scene.session.set_plan(Arc::new(plan.clone()), scene.now);
    }
    scene.collect();
    let asked = scene.requests();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].1["#d"], json!(["x"]));
    scene.hear(json!(["EOSE", asked[0].0]));
    scene.pass(2);
    assert!(scene.requests().is_empty() && scene.is_complete());
}

#[tokio::test(start_paused = true)]
async fn values_that_come_while_others_wait_are_asked_for_together() {
    let mut scene = Scene::new(one(Class::States));
    let (first, _) = scene.requests().remove(0);
    for n in 1..50 {
        let values = (0..n).map(|n| format!("y{n}")).chain(["x".to_owned()]);
        scene
            .session
            .set_plan(plan_of(Class::States, values), scene.now);
        scene.collect();
    }
    scene.hear(json!(["EOSE", first]));
    scene.pass(1);
    let (name, filter) = scene.requests().remove(0);
    assert_eq!(filter["#d"].as_array().unwrap().len(), 49);
    scene.hear(json!(["EOSE", name]));
    assert!(scene.is_complete());
}

#[tokio::test(start_paused = true)]
async fn g02_26_who_has_no_turn_starts_nothing_and_sleeps_until_it_comes() {
    let plan = plan_of(
        Class::States,
        (0..3).map(|n| format!("{n}{}", "x".repeat(30_000))),
    );
    let mut scene = Scene::new(plan);
    let (name, _) = scene.requests().remove(0);
    // The turn ends while a request is under way: that one goes on, and the next waits.
    scene.session.set_turn(false, scene.now);
    assert!(scene.session.is_asking());
    scene
        .session
        .hear(&json!(["EOSE", name]).to_string(), scene.now);
    assert!(!scene.session.is_asking());
    scene.now.at += Duration::from_secs(5);
    scene.now.unix += 5;
    scene.session.advance(scene.now);
    assert!(!scene.session.is_asking() && scene.session.wants_turn(scene.now));
    let asleep = scene.session.wake_at(scene.now) - scene.now.at;
    assert!(asleep >= Duration::from_secs(30), "{asleep:?}");
    scene.session.set_turn(true, scene.now);
    assert!(scene.session.is_asking());
}
