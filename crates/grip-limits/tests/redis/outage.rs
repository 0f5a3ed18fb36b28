//! Outages of Redis.

use std::time::Duration;

use grip_limits::{
    Advice, BackendStatus, Lane, Permit, Reason, RedisError, RedisOptions, Throttle, Verdict, Why,
};
use grip_testkit::{RedisServer, until};
use tokio::time::Instant;

use crate::support::{
    LONG_LEASE, closes, connected, eventually, host, idle, in_fallback, instance, instances,
    limits, options, reason, redis_options, status, take_all,
};

fn percent(throttle: &Throttle) -> Option<u32> {
    match throttle.backend() {
        BackendStatus::Fallback { percent, .. } => Some(percent),
        _ => None,
    }
}

#[tokio::test]
async fn without_redis_each_instance_keeps_a_quarter_and_says_so() {
    let mut server = RedisServer::start().await.unwrap();
    let three: [Throttle; 3] = instances(&server, &options(limits(8, 40))).await;
    server.kill();
    let mut held: Vec<Permit> = Vec::new();
    for throttle in &three {
        in_fallback(throttle).await;
        assert_eq!(percent(throttle), Some(25));
        let (taken, reason) = take_all(throttle, Lane::Git).await;
        assert_eq!((taken.len(), reason), (2, Reason::InFlight));
        assert_eq!(status(throttle).in_flight_limit, 2);
        assert_eq!(status(throttle).window_limit, 10);
        held.extend(taken);
    }

    // What went on without it counts once it is back, though Redis has lost everything.
    server.launch().await.unwrap();
    for throttle in &three {
        connected(throttle).await;
    }
    let (taken, reason) = take_all(&three[0], Lane::Git).await;
    assert_eq!((taken.len(), reason), (2, Reason::InFlight));
    assert_eq!(status(&three[0]).in_flight_limit, 8);
    assert_eq!(status(&three[0]).started, 8);
    held.clear();
    let (more, _) = until("the slots of all are back", || async {
        let (taken, reason) = take_all(&three[1], Lane::Git).await;
        (taken.len() == 6).then_some((taken, reason))
    })
    .await
    .unwrap();
    drop((more, taken));
    idle(&three[1]).await;
}

#[tokio::test]
async fn a_redis_that_lost_everything_is_told_what_we_started() {
    let mut server = RedisServer::start().await.unwrap();
    let [a, b] = instances(&server, &options(limits(20, 10))).await;
    for throttle in [&a, &a, &a, &b, &b] {
        let permit = throttle.acquire(&host(), Lane::Git).await.unwrap();
        permit.finish(Verdict::Success, None);
    }
    idle(&a).await;
    idle(&b).await;
    server.restart().await.unwrap();
    for throttle in [&a, &b] {
        in_fallback(throttle).await;
        connected(throttle).await;
    }
    // Five of ten are used, whatever Redis remembers.
    let (taken, reason) = take_all(&a, Lane::Git).await;
    assert_eq!((taken.len(), reason), (5, Reason::Window));
    assert_eq!(status(&a).started, 10);
}

#[tokio::test]
async fn losing_redis_lets_no_instance_start_more_than_its_part() {
    let mut server = RedisServer::start().await.unwrap();
    let [throttle] = instances(&server, &options(limits(8, 40))).await;
    for _ in 0..7 {
        let permit = throttle.acquire(&host(), Lane::Git).await.unwrap();
        permit.finish(Verdict::Success, None);
    }
    let held = throttle.acquire(&host(), Lane::Git).await.unwrap();
    server.kill();
    in_fallback(&throttle).await;
    // Of its ten starts eight are used, of its two slots one is.
    let second = throttle.acquire(&host(), Lane::Git).await.unwrap();
    assert_eq!(reason(&throttle, Lane::Git).await, Reason::InFlight);
    drop(held);
    let third = throttle.acquire(&host(), Lane::Git).await.unwrap();
    drop((second, third));
    assert_eq!(reason(&throttle, Lane::Git).await, Reason::Window);
}

