use super::*;
use crate::{Permit, SharedAccounts as _, Throttle, Why};

const LANE: Lane = Lane::Git;

fn domain(number: usize) -> Domain {
    Domain::parse(&format!("host-{number}.example")).unwrap()
}

fn few_hosts(max_domains: usize) -> Throttle {
    Throttle::memory(Options {
        max_domains,
        ..Options::default()
    })
}

fn hosts(options: Options) -> Hosts {
    Hosts::new(options, Arc::default())
}

fn request_to(number: usize) -> HostRequest {
    HostRequest {
        domain: domain(number),
        lane: LANE,
        under: None,
    }
}

async fn take(throttle: &Throttle, number: usize) -> Result<Permit, Refused> {
    throttle.acquire(&domain(number), LANE).await
}

/// A whole request that went well.
async fn request(throttle: &Throttle, number: usize) {
    take(throttle, number)
        .await
        .unwrap()
        .finish(Verdict::Success, None);
}

#[tokio::test(start_paused = true)]
async fn idle_hosts_leave_the_map() {
    let throttle = Throttle::memory(Options::default());
    for number in 0..100 {
        request(&throttle, number).await;
    }
    let _held = take(&throttle, 0).await.unwrap();
    let advice = Advice::new(Duration::from_secs(3_600), Why::RetryAfter);
    let advised = take(&throttle, 1).await.unwrap();
    advised.finish(Verdict::Neutral, Some(advice));
    tokio::time::advance(Duration::from_secs(599)).await;
    assert_eq!(throttle.hosts().len(), 100);
    tokio::time::advance(Duration::from_secs(1)).await;
    let left: Vec<_> = throttle.hosts().into_iter().map(|h| h.domain).collect();
    assert_eq!(left, [domain(0), domain(1)]);
}

#[tokio::test(start_paused = true)]
async fn idle_hosts_leave_without_anyone_looking_at_the_list() {
    let mut hosts = hosts(Options::default());
    for number in 0..1_000 {
        let slot = hosts.take(&request_to(number), Instant::now()).unwrap();
        hosts.settle(&slot, Outcome::Cancelled, Instant::now());
    }
    tokio::time::advance(Duration::from_secs(600)).await;
    hosts.take(&request_to(1_000), Instant::now()).unwrap();
    assert_eq!(hosts.hosts.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_new_host_is_refused_while_all_known_ones_are_in_use() {
    let throttle = few_hosts(3);
    let held: Vec<_> = [
        take(&throttle, 0).await.unwrap(),
        take(&throttle, 1).await.unwrap(),
        take(&throttle, 2).await.unwrap(),
    ]
    .into();
    let refused = take(&throttle, 3).await.unwrap_err();
    assert_eq!(refused.reason, Reason::TooManyHosts);
    assert_eq!(refused.retry_at - Instant::now(), Duration::from_secs(5));
    // Known ones are served as before.
    take(&throttle, 0).await.unwrap().unused();
    assert_eq!(throttle.hosts().len(), 3);
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn at_the_bound_a_host_that_owes_nothing_makes_room_early() {
    let throttle = few_hosts(3);
    for number in 0..3 {
        request(&throttle, number).await;
    }
    assert!(take(&throttle, 3).await.is_err(), "their windows are open");
    tokio::time::advance(Duration::from_secs(61)).await;
    request(&throttle, 3).await;
    assert!(throttle.hosts().len() <= 3);
}

#[tokio::test(start_paused = true)]
async fn looking_at_the_list_of_hosts_keeps_no_new_host_out() {
    let throttle = few_hosts(3);
    for number in 0..3 {
        request(&throttle, number).await;
    }
    for _ in 0..70 {
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(throttle.hosts().len(), 3);
    }
    request(&throttle, 3).await;
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_hosts_never_outgrows_the_map() {
    let mut hosts = hosts(Options {
        max_domains: 50,
        ..Options::default()
    });
    for number in 0..2_000 {
        // Redis is not asked for more hosts than are remembered either.
        if number % 2 == 0 {
            let _ = hosts.request(&request_to(number), Instant::now());
        } else if let Ok(slot) = hosts.take(&request_to(number), Instant::now()) {
            hosts.settle(&slot, Outcome::Cancelled, Instant::now());
        }
        assert!(hosts.hosts.len() <= 50);
        tokio::time::advance(Duration::from_millis(200)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn looking_at_an_unknown_host_does_not_remember_it() {
    let throttle = Throttle::memory(Options::default());
    assert!(!throttle.is_throttled(&domain(1), LANE));
    assert_eq!(throttle.failures(&domain(1)), 0);
    assert!(throttle.hosts().is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_list_of_hosts_can_be_written_as_json() {
    let throttle = Throttle::memory(Options::default());
    let slot = take(&throttle, 1).await.unwrap();
    let advice = Advice::new(Duration::from_secs(30), Why::RateLimit);
    slot.finish(Verdict::Failure, Some(advice));
    let hosts = serde_json::to_value(throttle.hosts()).unwrap();
    let expected = serde_json::json!([{
        "domain": "host-1.example",
        "in_flight": 0, "in_flight_limit": 5,
        "started": 1, "window_limit": 30,
        "breaker": "passing",
        "closed": { "for_ms": 30_000, "why": "rate_limit" },
        "requests_total": 1, "failures_total": 1,
    }]);
    assert_eq!(hosts, expected);
    let backend = serde_json::to_value(throttle.backend()).unwrap();
    assert_eq!(backend, serde_json::json!({ "kind": "memory" }));
}
