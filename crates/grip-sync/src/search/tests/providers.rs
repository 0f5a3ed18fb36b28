use super::*;
use grip_purgatory::Providers;

const FOUND: &str = "https://found.example/x.git";

fn find(world: &World, urls: &[&str]) {
    world.state.lock().further = vec![Providers {
        event: need(&[1], &[]).event,
        urls: urls.iter().copied().map(url).collect(),
        is_whole: true,
    }];
}

#[tokio::test(start_paused = true)]
async fn others_are_looked_for_when_all_that_are_named_failed() {
    let (world, engine) = wanting(&[1], &[A, B]);
    world.act(A, &[Act::Fail]);
    world.provide(FOUND, &[1]);
    find(&world, &[FOUND]);
    assert_eq!(attempt(&engine).await, SearchOutcome::Complete);
    assert_eq!(world.asked_urls(), [A, B, FOUND]);
    assert!(world.is_done());
}

#[tokio::test(start_paused = true)]
async fn others_are_looked_for_when_all_that_are_named_are_at_their_limits() {
    let (world, engine) = wanting(&[1], &[A]);
    world.provide(FOUND, &[1]);
    find(&world, &[FOUND]);
    let _held = saturate(&engine, "a.example").await;
    assert_eq!(attempt(&engine).await, SearchOutcome::Complete);
    assert_eq!(world.asked_urls(), [FOUND]);
    assert_eq!(engine.queues.waiting(&domain("a.example")), 0);
}

#[tokio::test(start_paused = true)]
async fn nobody_is_looked_for_while_those_that_are_named_have_it() {
    let (world, engine) = wanting(&[1], &[A]);
    world.provide(A, &[1]);
    find(&world, &[FOUND]);
    assert_eq!(attempt(&engine).await, SearchOutcome::Complete);
    assert_eq!(world.state.lock().looked_further, 0);
}

#[tokio::test(start_paused = true)]
async fn others_are_looked_for_once_an_attempt_and_asked_like_anybody() {
    let (world, engine) = wanting(&[1], &[A]);
    find(&world, &[FOUND, "https://own.example/x.git", A]);
    assert_eq!(attempt(&engine).await, SearchOutcome::Incomplete);
    assert_eq!(world.state.lock().looked_further, 1);
    assert_eq!(
        world.asked_urls(),
        [A, FOUND],
        "the guard holds for providers too"
    );
    let told: Vec<_> = engine
        .memory
        .attempts_of(&identifier("x"))
        .into_iter()
        .collect();
    assert!(told.iter().any(|tried| tried.url == FOUND));
}

#[tokio::test(start_paused = true)]
async fn a_find_at_its_limits_is_stood_in_line_for() {
    let (world, engine) = wanting(&[1], &[A]);
    world.provide(FOUND, &[1]);
    find(&world, &[FOUND]);
    let held = saturate(&engine, "found.example").await;
    assert_eq!(attempt(&engine).await, SearchOutcome::Incomplete);
    assert_eq!(engine.queues.waiting(&domain("found.example")), 1);
    drop(held);
    turn(&engine).await;
    assert!(world.is_done());
}
