use std::{sync::Arc, time::Duration};

use grip_limits::{Lane, Permit};
use grip_types::Domain;

use super::*;
use crate::{
    plan::{Target, owner_of},
    testing::*,
};

const A: &str = "https://a.example/x.git";
const A2: &str = "https://a.example/mirror.git";
const B: &str = "https://b.example/x.git";
const C: &str = "https://c.example/x.git";

/// Takes all that a host gives, so that it is at its limits until the permits are dropped.
async fn saturate(engine: &TestEngine, host: &str) -> Vec<Permit> {
    let mut permits = Vec::new();
    while let Ok(permit) = engine.throttle.acquire(&domain(host), Lane::Git).await {
        permits.push(permit);
    }
    assert!(engine.throttle.is_throttled(&domain(host), Lane::Git));
    permits
}

/// A world in which an event of `x` lacks these objects and names these URLs, and an engine for it.
fn wanting(numbers: &[u64], urls: &[&str]) -> (Arc<World>, TestEngine) {
    let world = World::new();
    world.now_for("x", need(numbers, urls));
    let engine = engine(&world);
    (world, engine)
}

fn stand_in_line(engine: &TestEngine, host: &Domain, name: &str) {
    let queues = &engine.queues;
    queues
        .enqueue(host, identifier(name), &[], [].into())
        .unwrap();
}

/// Does what is next in line.
async fn turn(engine: &TestEngine) {
    let (turn, task) = (engine.queues.next().await, engine.tasks.turn().await);
    process_queued_identifier(engine, turn, task).await;
}

async fn next(engine: &TestEngine, tried: &[&str]) -> Next {
    let progress = Progress::having_tried(tried.iter().copied().map(url).collect());
    sync_identifier_next_url(engine, &identifier("x"), None, &progress).await
}

fn nobody(throttled: impl Into<Vec<ThrottledDomain>>) -> Next {
    let throttled = throttled.into();
    Next::Nobody { throttled }
}

/// A host to queue for, with the URLs tried there.
fn throttled(host: &str, tried: &[&str]) -> ThrottledDomain {
    ThrottledDomain {
        domain: domain(host),
        tried: tried.iter().copied().map(url).collect(),
        owners: vec![owner_of(&need(&[1], &[]))],
    }
}

async fn attempt(engine: &TestEngine) -> SearchOutcome {
    let mut task = engine.tasks.attempt().await;
    sync_identifier(engine, &identifier("x"), &mut task).await
}

async fn ask(engine: &TestEngine, at: &str, numbers: &[u64]) -> UrlOutcome {
    let target = target(at, numbers);
    let permit = engine
        .throttle
        .acquire(&target.domain, Lane::Git)
        .await
        .unwrap();
    let mut task = engine.tasks.attempt().await;
    sync_identifier_from_url(engine, &identifier("x"), &target, permit, &mut task).await
}

fn target(at: &str, numbers: &[u64]) -> Target {
    Target {
        url: url(at),
        domain: Domain::of(&url(at)).unwrap(),
        wants: oids(numbers),
        states: [].into(),
        owners: vec![owner_of(&need(&[1], &[]))],
    }
}

#[tokio::test(start_paused = true)]
async fn next_url_skips_throttled_domains() {
    let (_, engine) = wanting(&[1], &[A, B]);
    assert_eq!(next(&engine, &[]).await, Next::Ask(target(A, &[1])));
    let held = saturate(&engine, "a.example").await;
    assert_eq!(next(&engine, &[]).await, Next::Ask(target(B, &[1])));
    drop(held);
    assert_eq!(next(&engine, &[]).await, Next::Ask(target(A, &[1])));
}

#[tokio::test(start_paused = true)]
async fn next_url_skips_tried_urls() {
    let (_, engine) = wanting(&[1], &[A, A2, B]);
    assert_eq!(next(&engine, &[A]).await, Next::Ask(target(A2, &[1])));
    assert_eq!(next(&engine, &[A, A2]).await, Next::Ask(target(B, &[1])));
    assert_eq!(next(&engine, &[A, A2, B]).await, nobody([]));
}

#[tokio::test(start_paused = true)]
async fn next_url_of_a_domain_is_of_that_domain() {
    let (_, engine) = wanting(&[1], &[A, B]);
    let (x, b, none) = (identifier("x"), domain("b.example"), Progress::default());
    let next = sync_identifier_next_url(&engine, &x, Some(&b), &none).await;
    assert_eq!(next, Next::Ask(target(B, &[1])));
    let c = domain("c.example");
    let next = sync_identifier_next_url(&engine, &x, Some(&c), &none).await;
    assert_eq!(next, nobody([]));
}

