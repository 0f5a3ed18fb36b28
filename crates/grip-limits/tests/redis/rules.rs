//! The same rules in memory and in Redis: every test here runs over both.

use std::time::Duration;

use grip_limits::{
    Advice, BreakerState, ClosedReason, Lane, Limits, Options, Reason, Throttle, Verdict, Why,
};
use grip_testkit::{RedisServer, until_true};

use crate::support::{
    closes, domain, eventually, host, idle, instances, limits, options, quick_breaker, reason,
    status, take_all,
};

/// Runs each function as a test over each ledger.
macro_rules! over_both {
    ($($name:ident),* $(,)?) => {
        mod memory {
            $(#[tokio::test]
            async fn $name() {
                super::$name(&super::Ledger::Memory).await;
            })*
        }

        mod redis {
            $(#[tokio::test]
            async fn $name() {
                let server = super::RedisServer::start().await.unwrap();
                super::$name(&super::Ledger::Redis(server)).await;
            })*
        }
    };
}

over_both!(
    no_more_requests_are_under_way_than_slots,
    no_more_requests_start_than_the_window_holds,
    a_window_frees_by_time_alone,
    a_dropped_permit_frees_its_slot_and_keeps_its_start,
    an_unused_permit_gives_slot_and_start_back,
    a_redirect_pays_for_its_start,
    each_lane_leaves_a_reserve_to_the_other,
    a_lane_alone_has_everything,
    advice_closes_a_host_and_the_longer_one_wins,
    failures_open_the_breaker_and_probes_close_it,
    a_failing_probe_opens_the_breaker_again,
    a_cancelled_probe_is_free_for_another,
    few_or_neutral_outcomes_open_nothing,
    hosts_have_accounts_of_their_own,
    names_that_ask_for_silence_keep_no_new_host_out,
    an_override_is_for_its_host_only,
    a_release_is_told_to_those_who_wait,
);

enum Ledger {
    Memory,
    Redis(RedisServer),
}

impl Ledger {
    async fn throttle(&self, options: Options) -> Throttle {
        match self {
            Self::Memory => Throttle::memory(options),
            Self::Redis(server) => {
                let [throttle] = instances(server, &options).await;
                throttle
            }
        }
    }

    async fn with_limits(&self, in_flight: u32, per_window: u32) -> Throttle {
        self.throttle(options(limits(in_flight, per_window))).await
    }

    async fn with_breaker(&self) -> Throttle {
        let options = Options {
            breaker: quick_breaker(),
            ..options(limits(10, 1_000))
        };
        self.throttle(options).await
    }
}

/// Makes `count` requests that all end with `verdict`.
async fn ask(throttle: &Throttle, count: u32, verdict: Verdict) {
    for _ in 0..count {
        let permit = eventually(throttle, Lane::Git).await;
        permit.finish(verdict, None);
    }
    idle(throttle).await;
}

async fn no_more_requests_are_under_way_than_slots(ledger: &Ledger) {
    let throttle = ledger.with_limits(3, 30).await;
    let (mut taken, reason) = take_all(&throttle, Lane::Git).await;
    assert_eq!((taken.len(), reason), (3, Reason::InFlight));
    assert!(throttle.is_throttled(&host(), Lane::Git));
    taken.pop();
    let _again = eventually(&throttle, Lane::Git).await;
    assert_eq!(status(&throttle).in_flight, 3);
}

async fn no_more_requests_start_than_the_window_holds(ledger: &Ledger) {
    let throttle = ledger.with_limits(10, 4).await;
    let (taken, reason) = take_all(&throttle, Lane::Git).await;
    assert_eq!((taken.len(), reason), (4, Reason::Window));
    let status = status(&throttle);
    assert_eq!((status.started, status.window_limit), (4, 4));
    assert_eq!(status.closed.unwrap().why, ClosedReason::Window);
    assert!(throttle.is_throttled(&host(), Lane::Api));
}

async fn a_window_frees_by_time_alone(ledger: &Ledger) {
    let short = Limits {
        window: Duration::from_millis(300),
        ..limits(10, 2)
    };
    let throttle = ledger.throttle(options(short)).await;
    let (_taken, _) = take_all(&throttle, Lane::Git).await;
    let refused = throttle.acquire(&host(), Lane::Git).await.unwrap_err();
    assert_eq!(refused.reason, Reason::Window);
    tokio::time::sleep_until(refused.retry_at).await;
    // The first two have left the window, or the refusal named the wrong time.
    assert!(!throttle.is_throttled(&host(), Lane::Git));
    assert!(throttle.acquire(&host(), Lane::Git).await.is_ok());
}

