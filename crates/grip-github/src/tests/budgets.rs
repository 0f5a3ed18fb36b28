//! Budgets are never exceeded.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use grip_testkit::{
    assert_matches,
    github::{Behaviour, Counts, Limits},
    until, until_true,
};
use tokio::task::JoinSet;

use super::support::{Backend, Pair, With, on_both_backends, repo, seconds_until};
use crate::{GitHub, GitHubError};

fn limited(on: Backend, per_token: u32) -> With {
    With {
        on,
        limits: Limits {
            per_token,
            latency: Duration::from_millis(3),
            ..Limits::default()
        },
        ..With::default()
    }
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Tally {
    fine: usize,
    exhausted: usize,
    throttled: usize,
    other: usize,
}

/// So many calls at once.
async fn storm(github: &GitHub, calls: usize) -> Tally {
    let mut set = JoinSet::new();
    for _ in 0..calls {
        let github = github.clone();
        set.spawn(async move { github.repository(&repo("acme/one")).await });
    }
    let mut tally = Tally::default();
    while let Some(done) = set.join_next().await {
        match done.unwrap() {
            Ok(_) => tally.fine += 1,
            Err(GitHubError::Exhausted { .. }) => tally.exhausted += 1,
            Err(GitHubError::Throttled { .. }) => tally.throttled += 1,
            Err(_) => tally.other += 1,
        }
    }
    tally
}

/// Storms until nothing is left.
async fn spend(pair: &Pair) -> usize {
    let mut fine = 0;
    loop {
        let tally = storm(&pair.github, 25).await;
        assert_eq!(tally.other, 0, "{tally:?}");
        fine += tally.fine;
        if tally.exhausted == 25 {
            return fine;
        }
    }
}

on_both_backends! {
    async fn calls_at_once_never_exceed_the_budget_and_leave_the_reserve(on: Backend) {
        let pair = limited(on, 100).start_with_repository().await;
        assert_eq!(spend(&pair).await, 90);
        assert_eq!(pair.host.counts(), Counts::default());
        assert_eq!((pair.host.count(), pair.host.remaining(Some(0))), (90, 10));
        assert!(pair.host.max_in_flight() > 5, "they were at once");
        let budget = &pair.github.budget()[0];
        assert_eq!((budget.limit, budget.remaining), (Some(100), Some(10)));
        assert_eq!(
            (budget.token, budget.in_flight, budget.resource),
            (Some(0), 0, "core")
        );
    }

    async fn without_a_reserve_the_last_call_is_used_and_none_more(on: Backend) {
        let mut with = limited(on, 40);
        with.options.reserve = 0;
        let pair = with.start_with_repository().await;
        assert_eq!(spend(&pair).await, 40);
        assert_eq!(pair.host.counts(), Counts::default());
    }

    async fn failures_count_as_calls_and_never_lead_over_the_budget(on: Backend) {
        let mut with = limited(on, 60);
        with.options.reserve = 0;
        with.limits.fail_every = Some(3);
        let pair = with.start_with_repository().await;
        let mut calls = 0;
        while calls < 500 && !matches!(pair.ask().await, Err(GitHubError::Exhausted { .. })) {
            calls += 1;
        }
        assert!((57..=60).contains(&calls), "{calls}");
        assert_eq!(pair.host.counts(), Counts::default());
    }

    async fn every_token_is_used_up_to_its_own_budget(on: Backend) {
        let mut with = With::tokens_on(on, &["s3cret-a", "s3cret-b", "s3cret-c"]);
        with.limits = limited(on, 50).limits;
        let pair = with.start_with_repository().await;
        assert_eq!(spend(&pair).await, 3 * 45);
        assert_eq!(pair.host.counts(), Counts::default());
        for token in 0..3 {
            assert_eq!(pair.host.remaining(Some(token)), 5);
        }
    }

    async fn the_token_with_most_left_is_taken(on: Backend) {
        let pair = With::tokens_on(on, &["s3cret-a", "s3cret-b"]).start_with_repository().await;
        pair.host.use_up(Some(0), 1_000);
        for _ in 0..6 {
            pair.ask().await.unwrap();
        }
        let tokens: Vec<_> = pair.host.requests().iter().map(|seen| seen.token).collect();
        assert_eq!(
            tokens[..2],
            [Some(0), Some(1)],
            "each is asked once to learn"
        );
        assert!(
            tokens[2..].iter().all(|token| *token == Some(1)),
            "{tokens:?}"
        );
    }

    async fn a_spent_token_stops_neither_the_others_nor_the_host(on: Backend) {
        let pair = With::tokens_on(on, &["s3cret-a", "s3cret-b"]).start_with_repository().await;
        pair.host.set_limits(|limits| limits.per_token = 20);
        pair.host.use_up(Some(0), 20);
        pair.ask().await.unwrap();
        let seen: Vec<_> = pair
            .host
            .requests()
            .iter()
            .map(|s| (s.token, s.status))
            .collect();
        assert_eq!(
            seen,
            [(Some(0), 403), (Some(1), 200)],
            "the call went on with the other"
        );
        for _ in 0..17 {
            pair.ask().await.unwrap();
        }
        assert_matches!(pair.ask().await, Err(GitHubError::Exhausted { .. }));
        assert_eq!(
            pair.host.counts().over_budget,
            1,
            "only the one nobody could know of"
        );
    }

    async fn a_last_call_with_nothing_left_after_it_closes_nothing_else(on: Backend) {
        let mut with = With::tokens_on(on, &["s3cret-a", "s3cret-b"]);
        with.limits.per_token = 1;
        let pair = with.start_with_repository().await;
        pair.ask().await.unwrap();
        pair.ask().await.unwrap();
        assert_matches!(pair.ask().await, Err(GitHubError::Exhausted { .. }));
        assert_eq!(pair.host.counts(), Counts::default());
    }

    async fn a_spent_budget_is_known_before_the_call_and_until_when(on: Backend) {
        let pair = limited(on, 10).start_with_repository().await;
        assert_eq!(spend(&pair).await, 9);
        let calls = pair.host.count();
        let Err(GitHubError::Exhausted { until }) = pair.ask().await else {
            panic!("nothing is left");
        };
        let wait = seconds_until(until);
        assert!((3_590..=3_606).contains(&wait), "{wait}");
        assert_eq!(pair.host.count(), calls);
    }

    async fn calls_go_on_in_the_next_window(on: Backend) {
        let pair = With::short_windows(on, 3).start_with_repository().await;
        let fine = AtomicUsize::new(0);
        until("three windows are used up", async || {
            if pair.ask().await.is_ok() {
                fine.fetch_add(1, Ordering::SeqCst);
            }
            (fine.load(Ordering::SeqCst) == 9).then_some(())
        })
        .await
        .unwrap();
        assert_eq!(pair.host.counts(), Counts::default());
    }

    async fn a_host_without_limits_is_asked_without_counting(on: Backend) {
        let mut with = limited(on, 1);
        with.limits.unmetered = true;
        let pair = with.start_with_repository().await;
        pair.ask().await.unwrap();
        assert_eq!(storm(&pair.github, 40).await.fine, 40);
        assert_eq!(pair.github.budget()[0].limit, None);
    }

    async fn calls_without_a_token_have_a_budget_too(on: Backend) {
        let pair = With::tokens_on(on, &[]).start_with_repository().await;
        assert_eq!(spend(&pair).await, 54);
        assert_eq!(pair.host.counts(), Counts::default());
        assert!(pair.host.requests().iter().all(|seen| seen.token.is_none()));
        assert_eq!(pair.github.budget()[0].token, None);
    }

    async fn while_nothing_is_known_one_call_at_a_time_is_made(on: Backend) {
        let pair = Arc::new(limited(on, 1_000).start().await);
        pair.host.add("acme/one");
        let gate = pair.host.hold("/repos/acme/one");
        let tally = {
            let asking = Arc::clone(&pair);
            let first = async move { asking.ask().await };
            let others = async {
                let held = async || (pair.host.in_flight() == 1).then_some(());
                until("the first call is under way", held).await.unwrap();
                let tally = storm(&pair.github, 10).await;
                gate.open();
                tally
            };
            let (first, tally) = tokio::join!(first, others);
            first.unwrap();
            tally
        };
        assert_eq!((tally.throttled, pair.host.count()), (10, 1));
        assert_eq!(storm(&pair.github, 10).await.fine, 10);
    }

    async fn a_call_that_is_given_up_gives_its_place_back_and_counts(on: Backend) {
        let pair = limited(on, 1_000).start_with_repository().await;
        pair.ask().await.unwrap();
        pair.host.behave("/repos/acme/one", Behaviour::Hang);
        let known = pair.github.budget()[0].remaining.unwrap();
        {
            let held = until_true("it is under way", || pair.host.in_flight() == 1);
            tokio::select! {
                answer = pair.ask() => panic!("{answer:?}"),
                held = held => held.unwrap(),
            }
        }
        let budget = &pair.github.budget()[0];
        assert_eq!((budget.in_flight, budget.remaining), (0, Some(known - 1)));
        pair.host.behave("/repos/acme/one", Behaviour::Serve);
        pair.ask().await.unwrap();
        assert_eq!(pair.github.budget()[0].remaining, Some(known - 2));
    }

    async fn a_call_that_the_throttle_refuses_costs_nothing(on: Backend) {
        let pair = limited(on, 1_000).start_with_repository().await;
        pair.ask().await.unwrap();
        let before = pair.github.budget();
        pair.host
            .behave("/repos/acme/two", Behaviour::retry_after(503, 60));
        assert!(pair.github.repository(&repo("acme/two")).await.is_err());
        assert_matches!(pair.ask().await, Err(GitHubError::Throttled { .. }));
        let after = pair.github.budget();
        assert_eq!(after[0].remaining, before[0].remaining.map(|left| left - 1));
        assert_eq!(after[0].in_flight, 0);
    }

    async fn a_restart_begins_within_the_reserve(on: Backend) {
        let pair = limited(on, 100).start_with_repository().await;
        spend(&pair).await;
        for _ in 0..5 {
            let github = pair.another().await;
            storm(&github, 10).await;
            assert!(github.repository(&repo("acme/one")).await.is_err());
        }
        assert_eq!(pair.host.counts(), Counts::default());
    }
}

#[tokio::test]
async fn bursts_stay_below_the_secondary_limit_by_the_throttles_bounds() {
    let with = With {
        in_flight: 4,
        ..limited(Backend::Memory, 5_000)
    };
    let pair = with.start_with_repository().await;
    pair.host.set_limits(|limits| limits.concurrent = Some(4));
    for _ in 0..5 {
        let tally = storm(&pair.github, 20).await;
        assert!(tally.fine > 0 && tally.other == 0, "{tally:?}");
    }
    assert_eq!(pair.host.counts(), Counts::default());
}
