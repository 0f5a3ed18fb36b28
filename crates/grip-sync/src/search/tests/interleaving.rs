//! The border between an attempt and the line of a host, in every order in which the two can act.

use std::collections::HashSet;

use grip_limits::{Turn, Verdict};
use grip_types::Identifier;
use tokio::time::timeout;

use super::*;

/// What keeps `x` from asking host A at once, as the steps by which it goes away.
#[derive(Clone, Copy, Debug)]
enum Obstacle {
    /// Somebody has a turn there, while the host has capacity.
    Turn,
    /// The host has no permit left.
    Saturated,
    /// Both, and one more joins the line meanwhile.
    All,
}

async fn steps(engine: &TestEngine, obstacle: Obstacle) -> Vec<Step> {
    let host = domain("a.example");
    let mut steps: Vec<Step> = Vec::new();
    if !matches!(obstacle, Obstacle::Saturated) {
        let nothing_tried = HashSet::new();
        engine
            .queues
            .enqueue(&host, identifier("y"), &[], nothing_tried)
            .unwrap();
        let mut turn: Turn<Identifier> = engine.queues.next().await;
        let permit = turn.take_permit().unwrap();
        steps.push(Box::new(move || permit.finish(Verdict::Success, None)));
        steps.push(Box::new(move || turn.done()));
    }
    if !matches!(obstacle, Obstacle::Turn) {
        let permits = saturate(engine, "a.example").await;
        steps.push(Box::new(move || drop(permits)));
    }
    if matches!(obstacle, Obstacle::All) {
        let queues = engine.queues.clone();
        let joins = move || {
            queues
                .enqueue(&host, identifier("z"), &[], HashSet::new())
                .unwrap();
        };
        steps.insert(1, Box::new(joins));
    }
    steps
}

/// Lets everybody in line have their turns until nobody can go without waiting.
async fn take_turns(engine: &TestEngine) {
    let moment = Duration::from_millis(5);
    while let Ok(turn) = timeout(moment, engine.queues.next()).await {
        let task = engine.tasks.turn().await;
        process_queued_identifier(engine, turn, task).await;
    }
}

/// One run with the steps of others before these calls of the seam; returns the number of calls.
async fn run(obstacle: Obstacle, urls: &[&str], places: &[usize]) -> usize {
    let world = World::new();
    world.now_for("x", need(&[1], urls));
    world.provide(A, &[1]);
    let engine = engine(&world);
    let steps = steps(&engine, obstacle).await;
    world.interleave(places.iter().copied().zip(steps));
    attempt(&engine).await;
    let calls = world.take_steps_left();
    take_turns(&engine).await;
    let asked = counts(&world);
    assert!(
        world.is_done() && asked.values().all(|count| *count == 1),
        "{obstacle:?} before the calls {places:?}: {asked:?}"
    );
    assert!(world.elapsed() < 1_000, "nothing waited for its backoff");
    assert!(engine.queues.is_empty());
    calls
}

/// All ways to put `count` ordered steps before calls up to `last`.
fn placings(count: usize, last: usize) -> Vec<Vec<usize>> {
    let longer = |placing: Vec<usize>| {
        let first = placing.last().copied().unwrap_or(0);
        (first..=last).map(move |place| [placing.clone(), vec![place]].concat())
    };
    (0..count).fold(vec![Vec::new()], |all, _| {
        all.into_iter().flat_map(longer).collect()
    })
}

#[tokio::test(start_paused = true)]
async fn a_skipped_host_is_asked_or_queued_for_in_every_interleaving() {
    for (obstacle, count) in [
        (Obstacle::Turn, 2),
        (Obstacle::Saturated, 1),
        (Obstacle::All, 4),
    ] {
        for urls in [&[A][..], &[A, B], &[B, A]] {
            let never = vec![usize::MAX; count];
            let calls = run(obstacle, urls, &never).await;
            for places in placings(count, calls) {
                run(obstacle, urls, &places).await;
            }
        }
    }
}
