use super::*;

#[tokio::test(start_paused = true)]
async fn g02_38_a_full_inbox_says_so_and_what_was_not_asked_for_is_not_kept() {
    let mut scene = Scene::new(one(Class::States));
    let (name, _) = scene.requests().remove(0);
    for _ in 0..999 {
        scene.deliver(&name, 1);
    }
    assert!(!scene.session.inbox.is_full());
    scene.deliver(&name, 1);
    assert!(scene.session.inbox.is_full());
    scene.decide(Fate::Known);
    assert!(!scene.session.inbox.is_full());
    for _ in 0..5_000 {
        scene.deliver("stranger", 1);
    }
    assert!(scene.session.inbox.is_empty());
}

#[tokio::test(start_paused = true)]
async fn g02_26_a_relay_that_is_paused_keeps_no_turn() {
    let mut scene = Scene::new(one(Class::States));
    let (name, _) = scene.requests().remove(0);
    assert!(scene.session.wants_turn(scene.now));
    scene.hear(json!(["CLOSED", name, "error: no"]));
    assert!(!scene.session.wants_turn(scene.now));
    scene.pass(65);
    assert!(scene.session.wants_turn(scene.now));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_was_set_back_confirms_nothing() {
    let plan = one(Class::States);
    let mut scene = Scene::new(Arc::clone(&plan));
    let (name, _) = scene.requests().remove(0);
    scene.hear(json!(["EOSE", name]));
    let progress = scene.session.end();
    let mut now = start();
    now.unix -= 100_000;
    let mut again = Scene::at(now, plan, RemoteLimits::default(), false, progress);
    assert!(again.requests().remove(0).1["since"].is_null());
}

/// G02-28: what a relay sends beyond its share of bytes is asked for again after a pause that grows, and until
/// then nothing counts.
#[tokio::test(start_paused = true)]
async fn g02_28_a_relay_that_is_over_its_share_is_paused_and_confirms_nothing() {
    let mut scene = Scene::new(one(Class::States));
    for pause in [65, 130] {
        let (name, _) = scene.requests().remove(0);
        for n in 0..500 {
            scene.deliver(&name, 10_000 - n);
        }
        while let Some(batch) = scene.session.inbox.take() {
            let fates = batch.iter().map(|it| (it.job, [7; 32], Fate::OverShare));
            let fates: Vec<_> = fates.collect();
            scene.session.inbox.decided();
            scene.session.admitted(&fates, scene.now);
        }
        scene.hear(json!(["EOSE", name]));
        scene.pass(pause - 1);
        assert!(scene.requests().is_empty());
        scene.pass(1);
        assert!(!scene.is_complete());
    }
    assert_eq!(scene.session.progress.confirmed_at(), None);
}