async fn a_dropped_permit_frees_its_slot_and_keeps_its_start(ledger: &Ledger) {
    let throttle = ledger.with_limits(1, 2).await;
    drop(throttle.acquire(&host(), Lane::Git).await.unwrap());
    drop(eventually(&throttle, Lane::Git).await);
    idle(&throttle).await;
    assert_eq!(reason(&throttle, Lane::Git).await, Reason::Window);
}

async fn an_unused_permit_gives_slot_and_start_back(ledger: &Ledger) {
    let throttle = ledger.with_limits(1, 1).await;
    for _ in 0..3 {
        eventually(&throttle, Lane::Git).await.unused();
    }
    let _permit = eventually(&throttle, Lane::Git).await;
    let status = status(&throttle);
    assert_eq!((status.started, status.requests_total), (1, 1));
}

async fn a_redirect_pays_for_its_start(ledger: &Ledger) {
    let throttle = ledger.with_limits(1, 3).await;
    let mut permit = throttle.acquire(&host(), Lane::Git).await.unwrap();
    permit.again().await.unwrap();
    permit.again().await.unwrap();
    let refused = permit.again().await.unwrap_err();
    assert_eq!(refused.reason, Reason::Window);
    assert_eq!(status(&throttle).in_flight, 1);
    assert_eq!(status(&throttle).started, 3);
    // Only the request that was not made is given back.
    permit.unused();
    let _permit = eventually(&throttle, Lane::Git).await;
    assert_eq!(status(&throttle).started, 3);
}

async fn each_lane_leaves_a_reserve_to_the_other(ledger: &Ledger) {
    let throttle = ledger.with_limits(5, 10).await;
    drop(throttle.acquire(&host(), Lane::Api).await.unwrap());
    idle(&throttle).await;
    let (git, reason) = take_all(&throttle, Lane::Git).await;
    assert_eq!((git.len(), reason), (4, Reason::InFlight));
    let api = throttle.acquire(&host(), Lane::Api).await.unwrap();
    drop((git, api));
    idle(&throttle).await;
    // Six of ten are used. Git may have eight in all less those of the other lane.
    for _ in 0..4 {
        eventually(&throttle, Lane::Git)
            .await
            .finish(Verdict::Success, None);
        idle(&throttle).await;
    }
    assert_eq!(
        crate::support::reason(&throttle, Lane::Git).await,
        Reason::Window
    );
}

async fn a_lane_alone_has_everything(ledger: &Ledger) {
    let throttle = ledger.with_limits(5, 5).await;
    let (taken, _) = take_all(&throttle, Lane::Api).await;
    assert_eq!(taken.len(), 5);
}

async fn advice_closes_a_host_and_the_longer_one_wins(ledger: &Ledger) {
    let throttle = ledger.with_limits(5, 30).await;
    let (mut taken, _) = take_all(&throttle, Lane::Git).await;
    let long = Advice::new(Duration::from_secs(600), Why::RateLimit);
    let short = Advice::new(Duration::from_secs(5), Why::RetryAfter);
    taken.pop().unwrap().finish(Verdict::Neutral, Some(long));
    taken.pop().unwrap().finish(Verdict::Neutral, Some(short));
    drop(taken);
    closes(&throttle, Reason::Advised).await;
    idle(&throttle).await;
    let closed = status(&throttle).closed.unwrap();
    assert_eq!(closed.why, ClosedReason::RateLimit);
    assert!(closed.for_ms > 500_000, "{closed:?}");
    assert!(throttle.is_throttled(&host(), Lane::Api));
}

async fn failures_open_the_breaker_and_probes_close_it(ledger: &Ledger) {
    let throttle = ledger.with_breaker().await;
    ask(&throttle, 4, Verdict::Failure).await;
    closes(&throttle, Reason::BreakerOpen).await;
    let open = status(&throttle);
    assert_eq!(open.breaker, BreakerState::Open);
    assert_eq!(open.closed.unwrap().why, ClosedReason::Breaker);
    assert_eq!(open.failures_total, 4);
    assert_eq!(throttle.failures(&host()), 4);

    let first = eventually(&throttle, Lane::Git).await;
    assert_eq!(status(&throttle).breaker, BreakerState::HalfOpen);
    let (rest, reason) = take_all(&throttle, Lane::Git).await;
    assert_eq!((rest.len(), reason), (2, Reason::InFlight));
    first.finish(Verdict::Success, None);
    for probe in rest {
        // The host answers: that is enough.
        probe.finish(Verdict::Neutral, None);
    }
    until_true("the host passes", || {
        status(&throttle).breaker == BreakerState::Closed
    })
    .await
    .unwrap();
    assert_eq!(take_all(&throttle, Lane::Git).await.0.len(), 10);
    assert_eq!(throttle.failures(&host()), 0);
}