#[tokio::test]
async fn advice_is_heeded_across_the_loss_and_the_return_of_redis() {
    let mut server = RedisServer::start().await.unwrap();
    let [a, b] = instances(&server, &options(limits(8, 40))).await;
    let wait = Advice::new(Duration::from_secs(90), Why::RetryAfter);
    let permit = a.acquire(&host(), Lane::Git).await.unwrap();
    permit.finish(Verdict::Neutral, Some(wait));
    closes(&a, Reason::Advised).await;
    server.kill();
    in_fallback(&a).await;
    assert_eq!(reason(&a, Lane::Git).await, Reason::Advised);

    // What b hears alone reaches a with Redis, even one that has forgotten all.
    in_fallback(&b).await;
    let permit = b.acquire(&host(), Lane::Git).await.unwrap();
    let longer = Advice::new(Duration::from_secs(3_600), Why::RateLimit);
    permit.finish(Verdict::Neutral, Some(longer));
    assert_eq!(reason(&b, Lane::Git).await, Reason::Advised);
    server.launch().await.unwrap();
    connected(&a).await;
    connected(&b).await;
    until("a hears of it", || async {
        let refused = a.acquire(&host(), Lane::Git).await.err()?;
        let wait = refused.retry_at - Instant::now();
        (wait > Duration::from_secs(3_000)).then_some(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn a_redis_that_stands_still_holds_nobody_longer_than_the_timeout() {
    const TIMEOUT: Duration = Duration::from_millis(300);
    let server = RedisServer::start().await.unwrap();
    let redis = RedisOptions {
        timeout: TIMEOUT,
        ..redis_options(server.url())
    };
    let throttle = instance(redis, options(limits(8, 40))).await;
    server.freeze().unwrap();
    let began = Instant::now();
    let permit = throttle.acquire(&host(), Lane::Git).await.unwrap();
    let took = began.elapsed();
    assert!(took < TIMEOUT + Duration::from_millis(200), "{took:?}");
    assert_eq!(percent(&throttle), Some(25));
    // From then on nobody waits at all.
    let began = Instant::now();
    let second = throttle.acquire(&host(), Lane::Git).await.unwrap();
    assert!(began.elapsed() < TIMEOUT, "{:?}", began.elapsed());

    server.thaw().unwrap();
    connected(&throttle).await;
    drop((permit, second));
    // What Redis gave out unheard came back too, and not by its lease.
    idle(&throttle).await;
}

#[tokio::test]
async fn an_instance_starts_without_redis_and_finds_it_later() {
    let mut server = RedisServer::start().await.unwrap();
    server.stop().await.unwrap();
    let throttle = instance(redis_options(server.url()), options(limits(8, 40))).await;
    let BackendStatus::Fallback { reason, .. } = throttle.backend() else {
        panic!("{:?}", throttle.backend());
    };
    assert_eq!(reason, "connection refused");
    let (taken, _) = take_all(&throttle, Lane::Git).await;
    assert_eq!(taken.len(), 2);
    server.launch().await.unwrap();
    connected(&throttle).await;
    let (more, _) = take_all(&throttle, Lane::Git).await;
    assert_eq!(more.len(), 6);
}

#[tokio::test]
async fn a_redirect_without_redis_pays_from_the_part() {
    let mut server = RedisServer::start().await.unwrap();
    let [throttle] = instances(&server, &options(limits(8, 12))).await;
    let mut permit = throttle.acquire(&host(), Lane::Git).await.unwrap();
    server.kill();
    in_fallback(&throttle).await;
    permit.again().await.unwrap();
    permit.again().await.unwrap();
    let refused = permit.again().await.unwrap_err();
    assert_eq!(refused.reason, Reason::Window);
    permit.unused();
    assert!(throttle.acquire(&host(), Lane::Git).await.is_ok());
    server.launch().await.unwrap();
    connected(&throttle).await;
    let _permit = eventually(&throttle, Lane::Git).await;
    assert_eq!(status(&throttle).started, 4);
}

#[tokio::test]
async fn what_is_too_much_to_tell_comes_back_by_its_lease() {
    const MORE_THAN_WAIT: usize = 4_200;
    const LEASE: Duration = Duration::from_secs(2);
    let server = RedisServer::start().await.unwrap();
    let redis = RedisOptions {
        lease: LEASE,
        timeout: Duration::from_secs(1),
        ..redis_options(server.url())
    };
    let throttle = instance(redis, options(limits(5_000, 20_000))).await;
    let mut held = Vec::new();
    while held.len() < MORE_THAN_WAIT {
        held.push(throttle.acquire(&host(), Lane::Git).await.unwrap());
    }
    server.freeze().unwrap();
    drop(held);
    server.thaw().unwrap();
    until("all are back", || async {
        let permit = throttle.acquire(&host(), Lane::Git).await.ok()?;
        permit.unused();
        (status(&throttle).in_flight <= 1).then_some(())
    })
    .await
    .unwrap();
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused() {
    let group = grip_tasks::TaskGroup::new("test");
    let refused = |redis| Throttle::redis(options(limits(1, 1)), redis, &group);
    let no_url = redis_options("http://:secret@127.0.0.1/".to_owned());
    let error = refused(no_url).await.unwrap_err();
    assert_eq!(error, RedisError::Url);
    assert!(!error.to_string().contains("secret"));
    let short = RedisOptions {
        lease: LONG_LEASE / 1_000_000,
        ..RedisOptions::default()
    };
    assert_eq!(refused(short).await.unwrap_err(), RedisError::Lease);
}
