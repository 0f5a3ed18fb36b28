use super::*;
use crate::{Limits, Permit, SharedAccounts as _, Throttle, Why};

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
async fn names_that_are_to_be_left_alone_do_not_keep_new_hosts_out() {
    let throttle = few_hosts(100);
    let day = Advice::new(Duration::from_secs(86_400), Why::RetryAfter);
    for number in 0..1_000 {
        let permit = take(&throttle, number).await.unwrap();
        permit.finish(Verdict::Neutral, Some(day));
    }
    for number in 1_000..1_500 {
        for _ in 0..4 {
            let permit = take(&throttle, number).await.unwrap();
            permit.finish(Verdict::Failure, None);
        }
    }
    request(&throttle, 3_000).await;
    assert!(throttle.hosts().len() <= 100);
    // They are left alone all the same, wherever that is remembered.
    for number in [0, 500, 999] {
        assert!(throttle.is_throttled(&domain(number), LANE));
        let refused = take(&throttle, number).await.unwrap_err();
        assert_eq!(refused.reason, Reason::Advised);
        assert_eq!(refused.retry_at - Instant::now(), day.wait);
    }
    let refused = take(&throttle, 1_000).await.unwrap_err();
    assert_eq!(refused.reason, Reason::BreakerOpen);
    assert!(throttle.departed_hosts() > 1_300);
}

#[tokio::test(start_paused = true)]
async fn a_breaker_that_left_the_table_comes_back_half_open() {
    let throttle = few_hosts(8);
    for _ in 0..4 {
        let permit = take(&throttle, 0).await.unwrap();
        permit.finish(Verdict::Failure, None);
    }
    for number in 1..100 {
        request(&throttle, number).await;
    }
    assert!(throttle.hosts().iter().all(|host| host.domain != domain(0)));
    tokio::time::advance(Duration::from_secs(10)).await;
    let probes: Vec<_> = [
        take(&throttle, 0).await.unwrap(),
        take(&throttle, 0).await.unwrap(),
        take(&throttle, 0).await.unwrap(),
    ]
    .into();
    let refused = take(&throttle, 0).await.unwrap_err();
    assert_eq!(refused.reason, Reason::InFlight);
    drop(probes);
}

#[tokio::test(start_paused = true)]
async fn a_host_that_made_room_is_asked_no_more_often_for_it() {
    let throttle = few_hosts(8);
    let mut asked = 0;
    for round in 0..60 {
        if let Ok(permit) = take(&throttle, 0).await {
            permit.finish(Verdict::Success, None);
            asked += 1;
        }
        // Enough other names that it leaves the table each time.
        for number in 1..40 {
            request(&throttle, 100 * round + number).await;
        }
    }
    assert!((1..=30).contains(&asked), "{asked}");
}

#[tokio::test(start_paused = true)]
async fn hosts_that_the_operator_named_have_room_of_their_own() {
    let throttle = Throttle::memory(Options {
        max_domains: 3,
        configured: [domain(50)].into(),
        overrides: [(domain(51), Limits::default())].into(),
        ..Options::default()
    });
    let _held = [
        take(&throttle, 0).await.unwrap(),
        take(&throttle, 1).await.unwrap(),
        take(&throttle, 2).await.unwrap(),
    ];
    request(&throttle, 50).await;
    request(&throttle, 51).await;
    for number in 100..200 {
        let _ = take(&throttle, number).await;
    }
    let named = |host: &HostStatus| [domain(50), domain(51)].contains(&host.domain);
    assert_eq!(
        throttle.hosts().iter().filter(|host| named(host)).count(),
        2
    );
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
