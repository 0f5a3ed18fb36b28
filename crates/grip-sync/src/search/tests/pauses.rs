//! URLs that said no are left alone.

use super::*;

const SECOND: Duration = Duration::from_secs(1);

async fn attempt_of(engine: &TestEngine, name: &str) -> SearchOutcome {
    let mut task = engine.tasks.attempt().await;
    sync_identifier(engine, &identifier(name), &mut task).await
}

/// As if there had been attempts since the last new event.
fn was_tried(world: &World, name: &str) {
    let mut state = world.state.lock();
    let mut entry = state.queue[&identifier(name)];
    entry.count = 3;
    state.set(&identifier(name), Some(entry));
}

#[tokio::test(start_paused = true)]
async fn a_url_that_said_no_is_left_alone_by_all_identifiers_and_noted_once() {
    for said in [Act::Refuse, Act::Slow(Duration::ZERO)] {
        let world = World::new();
        world.now_for("x", need(&[1], &[A]));
        world.now_for("y", need(&[2], &[A]));
        world.act(A, &[said]);
        was_tried(&world, "y");
        let engine = engine(&world);
        attempt_of(&engine, "x").await;
        for _ in 0..3 {
            assert_eq!(attempt_of(&engine, "y").await, SearchOutcome::Incomplete);
            assert_eq!(attempt_of(&engine, "x").await, SearchOutcome::Incomplete);
        }
        assert_eq!(world.asked_urls(), [A]);
        assert_eq!(engine.throttle.hosts()[0].started, 1);
        let tries = engine.memory.attempts_of(&identifier("y"));
        assert_eq!(tries.len(), 1);
        assert!(tries[0].outcome.starts_with("left alone for 18 s after: "));
        assert!(engine.queues.is_empty());
        tokio::time::advance(SECOND * 18).await;
        attempt_of(&engine, "y").await;
        assert_eq!(world.asked_urls(), [A, A]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_event_may_ask_a_paused_url_once() {
    let (world, engine) = wanting(&[1], &[A]);
    world.act(A, &[Act::Refuse]);
    attempt(&engine).await;
    world.now_for("x", need(&[2], &[A]));
    for _ in 0..3 {
        attempt(&engine).await;
    }
    assert_eq!(world.asked_urls(), [A, A]);
    world.now_for("x", need(&[3], &[A]));
    world.provide(A, &[1, 2, 3]);
    world.act(A, &[Act::Slow(Duration::ZERO)]);
    assert_eq!(attempt(&engine).await, SearchOutcome::Complete);
    assert!(
        !engine
            .memory
            .pauses()
            .is_on(&url(A), tokio::time::Instant::now())
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_event_that_stood_in_line_may_ask_a_paused_url_too() {
    let world = World::new();
    world.now_for("y", need(&[2], &[A]));
    world.act(A, &[Act::Refuse]);
    let engine = engine(&world);
    attempt_of(&engine, "y").await;
    world.now_for("x", need(&[1], &[A]));
    let held = saturate(&engine, "a.example").await;
    assert_eq!(attempt(&engine).await, SearchOutcome::Incomplete);
    assert_eq!(engine.queues.waiting(&domain("a.example")), 1);
    drop(held);
    turn(&engine).await;
    assert_eq!(world.asked_urls(), [A, A]);
}

#[tokio::test(start_paused = true)]
async fn a_pause_does_not_cut_a_negotiation_short() {
    let (world, engine) = wanting(&[1], &[A]);
    world.now_for("y", need(&[2], &[A]));
    world.provide(A, &[1]);
    world.act(A, &[Act::Resume, Act::Refuse, Act::Slow(Duration::ZERO)]);
    was_tried(&world, "x");
    let host = domain("a.example");
    for name in ["x", "y"] {
        let joined = engine
            .queues
            .enqueue(&host, identifier(name), &[], [].into());
        joined.unwrap();
    }
    for name in ["x", "y", "x"] {
        let (turn, task) = (engine.queues.next().await, engine.tasks.turn().await);
        assert_eq!(*turn.key(), identifier(name));
        process_queued_identifier(&engine, turn, task).await;
    }
    assert_eq!(world.state.lock().released.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_an_operator_brings_forward_leaves_nobody_alone() {
    let (world, engine) = wanting(&[1], &[A]);
    world.act(A, &[Act::Refuse]);
    attempt(&engine).await;
    was_tried(&world, "x");
    let due = tokio::time::Instant::now() + SECOND * 20;
    engine.memory.will_be_due(&identifier("x"), due);
    attempt(&engine).await;
    assert_eq!(world.asked_urls(), [A, A]);
    attempt(&engine).await;
    assert_eq!(world.asked_urls(), [A, A]);
}

#[tokio::test(start_paused = true)]
async fn a_host_in_trouble_is_not_paused_here() {
    let (world, engine) = wanting(&[1], &[A]);
    world.act(A, &[Act::Fail]);
    attempt(&engine).await;
    attempt(&engine).await;
    assert_eq!(world.asked_urls(), [A, A]);
}
