use std::panic::AssertUnwindSafe;

use tokio::time::{Instant, timeout};

use super::*;
use crate::{Advice, Verdict, Why};

fn domain() -> Domain {
    Domain::parse("git.example").unwrap()
}

fn throttle() -> Throttle {
    Throttle::memory(Options::default())
}

async fn take(throttle: &Throttle) -> Result<Permit, Refused> {
    throttle.acquire(&domain(), Lane::Git).await
}

async fn take_all(throttle: &Throttle) -> Vec<Permit> {
    let mut permits = Vec::new();
    while let Ok(permit) = take(throttle).await {
        permits.push(permit);
    }
    permits
}

fn in_flight(throttle: &Throttle) -> u32 {
    throttle.hosts().iter().map(|host| host.in_flight).sum()
}

#[tokio::test(start_paused = true)]
async fn is_throttled_reflects_domain_capacity() {
    let throttle = throttle();
    assert!(!throttle.is_throttled(&domain(), Lane::Git));
    let mut permits = take_all(&throttle).await;
    assert_eq!(permits.len(), 5);
    assert!(throttle.is_throttled(&domain(), Lane::Git));
    permits.pop();
    assert!(!throttle.is_throttled(&domain(), Lane::Git));
    drop(permits);
    // The window counts as well.
    while let Ok(permit) = take(&throttle).await {
        permit.finish(Verdict::Success, None);
    }
    assert_eq!(in_flight(&throttle), 0);
    assert!(throttle.is_throttled(&domain(), Lane::Git));
    tokio::time::advance(Duration::from_secs(61)).await;
    assert!(!throttle.is_throttled(&domain(), Lane::Git));
}

#[tokio::test(start_paused = true)]
async fn a_request_gives_its_slot_back_however_it_ends() {
    let throttle = throttle();
    let request = || {
        let throttle = throttle.clone();
        async move {
            let _permit = take(&throttle).await.unwrap();
            std::future::pending::<()>().await;
        }
    };
    timeout(Duration::from_secs(3), request())
        .await
        .unwrap_err();
    assert_eq!(in_flight(&throttle), 0, "timed out");

    let group = grip_tasks::TaskGroup::new("test");
    let cancelled = group.spawn("request", request());
    while in_flight(&throttle) == 0 {
        tokio::task::yield_now().await;
    }
    cancelled.abort();
    assert!(cancelled.await.unwrap_err().is_cancelled());
    assert_eq!(in_flight(&throttle), 0, "cancelled");

    let permit = take(&throttle).await.unwrap();
    assert_eq!(in_flight(&throttle), 1);
    let unwound = std::panic::catch_unwind(AssertUnwindSafe(move || {
        let _held = permit;
        std::panic::resume_unwind(Box::new("a fault of the request"));
    }));
    assert!(unwound.is_err());
    assert_eq!(in_flight(&throttle), 0, "panicked");
    assert_eq!(throttle.hosts()[0].started, 3);
    assert_eq!(throttle.failures(&domain()), 0);
}

#[tokio::test(start_paused = true)]
async fn the_history_of_a_host_is_how_its_requests_ended_and_how_soon_it_responds() {
    let throttle = throttle();
    assert_eq!(throttle.history(&domain()), HostHistory::default());
    let ends = [
        (Verdict::Success, 400),
        (Verdict::Failure, 800),
        (Verdict::Neutral, 500),
    ];
    for (verdict, ms) in ends {
        let permit = take(&throttle).await.unwrap();
        throttle.responded(&domain(), Duration::from_millis(ms));
        permit.finish(verdict, None);
    }
    let wanted = HostHistory {
        successes: 1,
        failures: 1,
        latency: Some(Duration::from_millis(500)),
    };
    assert_eq!(throttle.history(&domain()), wanted);
    // Of a host that was never asked nothing is kept.
    let other = Domain::parse("other.example").unwrap();
    throttle.responded(&other, Duration::from_secs(1));
    assert_eq!(throttle.history(&other), HostHistory::default());
}

#[tokio::test(start_paused = true)]
async fn every_end_of_a_permit_is_noticed_by_those_who_wait() {
    let throttle = throttle();
    let mut freed = throttle.freed();
    let ends: [fn(Permit); 4] = [
        drop,
        Permit::unused,
        |permit| permit.finish(Verdict::Success, None),
        |permit| permit.finish(Verdict::Failure, None),
    ];
    for end in ends {
        let permit = take(&throttle).await.unwrap();
        freed.borrow_and_update();
        end(permit);
        assert!(freed.has_changed().unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_a_sentence_with_the_host_in_it() {
    let throttle = throttle();
    let permit = take(&throttle).await.unwrap();
    let advice = Advice::new(Duration::from_secs(30), Why::RetryAfter);
    permit.finish(Verdict::Neutral, Some(advice));
    let refused = take(&throttle).await.unwrap_err();
    let sentence = "git.example cannot be asked now: it asked us to wait";
    assert_eq!(refused.to_string(), sentence);
    assert_eq!(refused.retry_at - Instant::now(), Duration::from_secs(30));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn asking_and_taking_is_one_step() {
    let throttle = throttle();
    let group = grip_tasks::TaskGroup::new("test");
    let askers: Vec<_> = (0..64)
        .map(|_| {
            let throttle = throttle.clone();
            group.spawn("ask", async move { take(&throttle).await })
        })
        .collect();
    let mut granted = Vec::new();
    for asker in askers {
        granted.extend(asker.await.unwrap().ok());
    }
    assert_eq!(granted.len(), 5);
}