#[tokio::test(start_paused = true)]
async fn next_url_is_complete_when_nothing_waits_or_nothing_is_missing() {
    let world = World::new();
    let engine = engine(&world);
    assert_eq!(next(&engine, &[]).await, Next::Complete);
    world.now_for("x", need(&[1], &[A]));
    world.put_here("x", &[1]);
    assert_eq!(next(&engine, &[]).await, Next::Complete);
}

#[tokio::test(start_paused = true)]
async fn hosts_that_failed_are_asked_last() {
    let (world, engine) = wanting(&[1], &[A, B]);
    world.act(A, &[Act::Fail]);
    ask(&engine, A, &[1]).await;
    assert_eq!(next(&engine, &[]).await, Next::Ask(target(B, &[1])));
}

#[tokio::test(start_paused = true)]
async fn nobody_is_overtaken_who_stands_in_line() {
    let (_, engine) = wanting(&[1], &[A]);
    let queues = &engine.queues;
    queues
        .enqueue(&domain("a.example"), identifier("y"), &[], [].into())
        .unwrap();
    let skipped = nobody([throttled("a.example", &[])]);
    assert_eq!(next(&engine, &[]).await, skipped);
    assert_eq!(attempt(&engine).await, SearchOutcome::Incomplete);
    let order = [queues.next().await, queues.next().await].map(|turn| turn.key().to_string());
    assert_eq!(order, ["y", "x"]);
}

#[tokio::test(start_paused = true)]
async fn from_url_fetches_and_processes_on_success() {
    let (world, engine) = wanting(&[1], &[A]);
    world.provide(A, &[1]);
    let brought = ask(&engine, A, &[1]).await;
    assert_eq!((brought.oids, brought.resume), (1, false));
    assert_eq!(world.state.lock().released.len(), 1);
    assert!(world.is_done());
    let tries = engine.memory.attempts_of(&identifier("x"));
    assert_eq!((tries.len(), tries[0].oids_fetched), (1, 1));
    assert_eq!(
        (tries[0].url.as_str(), tries[0].outcome.as_str()),
        (A, "fetched")
    );
}