async fn a_failing_probe_opens_the_breaker_again(ledger: &Ledger) {
    let throttle = ledger.with_breaker().await;
    ask(&throttle, 4, Verdict::Failure).await;
    let probe = eventually(&throttle, Lane::Git).await;
    probe.finish(Verdict::Failure, None);
    closes(&throttle, Reason::BreakerOpen).await;
}

async fn a_cancelled_probe_is_free_for_another(ledger: &Ledger) {
    let throttle = ledger.with_breaker().await;
    ask(&throttle, 4, Verdict::Failure).await;
    let first = eventually(&throttle, Lane::Git).await;
    let (rest, _) = take_all(&throttle, Lane::Git).await;
    drop((first, rest));
    idle(&throttle).await;
    assert_eq!(status(&throttle).breaker, BreakerState::HalfOpen);
    assert_eq!(take_all(&throttle, Lane::Git).await.0.len(), 3);
}

async fn few_or_neutral_outcomes_open_nothing(ledger: &Ledger) {
    let throttle = ledger.with_breaker().await;
    ask(&throttle, 3, Verdict::Failure).await;
    ask(&throttle, 5, Verdict::Neutral).await;
    assert_eq!(status(&throttle).breaker, BreakerState::Closed);
    // With four successes beside them four failures of eight would do; three of seven do not.
    ask(&throttle, 4, Verdict::Success).await;
    assert_eq!(status(&throttle).breaker, BreakerState::Closed);
    ask(&throttle, 1, Verdict::Failure).await;
    closes(&throttle, Reason::BreakerOpen).await;
}

async fn hosts_have_accounts_of_their_own(ledger: &Ledger) {
    let throttle = ledger.with_limits(2, 2).await;
    let (_taken, _) = take_all(&throttle, Lane::Git).await;
    let other = domain("other.example");
    assert!(throttle.acquire(&other, Lane::Git).await.is_ok());
    assert!(!throttle.is_throttled(&other, Lane::Git));
    let names: Vec<_> = throttle.hosts().into_iter().map(|h| h.domain).collect();
    assert_eq!(names, [host(), other]);
}

async fn names_that_ask_for_silence_keep_no_new_host_out(ledger: &Ledger) {
    let options = Options {
        max_domains: 16,
        ..options(limits(2, 30))
    };
    let throttle = ledger.throttle(options).await;
    let day = Advice::new(Duration::from_secs(86_400), Why::RetryAfter);
    let name = |n: usize| domain(&format!("silent-{n}.example"));
    for n in 0..64 {
        let permit = throttle.acquire(&name(n), Lane::Git).await.unwrap();
        permit.finish(Verdict::Neutral, Some(day));
    }
    ask(&throttle, 3, Verdict::Success).await;
    for n in [0, 30, 63] {
        assert!(throttle.is_throttled(&name(n), Lane::Git));
        let refused = throttle.acquire(&name(n), Lane::Git).await.unwrap_err();
        assert_eq!(refused.reason, Reason::Advised);
    }
}

async fn an_override_is_for_its_host_only(ledger: &Ledger) {
    let mut options = options(limits(2, 30));
    options.overrides.insert(host(), limits(4, 30));
    let throttle = ledger.throttle(options).await;
    assert_eq!(take_all(&throttle, Lane::Git).await.0.len(), 4);
    let other = domain("other.example");
    let mut held = Vec::new();
    while let Ok(permit) = throttle.acquire(&other, Lane::Git).await {
        held.push(permit);
    }
    assert_eq!(held.len(), 2);
}

async fn a_release_is_told_to_those_who_wait(ledger: &Ledger) {
    let throttle = ledger.with_limits(1, 30).await;
    let permit = throttle.acquire(&host(), Lane::Git).await.unwrap();
    let mut freed = throttle.freed();
    freed.mark_unchanged();
    drop(permit);
    grip_testkit::within("a notice", freed.changed())
        .await
        .unwrap()
        .unwrap();
    // A listener finds the slot free.
    let _permit = throttle.acquire(&host(), Lane::Git).await.unwrap();
}
