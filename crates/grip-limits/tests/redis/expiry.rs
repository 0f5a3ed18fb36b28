//! Keys in Redis, and their expiry.

use std::time::Duration;

use grip_limits::{Advice, Lane, Limits, Options, RedisOptions, Verdict, Why};
use grip_testkit::{RedisServer, until, until_true};

use crate::support::{
    LONG_LEASE, eventually, host, idle, instance, instances, limits, options, redis_options,
    status, take_all,
};

/// The keys of hosts, each with its time to live in milliseconds.
async fn keys(server: &RedisServer) -> Vec<(String, i64)> {
    let client = redis::Client::open(server.url()).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let mut command = redis::cmd("KEYS");
    let names: Vec<String> = command
        .arg("gripfast:{*")
        .query_async(&mut connection)
        .await
        .unwrap();
    let mut keys = Vec::new();
    for name in names {
        let mut command = redis::cmd("PTTL");
        let left = command.arg(&name).query_async(&mut connection).await;
        keys.push((name, left.unwrap()));
    }
    keys
}

#[tokio::test]
async fn an_idle_host_leaves_redis_by_itself() {
    const SHORT: Duration = Duration::from_millis(400);
    let server = RedisServer::start().await.unwrap();
    let mut options = Options {
        forget_after: SHORT,
        ..options(Limits {
            in_flight: 5,
            per_window: 30,
            window: SHORT,
        })
    };
    options.breaker.window = SHORT;
    let redis = RedisOptions {
        lease: SHORT,
        ..redis_options(server.url())
    };
    let throttle = instance(redis, options).await;
    let advice = Advice::new(SHORT, Why::RetryAfter);
    let permit = throttle.acquire(&host(), Lane::Git).await.unwrap();
    permit.finish(Verdict::Failure, Some(advice));
    let held = eventually(&throttle, Lane::Api).await;
    let keys_now = keys(&server).await;
    assert!(keys_now.len() >= 3, "{keys_now:?}");
    for (key, left) in keys_now {
        assert_ne!(left, -1, "{key} stays for ever");
    }
    drop(held);
    until("redis is empty", || async {
        keys(&server).await.is_empty().then_some(())
    })
    .await
    .unwrap();
    until_true("memory is empty", || throttle.hosts().is_empty())
        .await
        .unwrap();
}

#[tokio::test]
async fn an_asker_that_gives_up_leaves_no_slot_behind() {
    let server = RedisServer::start().await.unwrap();
    let [throttle] = instances(&server, &options(limits(1, 30))).await;
    let asked = host();
    for _ in 0..10 {
        // Long enough to send the question, too short to hear the answer.
        tokio::select! {
            biased;
            _ = throttle.acquire(&asked, Lane::Git) => panic!("nobody answers that fast"),
            () = std::future::ready(()) => {}
        }
    }
    // The lease is longer than any test.
    assert!(LONG_LEASE > grip_testkit::DEADLINE);
    let permit = eventually(&throttle, Lane::Git).await;
    // Nor does the start of a request stay that was never made.
    until("nothing else is counted", || async {
        let _ = throttle.acquire(&host(), Lane::Git).await;
        let status = status(&throttle);
        ((status.in_flight, status.started) == (1, 1)).then_some(())
    })
    .await
    .unwrap();
    drop(permit);
}

#[tokio::test]
async fn a_permit_can_be_dropped_outside_a_runtime() {
    let server = RedisServer::start().await.unwrap();
    let [throttle] = instances(&server, &options(limits(2, 30))).await;
    let (permits, _) = take_all(&throttle, Lane::Git).await;
    std::thread::spawn(move || drop(permits)).join().unwrap();
    idle(&throttle).await;
}

#[tokio::test]
async fn a_stopped_group_gives_back_what_was_dropped_before() {
    let server = RedisServer::start().await.unwrap();
    let group = grip_tasks::TaskGroup::new("test");
    let redis = redis_options(server.url());
    let ours = grip_limits::Throttle::redis(options(limits(3, 30)), redis, &group)
        .await
        .unwrap();
    let (held, _) = take_all(&ours, Lane::Git).await;
    assert_eq!(held.len(), 3);
    drop(held);
    let ended = group.shutdown(grip_testkit::DEADLINE).await;
    assert_eq!(ended, grip_tasks::Ended::Drained);
    let [other] = instances(&server, &options(limits(3, 30))).await;
    let (taken, _) = take_all(&other, Lane::Git).await;
    assert_eq!(taken.len(), 3);
}
