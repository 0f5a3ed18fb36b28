//! Three instances together keep one host's limits, and use them.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use grip_limits::{
    Advice, Lane, Limits, Options, QueueBounds, Queues, Reason, Throttle, Verdict, Why,
};
use grip_tasks::TaskGroup;
use grip_testkit::{RedisServer, until};
use tokio::time::{Instant, sleep, sleep_until};

use crate::support::{
    Arrivals, assert_within, closes, domain, eventually, host, instance, instances, limits,
    options, quick_breaker, reason, redis_options, status, take_all, unix_micros, used_percent,
};

/// Counts what is under way at the host, and the most that ever was.
#[derive(Default)]
struct UnderWay {
    now: AtomicU32,
    most: AtomicU32,
}

impl UnderWay {
    fn begin(&self) {
        let now = self.now.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(now, Ordering::SeqCst);
    }

    fn end(&self) {
        self.now.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Asks again and again, as soon as it may, until `end`.
async fn ask_until(end: Instant, throttle: Throttle, seen: Arrivals, under_way: Arc<UnderWay>) {
    while Instant::now() < end {
        let asked_at = unix_micros();
        match throttle.acquire(&host(), Lane::Git).await {
            Ok(permit) => {
                seen.note(asked_at);
                under_way.begin();
                sleep(Duration::from_millis(5)).await;
                under_way.end();
                permit.finish(Verdict::Success, None);
            }
            Err(refused) => sleep_until(refused.retry_at.min(end)).await,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_instances_keep_and_use_the_window_of_one_host() {
    const WINDOWS: u32 = 3;
    let server = RedisServer::start().await.unwrap();
    let limits = Limits {
        in_flight: 4,
        per_window: 40,
        window: Duration::from_secs(2),
    };
    let three: [Throttle; 3] = instances(&server, &options(limits)).await;
    let seen = Arrivals::default();
    let under_way = Arc::new(UnderWay::default());
    let group = TaskGroup::new("askers");
    let run = limits.window * WINDOWS;
    let end = Instant::now() + run;
    let mut askers = Vec::new();
    for throttle in &three {
        for _ in 0..3 {
            let (seen, under_way) = (seen.clone(), Arc::clone(&under_way));
            let asking = ask_until(end, throttle.clone(), seen, under_way);
            askers.push(group.spawn("asker", asking));
        }
    }
    for asker in askers {
        asker.await.unwrap();
    }

    let seen = seen.sorted();
    assert_within(limits, &seen);
    let most = under_way.most.load(Ordering::SeqCst);
    assert!(most <= limits.in_flight, "{most} were under way at once");
    let used = used_percent(limits, &seen);
    println!(
        "{} starts, {used} % of the window used, {most} at once",
        seen.len()
    );
    assert!(used >= 90, "only {used} % of the limit was used");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_instances_keep_and_use_the_slots_of_one_host() {
    const TAKES: Duration = Duration::from_millis(200);
    const RUN: Duration = Duration::from_secs(4);
    let server = RedisServer::start().await.unwrap();
    let limits = limits(4, 10_000);
    let three: [Throttle; 3] = instances(&server, &options(limits)).await;
    let under_way = Arc::new(UnderWay::default());
    let busy_ms = Arc::new(AtomicU32::new(0));
    let group = TaskGroup::new("askers");
    let end = Instant::now() + RUN;
    let mut askers = Vec::new();
    for throttle in three {
        let queues = Queues::new(throttle, Lane::Git, QueueBounds::default());
        for key in 0..200 {
            queues.enqueue(&host(), key, &[], HashSet::new()).unwrap();
        }
        for _ in 0..4 {
            let (queues, under_way) = (queues.clone(), Arc::clone(&under_way));
            let busy_ms = Arc::clone(&busy_ms);
            askers.push(group.spawn("asker", async move {
                while let Ok(mut turn) = tokio::time::timeout_at(end, queues.next()).await {
                    let permit = turn.take_permit().expect("it is given out once");
                    under_way.begin();
                    let began = Instant::now();
                    sleep_until((began + TAKES).min(end)).await;
                    let busy = began.elapsed().min(TAKES).as_millis();
                    busy_ms.fetch_add(u32::try_from(busy).unwrap(), Ordering::SeqCst);
                    under_way.end();
                    permit.finish(Verdict::Success, None);
                    turn.done();
                }
            }));
        }
    }
    for asker in askers {
        asker.await.unwrap();
    }

    let most = under_way.most.load(Ordering::SeqCst);
    assert!(most <= limits.in_flight, "{most} were under way at once");
    let allowed = limits.in_flight * u32::try_from(RUN.as_millis()).unwrap();
    let used = busy_ms.load(Ordering::SeqCst) * 100 / allowed;
    println!("{used} % of the slots used");
    assert!(used >= 90, "only {used} % of the slots were used");
}

#[tokio::test]
async fn a_retry_after_seen_by_one_stops_all_within_a_second() {
    let server = RedisServer::start().await.unwrap();
    let [a, b, c] = instances(&server, &options(limits(5, 30))).await;
    let permit = a.acquire(&host(), Lane::Git).await.unwrap();
    let told = Instant::now();
    let advice = Advice::new(Duration::from_secs(90), Why::RetryAfter);
    permit.finish(Verdict::Neutral, Some(advice));
    for throttle in [&a, &b, &c] {
        closes(throttle, Reason::Advised).await;
    }
    let took = told.elapsed();
    println!("all three stopped after {took:?}");
    assert!(took < Duration::from_secs(1), "it took {took:?}");

    let refused = c.acquire(&host(), Lane::Api).await.unwrap_err();
    let wait = refused.retry_at - told;
    assert!(wait > Duration::from_secs(88), "{wait:?}");
    assert!(c.is_throttled(&host(), Lane::Git));
    assert!(c.acquire(&domain("other.example"), Lane::Git).await.is_ok());
}

#[tokio::test]
async fn failures_of_several_instances_open_the_breaker_for_all() {
    let server = RedisServer::start().await.unwrap();
    let options = Options {
        breaker: quick_breaker(),
        ..options(limits(5, 100))
    };
    let [a, b, c] = instances(&server, &options).await;
    for throttle in [&a, &b, &a, &b] {
        let permit = eventually(throttle, Lane::Git).await;
        permit.finish(Verdict::Failure, None);
    }
    closes(&c, Reason::BreakerOpen).await;
    assert!(c.failures(&host()) >= 4);

    // After the cooldown three probes go, of whichever instance, and no fourth.
    let first = eventually(&c, Lane::Git).await;
    let second = a.acquire(&host(), Lane::Git).await.unwrap();
    let third = b.acquire(&host(), Lane::Git).await.unwrap();
    assert_eq!(reason(&c, Lane::Git).await, Reason::InFlight);
    for probe in [first, second, third] {
        probe.finish(Verdict::Success, None);
    }
    let all = until("the host passes", || async {
        let (taken, _) = take_all(&b, Lane::Git).await;
        (taken.len() > 3).then_some(taken)
    });
    assert_eq!(all.await.unwrap().len(), 5);
}

#[tokio::test]
async fn an_unused_permit_gives_its_start_back_to_all() {
    let server = RedisServer::start().await.unwrap();
    let [a, b] = instances(&server, &options(limits(5, 3))).await;
    let (taken, _) = take_all(&a, Lane::Git).await;
    assert_eq!(taken.len(), 3);
    assert_eq!(reason(&b, Lane::Git).await, Reason::Window);
    let mut taken = taken.into_iter();
    taken.next().unwrap().unused();
    let permit = eventually(&b, Lane::Git).await;
    assert_eq!(reason(&a, Lane::Git).await, Reason::Window);

    // A permit that was dropped keeps its start.
    drop(permit);
    until("the slot is back", || async {
        assert_eq!(reason(&a, Lane::Git).await, Reason::Window);
        (status(&a).in_flight == 2).then_some(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn networks_with_different_prefixes_share_nothing() {
    let server = RedisServer::start().await.unwrap();
    let [ours] = instances(&server, &options(limits(2, 30))).await;
    let mut redis = redis_options(server.url());
    redis.prefix = "others".to_owned();
    let theirs = instance(redis, options(limits(2, 30))).await;
    let (_held, _) = take_all(&ours, Lane::Git).await;
    let (taken, _) = take_all(&theirs, Lane::Git).await;
    assert_eq!(taken.len(), 2);
}