#[tokio::test(start_paused = true)]
async fn from_url_that_fails_releases_nothing_and_is_noted() {
    let (world, engine) = wanting(&[1], &[A]);
    world.act(A, &[Act::Fail]);
    assert_eq!(ask(&engine, A, &[1]).await, UrlOutcome::default());
    assert!(world.state.lock().released.is_empty() && !world.is_done());
    let tries = engine.memory.attempts_of(&identifier("x"));
    assert_eq!(tries[0].outcome, "the answer ended too early");
    assert_eq!(engine.throttle.hosts()[0].in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn tries_multiple_urls_until_complete() {
    let (world, engine) = wanting(&[1, 2, 3], &[A, B, C]);
    for (at, has) in [(A, 1), (B, 2), (C, 3)] {
        world.provide(at, &[has]);
    }
    assert_eq!(attempt(&engine).await, SearchOutcome::Complete);
    assert_eq!(world.asked_urls(), [A, B, C]);
    let state = world.state.lock();
    let wants: Vec<_> = state
        .asked
        .iter()
        .map(|asked| asked.wants.clone())
        .collect();
    assert_eq!(wants, [oids(&[1, 2, 3]), oids(&[2, 3]), oids(&[3])]);
}

#[tokio::test(start_paused = true)]
async fn stops_as_soon_as_nothing_is_missing() {
    let (world, engine) = wanting(&[1], &[A, B, C]);
    world.provide(A, &[1]);
    assert_eq!(attempt(&engine).await, SearchOutcome::Complete);
    assert_eq!(world.asked_urls(), [A]);
}

#[tokio::test(start_paused = true)]
async fn each_event_is_released_as_soon_as_its_own_data_is_here() {
    let world = World::new();
    let wait = Duration::from_secs(1);
    for (n, at) in [(1, A), (2, B), (3, C)] {
        world.now_for("x", need(&[n], &[at]));
    }
    world.provide(A, &[1]);
    world.provide(B, &[2]);
    world.act(B, &[Act::Slow(wait)]);
    world.act(C, &[Act::Fail]);
    let engine = engine(&world);
    assert_eq!(attempt(&engine).await, SearchOutcome::Incomplete);
    let released = world.state.lock().released.clone();
    assert_eq!(
        released,
        [(0, need(&[1], &[]).event), (1000, need(&[2], &[]).event)]
    );
    assert!(!world.is_done());
}

#[tokio::test(start_paused = true)]
async fn a_url_is_never_asked_for_what_another_family_lacks() {
    let (world, engine) = wanting(&[1], &[A]);
    world.now_for("x", need(&[2], &[B]));
    for at in [A, B] {
        world.provide(at, &[1, 2]);
    }
    assert_eq!(attempt(&engine).await, SearchOutcome::Complete);
    let state = world.state.lock();
    for asked in &state.asked {
        let own = if asked.url == url(A) { 1 } else { 2 };
        assert_eq!(asked.wants, oids(&[own]));
    }
}

#[tokio::test(start_paused = true)]
async fn enqueues_throttled_domains_when_incomplete() {
    let (world, engine) = wanting(&[1, 2], &[A, B, A2]);
    world.provide(B, &[2]);
    let _held = saturate(&engine, "a.example").await;
    assert_eq!(attempt(&engine).await, SearchOutcome::Incomplete);
    assert_eq!(world.asked_urls(), [B]);
    assert_eq!(engine.queues.waiting(&domain("a.example")), 1);
    assert_eq!(engine.queues.waiting(&domain("b.example")), 0);
}

#[tokio::test(start_paused = true)]
async fn throttled_domains_come_with_the_urls_tried_there() {
    let (_, engine) = wanting(&[1], &[A, A2, B]);
    let mut progress = Progress::having_tried([url(A), url(B)].into());
    let look = async |progress: &Progress| {
        sync_identifier_next_url(&engine, &identifier("x"), None, progress).await
    };
    assert_eq!(look(&progress).await, Next::Ask(target(A2, &[1])));
    let skipped = nobody([throttled("a.example", &[A])]);
    // A host that refused between choosing and taking counts, whatever it says now.
    progress.refused.insert(domain("a.example"));
    assert_eq!(look(&progress).await, skipped);
    progress.refused.clear();
    let _held = saturate(&engine, "a.example").await;
    assert_eq!(look(&progress).await, skipped);
    progress.tried.insert(url(A2));
    assert_eq!(look(&progress).await, nobody([]));
}

#[tokio::test(start_paused = true)]
async fn a_turn_asks_one_url_and_leaves_when_none_is_left() {
    let (world, engine) = wanting(&[1, 2], &[A, A2]);
    world.provide(A, &[1]);
    let host = domain("a.example");
    stand_in_line(&engine, &host, "x");
    for (asked, left) in [(vec![A], 1), (vec![A, A2], 0)] {
        turn(&engine).await;
        assert_eq!(
            (world.asked_urls(), engine.queues.waiting(&host)),
            (asked.iter().map(|a| (*a).to_owned()).collect(), left)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_turn_with_nothing_to_ask_costs_the_host_nothing() {
    let world = World::new();
    let engine = engine(&world);
    let host = domain("a.example");
    stand_in_line(&engine, &host, "x");
    stand_in_line(&engine, &domain("b.example"), "x");
    for left in [1, 0] {
        turn(&engine).await;
        assert_eq!(engine.queues.len(), left);
    }
    let hosts = engine.throttle.hosts();
    assert!(
        hosts
            .iter()
            .all(|host| host.started == 0 && host.in_flight == 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_may_go_on_stays_in_line_with_nothing_tried() {
    let (world, engine) = wanting(&[1], &[A]);
    world.provide(A, &[1]);
    world.act(A, &[Act::Resume, Act::Slow(Duration::ZERO)]);
    let host = domain("a.example");
    stand_in_line(&engine, &host, "x");
    for left in [1, 0] {
        let (turn, task) = (engine.queues.next().await, engine.tasks.turn().await);
        assert!(turn.tried().is_empty());
        process_queued_identifier(&engine, turn, task).await;
        assert_eq!(engine.queues.waiting(&host), left);
    }
    assert!(world.is_done());
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_gave_way_asks_only_what_is_worth_more_now() {
    let (world, engine) = wanting(&[1, 2], &[A, B]);
    for at in [A, B] {
        world.act(at, &[Act::Fail]);
    }
    let gave_way = || {
        let asked = [A, B].map(|at| (url(at), oids(&[1, 2])));
        engine.memory.pause_attempt(&identifier("x"), asked.into());
    };
    gave_way();
    assert_eq!(attempt(&engine).await, SearchOutcome::Incomplete);
    assert!(world.asked_urls().is_empty());
    // The next attempt begins again.
    assert_eq!(attempt(&engine).await, SearchOutcome::Incomplete);
    assert_eq!(world.asked_urls(), [A, B]);

    gave_way();
    world.now_for("x", need(&[3], &[B]));
    assert_eq!(attempt(&engine).await, SearchOutcome::Incomplete);
    assert_eq!(
        world.asked_urls(),
        [A, B, B],
        "a new event is worth asking for at once"
    );
}

#[tokio::test(start_paused = true)]
async fn a_url_that_says_how_to_ask_it_better_is_asked_again_at_once() {
    let (world, engine) = wanting(&[1], &[A, B]);
    world.provide(A, &[1]);
    world.act(A, &[Act::Resume, Act::Resume, Act::Slow(Duration::ZERO)]);
    assert_eq!(attempt(&engine).await, SearchOutcome::Complete);
    assert_eq!(world.asked_urls(), [A, A, A]);
    assert_eq!(engine.throttle.hosts()[0].started, 3, "each with a permit");
}

#[tokio::test(start_paused = true)]
async fn a_host_that_wants_to_be_asked_for_ever_is_not() {
    let (world, engine) = wanting(&[1], &[A]);
    world.act(A, &[Act::Resume]);
    for attempts in 1..=3 {
        assert_eq!(attempt(&engine).await, SearchOutcome::Incomplete);
        assert_eq!(world.asked_urls().len(), 4 * attempts);
        tokio::time::advance(Duration::from_secs(120)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn forbidden_urls_are_noted_once_and_left_alone_for_an_hour() {
    const OWN: &str = "https://own.example/x.git";
    let (world, engine) = wanting(&[1], &[OWN, A]);
    world.act(A, &[Act::Forbidden]);
    for _ in 0..3 {
        assert_eq!(attempt(&engine).await, SearchOutcome::Incomplete);
    }
    assert_eq!(world.asked_urls(), [A], "our own is never asked");
    let tries = engine.memory.attempts_of(&identifier("x"));
    let outcomes: Vec<_> = tries.iter().map(|tried| tried.outcome.as_str()).collect();
    assert_eq!(outcomes, ["the URL names no host"], "ours is no failure");
    assert!(engine.queues.is_empty());
    tokio::time::advance(Duration::from_secs(3601)).await;
    attempt(&engine).await;
    assert_eq!(world.asked_urls(), [A, A]);
}

#[tokio::test(start_paused = true)]
async fn data_that_is_here_already_releases_its_event() {
    let (world, engine) = wanting(&[1], &[A]);
    // As after a crash between the end of a fetch and the release.
    world.put_here("x", &[1]);
    assert_eq!(attempt(&engine).await, SearchOutcome::Complete);
    assert!(world.is_done() && world.asked_urls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_cannot_look_is_tried_again() {
    let (world, engine) = wanting(&[1], &[A]);
    world.state.lock().is_broken = true;
    assert_eq!(attempt(&engine).await, SearchOutcome::Incomplete);
    assert!(world.asked_urls().is_empty() && !world.is_done());
}

#[tokio::test(start_paused = true)]
async fn a_stop_gives_a_fetch_up_and_its_slot_back() {
    let world = World::new();
    world.now_for("x", need(&[1], &[A, B]));
    world.act(A, &[Act::Hang]);
    let engine = Arc::new(engine(&world));
    let stop = engine.stop.clone();
    let stopping = async {
        while world.asked_urls().is_empty() {
            tokio::task::yield_now().await;
        }
        stop.cancel();
    };
    let (ended, ()) = tokio::join!(attempt(&engine), stopping);
    assert_eq!(ended, SearchOutcome::Stopped);
    assert_eq!(world.asked_urls(), [A], "nobody is asked after the stop");
    assert_eq!(engine.throttle.hosts()[0].in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn objects_that_were_not_asked_for_do_not_count() {
    let (world, engine) = wanting(&[1], &[A]);
    world.provide(A, &[2, 3]);
    let brought = ask(&engine, A, &[1]).await;
    assert_eq!(brought.oids, 0);
    assert!(world.state.lock().released.is_empty());
}

mod interleaving;
mod pauses;
mod providers;
