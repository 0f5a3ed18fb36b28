use std::{collections::BTreeSet, time::Duration};

use grip_purgatory::Need;
use grip_tasks::Ended as GroupEnded;
use tokio::time::sleep;

use super::*;
use crate::{Options, testing::*};

mod property;

const A: &str = "https://a.example/x.git";
const B: &str = "https://b.example/x.git";
const SECOND: Duration = Duration::from_secs(1);

fn asked_at(world: &World) -> Vec<i64> {
    let state = world.state.lock();
    state.asked.iter().map(|asked| asked.at).collect()
}

/// One identifier each, at hosts of their own that hang.
fn hanging(world: &World, count: u64) {
    for n in 0..count {
        let at = format!("https://host{n}.example/x.git");
        world.act(&at, &[Act::Hang]);
        world.now_for(&format!("x{n}"), need(&[n], &[&at]));
    }
}

fn at_most(max_tasks: usize) -> Options {
    Options {
        max_tasks,
        ..steady()
    }
}

#[tokio::test(start_paused = true)]
async fn an_identifier_is_tried_when_due_and_then_after_growing_waits() {
    let world = World::new();
    world.wait_for("x", need(&[1], &[A]), SECOND * 180);
    world.act(A, &[Act::Fail]);
    let (_sync, group) = start(&world, steady());
    sleep(SECOND * 700).await;
    let times: Vec<_> = asked_at(&world).iter().map(|at| at / 1000).collect();
    assert_eq!(times, [180, 200, 240, 320, 440, 560, 680]);
    let _ = group.shutdown(SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn an_event_that_comes_meanwhile_wakes_the_loop() {
    let world = World::new();
    let (_sync, _group) = start(&world, steady());
    world.wait_for("far", need(&[9], &[B]), SECOND * 3600);
    sleep(SECOND * 5).await;
    world.provide(A, &[1]);
    world.wait_for("x", need(&[1], &[A]), Duration::from_millis(500));
    sleep(SECOND).await;
    assert_eq!(asked_at(&world), [5500]);
}

#[tokio::test(start_paused = true)]
async fn an_idle_sync_does_nothing_however_many_wait() {
    let world = World::new();
    for n in 0..2_000 {
        world.wait_for(&format!("x{n}"), need(&[n], &[A]), SECOND * 7200);
    }
    let (sync, _group) = start(&world, steady());
    sleep(SECOND * 3600).await;
    let looks = world.state.lock().looks;
    assert!(looks <= 62, "{looks} looks in an hour");
    let queued = world.state.lock().queue.len();
    assert_eq!((queued, sync.status().running), (2_000, 0));
}

#[tokio::test(start_paused = true)]
async fn an_empty_queue_is_not_looked_at_again() {
    let world = World::new();
    let (_sync, _group) = start(&world, steady());
    sleep(SECOND * 86_400).await;
    assert_eq!(world.state.lock().looks, 1);
}

#[test]
fn the_interval_bounds_sleeps_only_near_the_due_time() {
    let interval = SECOND;
    let sleeps = |left| sleep_for(SECOND * left, interval).as_secs();
    assert_eq!([1, 5, 10].map(sleeps), [1, 1, 1]);
    assert_eq!([11, 40, 3600].map(sleeps), [1, 30, 60]);
    let short = Duration::from_millis(300);
    assert_eq!(sleep_for(short, interval), short);
}

#[tokio::test(start_paused = true)]
async fn a_negotiation_goes_on_at_once_and_is_one_attempt() {
    let world = World::new();
    world.now_for("x", need(&[1], &[A]));
    world.act(A, &[Act::Resume, Act::Resume, Act::Fail]);
    let (_sync, _group) = start(&world, steady());
    sleep(SECOND * 25).await;
    assert_eq!(asked_at(&world), [0, 0, 0, 20_000]);
    let state = world.state.lock();
    let ends: Vec<_> = state.ended.iter().map(|(_, after)| *after).collect();
    let retry = |s| AttemptEnd::Retry(Duration::from_secs(s));
    assert_eq!(ends, [retry(20), retry(40)]);
}

#[tokio::test(start_paused = true)]
async fn an_identifier_has_one_attempt_at_a_time() {
    let world = World::new();
    world.now_for("x", need(&[1], &[A]));
    world.act(A, &[Act::Slow(SECOND * 30)]);
    let (sync, _group) = start(&world, steady());
    for n in 2..20 {
        sleep(SECOND).await;
        world.now_for("x", need(&[n], &[A]));
        assert_eq!(sync.status().running, 1);
    }
    assert_eq!(world.state.lock().begun.len(), 1);
    sleep(SECOND * 15).await;
    assert_eq!(
        world.state.lock().begun.len(),
        2,
        "the new events get theirs"
    );
}

#[tokio::test(start_paused = true)]
async fn tasks_are_bounded_in_number() {
    let world = World::new();
    hanging(&world, 100);
    let (sync, _group) = start(&world, at_most(8));
    sleep(SECOND).await;
    assert_eq!(sync.status().running, 2, "a quarter for those that are due");
    for _ in 0..60 {
        sleep(SECOND).await;
        let status = sync.status();
        assert!(status.running <= 8 && status.slow <= 4, "{status:?}");
    }
    // All of the setting's text, slow hosts included: and all have had a try by now.
    assert_eq!(
        (sync.status().slow, world.state.lock().most_fetches),
        (4, 6)
    );
    assert!(counts(&world).len() >= 60);
}

#[tokio::test(start_paused = true)]
async fn hanging_hosts_do_not_delay_healthy_ones() {
    let world = World::new();
    // One host that hangs has hundreds of identifiers; forty others have one each.
    for n in 0..300 {
        let at = format!("https://dead.example/{n}.git");
        world.act(&at, &[Act::Hang]);
        world.now_for(&format!("dead{n}"), need(&[n], &[&at]));
    }
    hanging(&world, 40);
    let (_sync, _group) = start(&world, steady());
    sleep(SECOND * 30).await;
    world.provide(A, &[1000]);
    world.now_for("x", need(&[1000], &[A]));
    sleep(SECOND).await;
    assert_eq!(world.state.lock().released.len(), 1);
    assert_eq!(
        world.state.lock().most_in_flight[&domain("dead.example")],
        5
    );
}

#[tokio::test(start_paused = true)]
async fn an_author_who_made_us_download_enough_waits_and_nobody_else_does() {
    let world = World::new();
    let greedy = |n: u64, at: &str| Need {
        author: author(9),
        ..need(&[n], &[at])
    };
    for n in 0..10 {
        let at = format!("https://host{n}.example/x.git");
        world.provide(&at, &[n]);
        world.act(&at, &[Act::Send(1 << 30)]);
        world.wait_for(&format!("x{n}"), greedy(n, &at), SECOND * n as u32);
    }
    let (sync, _group) = start(&world, steady());
    sleep(SECOND * 20).await;
    // 4 GiB an hour, and what begins while anything is left goes on to its end.
    assert_eq!(world.state.lock().released.len(), 5);
    assert_eq!(sync.status().received_bytes_total, 5 << 30);
    let told = sync.attempts_of(&identifier("x9"));
    let said = "the download budget of its author is used up for now";
    assert_eq!(
        (told[0].outcome.as_str(), told[0].is_success),
        (said, false)
    );
    world.provide(A, &[1000]);
    world.now_for("honest", need(&[1000], &[A]));
    sleep(SECOND).await;
    assert_eq!(world.state.lock().released.len(), 6);
    // What was used is forgotten over the hour.
    sleep(SECOND * 3600).await;
    assert!(world.state.lock().released.len() > 6);
}

#[tokio::test(start_paused = true)]
async fn hosts_that_hang_for_one_author_give_way_to_those_of_others() {
    let world = World::new();
    hanging(&world, 100);
    let (sync, _group) = start(&world, at_most(8));
    sleep(SECOND * 30).await;
    // Slow, but it sends.
    world.act(A, &[Act::Slow(SECOND * 300)]);
    world.provide(A, &[1000]);
    let slow = Need {
        author: author(2),
        ..need(&[1000], &[A])
    };
    world.now_for("honest", slow);
    sleep(SECOND * 500).await;
    let released = world.state.lock().released.len();
    assert_eq!(released, 1, "{:?}", sync.attempts_of(&identifier("honest")));
    let gave_way = sync.attempts_of(&identifier("x0"));
    assert!(gave_way[0].outcome.contains("slow"), "{gave_way:?}");
}

#[tokio::test(start_paused = true)]
async fn an_attempt_with_very_many_slow_urls_gives_way_and_goes_on_where_it_was() {
    let world = World::new();
    let urls: Vec<String> = (0..32).map(|n| format!("https://h{n}.example/")).collect();
    let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
    for at in &urls {
        world.act(at, &[Act::Slow(Duration::from_millis(1_900))]);
    }
    world.now_for("long", need(&[1], &urls));
    let (_sync, _group) = start(&world, at_most(2));
    sleep(SECOND).await;
    world.provide(A, &[2]);
    world.now_for("x", need(&[2], &[A]));
    sleep(SECOND * 12).await;
    assert_eq!(world.state.lock().released.len(), 1);
    // Nobody else waits: it goes on to its end, and asks nobody twice.
    sleep(SECOND * 55).await;
    let counts = counts(&world);
    assert_eq!(counts.len(), urls.len() + 1);
    assert!(counts.values().all(|count| *count == 1));
    let state = world.state.lock();
    let ends: Vec<_> = state.ended.iter().map(|(_, end)| *end).collect();
    let [resumed, retry] = [
        AttemptEnd::Resume(Duration::ZERO),
        AttemptEnd::Retry(SECOND * 20),
    ];
    assert_eq!(ends, [resumed, AttemptEnd::Complete, retry]);
}

#[tokio::test(start_paused = true)]
async fn queued_identifiers_go_on_when_the_window_frees() {
    let world = World::new();
    for n in 0..100 {
        let at = format!("https://a.example/{n}.git");
        world.provide(&at, &[n]);
        world.now_for(&format!("x{n}"), need(&[n], &[&at]));
    }
    let (sync, _group) = start(&world, steady());
    let mut done = Vec::new();
    for _ in 0..5 {
        sleep(SECOND * 59).await;
        done.push(world.state.lock().released.len());
        sleep(SECOND).await;
    }
    assert_eq!(done, [30, 60, 90, 100, 100]);
    assert!(counts(&world).values().all(|count| *count == 1));
    let queued = world.state.lock().queue.len();
    assert_eq!((sync.status().in_line, queued), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_due_identifiers_are_served_in_order_and_fairly() {
    let world = World::new();
    for n in 0..10_000 {
        // Ten hosts, each with a thousand identifiers.
        let at = format!("https://host{}.example/{n}.git", n % 10);
        world.provide(&at, &[n]);
        let due = Duration::from_millis(n / 10);
        world.wait_for(&format!("x{n}"), need(&[n], &[&at]), due);
    }
    let mut limits = grip_limits::Options::default();
    limits.limits.per_window = 600;
    let (_sync, _group) = start_with(&world, steady(), limits);
    sleep(SECOND * 130).await;
    let state = world.state.lock();
    assert_eq!((state.asked.len(), state.released.len()), (10_000, 10_000));
    assert!(state.most_in_flight.values().all(|most| *most <= 5));
    // Of each host, nobody comes more than a few slots before somebody who was due earlier.
    for host in 0..10 {
        let of_host = state
            .asked
            .iter()
            .filter(|asked| asked.url.host_str() == Some(&format!("host{host}.example")));
        let numbers: Vec<i64> = of_host
            .map(|asked| asked.identifier.as_str()[1..].parse().unwrap())
            .collect();
        assert_eq!(numbers.len(), 1_000);
        for (place, number) in numbers.iter().enumerate() {
            let right = i64::try_from(place).unwrap();
            assert!(
                (number / 10 - right).abs() <= 10,
                "{number} came at place {place}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_begins_again_what_a_stop_cut_short() {
    let world = World::new();
    world.now_for("x", need(&[1], &[A]));
    world.provide(A, &[1]);
    world.act(A, &[Act::Hang, Act::Slow(Duration::ZERO)]);
    let (_sync, group) = start(&world, steady());
    sleep(SECOND).await;
    assert_eq!(group.shutdown(SECOND).await, GroupEnded::Drained);
    assert!(!world.is_done());
    let entry = world.state.lock().queue[&identifier("x")];
    assert_eq!((entry.count, entry.in_progress), (0, false));
    let (_sync, _group) = start(&world, steady());
    sleep(SECOND).await;
    assert!(world.is_done());
    assert_eq!(world.state.lock().begun.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_panics_is_tried_again() {
    let world = World::new();
    world.now_for("x", need(&[1], &[A]));
    world.provide(A, &[1]);
    world.act(A, &[Act::Panic, Act::Slow(Duration::ZERO)]);
    let (sync, _group) = start(&world, steady());
    sleep(SECOND * 21).await;
    assert!(world.is_done());
    assert_eq!(sync.status().running, 0);
}

#[tokio::test(start_paused = true)]
async fn status_and_tries_tell_what_happened() {
    let world = World::new();
    world.now_for("x", need(&[1, 2], &[A, B]));
    world.provide(A, &[1]);
    world.act(B, &[Act::Fail]);
    let (sync, _group) = start(&world, steady());
    sleep(SECOND).await;
    let status = sync.status();
    assert_eq!(status.attempts_total, 1);
    assert_eq!((status.requests_total, status.failures_total), (2, 1));
    assert_eq!((status.oids_fetched_total, status.released_total), (1, 0));
    let tries = sync.attempts_of(&identifier("x"));
    let told: Vec<_> = tries
        .iter()
        .map(|t| (t.url.as_str(), t.oids_fetched))
        .collect();
    assert_eq!(told, [(B, 0), (A, 1)]);
    assert_eq!(tries[1].at, 1_700_000_000_000);
    assert_eq!(sync.recent_attempts(1), tries[..1]);
    assert!(sync.attempts_of(&identifier("y")).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_events_is_one_request_per_identifier_and_url() {
    let world = World::new();
    for event in 0..1_000_u64 {
        let name = event % 100;
        let at = format!("https://host{}.example/{name}.git", name % 7);
        world.provide(&at, &[event]);
        let wait = Duration::from_millis(500);
        world.wait_for(&format!("x{name}"), need(&[event], &[&at]), wait);
    }
    let (_sync, _group) = start(&world, steady());
    sleep(SECOND * 5).await;
    assert!(world.is_done());
    let counts = counts(&world);
    assert_eq!((counts.len(), counts.values().max()), (100, Some(&1)));
}

#[tokio::test(start_paused = true)]
async fn one_url_shared_by_many_identifiers_serves_them_all() {
    let world = World::new();
    for n in 0..50 {
        world.provide(A, &[n]);
        world.now_for(&format!("x{n}"), need(&[n], &[A]));
    }
    let (sync, group) = start(&world, steady());
    sleep(SECOND * 130).await;
    assert!(world.is_done());
    let begun: BTreeSet<_> = world.state.lock().begun.iter().cloned().collect();
    assert_eq!((begun.len(), counts(&world)[A]), (50, 50));
    assert_eq!((sync.status().running, sync.status().in_line), (0, 0));
    assert_eq!(group.shutdown(SECOND).await, GroupEnded::Drained);
}
