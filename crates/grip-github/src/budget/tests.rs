use std::{collections::VecDeque, time::Duration};

use grip_testkit::assert_matches;
use proptest::prelude::*;

use super::{
    window::{Available, CallNumber, State, Window},
    *,
};
use crate::quota::Quota;

const MARGIN: Duration = Duration::from_secs(5);

fn rules(reserve: u32) -> Rules {
    Rules {
        reserve,
        margin: MARGIN,
        set_aside: Duration::from_secs(3_600),
        share: None,
    }
}

fn quota(limit: u32, remaining: u32, reset: u64, reset_in: u64) -> Outcome {
    Outcome::Quota(Quota {
        limit,
        remaining,
        reset,
        reset_in: Duration::from_secs(reset_in),
        resource: None,
    })
}

fn known(limit: u32, remaining: u32, now: Instant) -> Window {
    let mut window = Window::default();
    let ticket = window.take();
    window.settle(ticket, quota(limit, remaining, 1_000, 60), now);
    window
}

fn left(window: &Window) -> Option<u32> {
    match window.state {
        State::Known(known) => Some(known.remaining),
        State::Unknown | State::Unmetered => None,
    }
}

#[test]
fn the_reserve_is_never_more_than_a_tenth() {
    let now = Instant::now();
    for (limit, spare) in [(5_000, 4_950), (500, 450), (100, 90), (60, 54), (9, 9)] {
        let room = known(limit, limit, now).available(&rules(50), now);
        assert_eq!(room, Available::Calls(spare), "{limit}");
    }
}

#[test]
fn a_spent_budget_is_used_again_after_its_window_and_a_margin() {
    let now = Instant::now();
    let mut window = known(100, 10, now);
    let end = now + Duration::from_secs(65);
    assert_eq!(
        window.available(&rules(50), now),
        Available::SpentUntil(end)
    );
    window.roll(&rules(0), end - Duration::from_millis(1));
    assert_eq!(left(&window), Some(10));
    window.roll(&rules(0), end);
    assert_eq!(window.available(&rules(50), end), Available::Calls(90));
}

#[test]
fn the_wait_for_a_spent_budget_is_at_least_a_second() {
    let now = Instant::now();
    let mut window = Window::default();
    let ticket = window.take();
    window.settle(ticket, quota(100, 0, 1_000, 0), now);
    let soon = now + Duration::from_secs(1);
    let rules = Rules {
        margin: Duration::ZERO,
        ..rules(0)
    };
    let room = window.available(&rules, now - Duration::from_millis(1));
    assert_eq!(room, Available::SpentUntil(soon - Duration::from_millis(1)));
}

#[test]
fn answers_out_of_order_never_raise_what_is_left() {
    let now = Instant::now();
    let mut window = known(100, 99, now);
    let tickets = [window.take(), window.take(), window.take()];
    window.settle(tickets[2], quota(100, 96, 1_000, 60), now);
    window.settle(tickets[0], quota(100, 98, 1_001, 60), now);
    assert_eq!((left(&window), window.in_flight), (Some(96), 1));
    window.settle(tickets[1], quota(100, 97, 1_000, 60), now);
    assert_eq!((left(&window), window.in_flight), (Some(96), 0));
}

#[test]
fn a_late_answer_of_an_old_window_changes_nothing_and_a_new_window_all() {
    let now = Instant::now();
    let mut window = known(100, 3, now);
    let (old, new) = (window.take(), window.take());
    window.settle(new, quota(100, 99, 4_600, 3_600), now);
    assert_eq!(left(&window), Some(99));
    window.settle(old, quota(100, 2, 1_000, 0), now);
    assert_eq!(left(&window), Some(99));
}

#[test]
fn what_nobody_answered_counts_as_spent_and_cannot_block_for_ever() {
    let now = Instant::now();
    let mut window = known(100, 100, now);
    let later = now + Duration::from_secs(100);
    window.roll(&rules(0), later);
    for _ in 0..100 {
        let ticket = window.take();
        window.settle(ticket, Outcome::Lost, later);
    }
    assert_eq!(
        window.available(&rules(0), later),
        Available::Calls(u64::MAX),
        "one, to learn"
    );
    window.take();
    assert_eq!(window.available(&rules(0), later), Available::Busy);
}

#[test]
fn a_call_that_nobody_answered_is_counted_until_a_later_answer_counts_it() {
    let now = Instant::now();
    let mut window = known(100, 90, now);
    let (early, lost) = (window.take(), window.take());
    window.settle(lost, Outcome::Lost, now);
    assert_eq!(window.available(&rules(0), now), Available::Calls(88));
    window.settle(early, quota(100, 89, 1_000, 60), now);
    assert_eq!(
        window.available(&rules(0), now),
        Available::Calls(88),
        "it began before"
    );
    let late = window.take();
    window.settle(late, quota(100, 87, 1_000, 60), now);
    assert_eq!(window.available(&rules(0), now), Available::Calls(87));
}

#[test]
fn ever_so_many_lost_calls_are_counted_in_bounded_space() {
    let now = Instant::now();
    let mut window = known(1_000, 1_000, now);
    let stuck = window.take();
    for _ in 0..500 {
        let ticket = window.take();
        window.settle(ticket, Outcome::Lost, now);
    }
    window.settle(stuck, quota(1_000, 999, 1_000, 60), now);
    assert_eq!(window.available(&rules(0), now), Available::Calls(499));
    let ticket = window.take();
    window.settle(ticket, quota(1_000, 498, 1_000, 60), now);
    assert_eq!(window.available(&rules(0), now), Available::Calls(498));
}

#[test]
fn little_is_told_once_a_window() {
    let now = Instant::now();
    let mut window = known(100, 50, now);
    let mut tell = |remaining, reset| {
        let ticket = window.take();
        let told = quota(100, remaining, reset, 60);
        window.settle(ticket, told, now).is_some()
    };
    assert!(!tell(10, 1_000));
    assert!(tell(9, 1_000));
    assert!(!tell(8, 1_000));
    assert!(!tell(99, 5_000));
    assert!(tell(1, 5_000));
}

fn budgets(tokens: usize) -> Budgets {
    let base = Url::parse("https://api.example/").unwrap();
    let tokens: Vec<_> = (0..tokens)
        .map(|n| Token::new(&format!("t{n}")).unwrap())
        .collect();
    let budgets = TokenBudgets::new(rules(0), &base, &tokens.iter().collect::<Vec<_>>());
    let ledger = ledger::open(budgets, None);
    Budgets { ledger }
}

async fn take(budgets: &Budgets, count: usize) -> Vec<CallPermit> {
    let mut calls = Vec::new();
    for _ in 0..count {
        calls.push(budgets.take(Resource::Core).await.unwrap());
    }
    calls
}

#[tokio::test(start_paused = true)]
async fn kinds_of_calls_have_budgets_of_their_own() {
    let budgets = budgets(1);
    let call = budgets.take(Resource::Search).await.unwrap();
    call.settle(quota(10, 0, 1_000, 60));
    assert_matches!(budgets.take(Resource::Search).await, Err(Denied::Spent(_)));
    assert!(budgets.take(Resource::Core).await.is_ok());
    // An answer that was paid from another budget than was thought.
    let call = budgets.take(Resource::Core).await.unwrap();
    let Outcome::Quota(told) = quota(10, 7, 9_000, 60) else {
        unreachable!()
    };
    call.settle(Outcome::Quota(Quota {
        resource: Some(Resource::CodeSearch),
        ..told
    }));
    let list = budgets.list();
    let found: Vec<_> = list
        .iter()
        .map(|b| (b.resource, b.remaining, b.in_flight))
        .collect();
    let expected = [
        ("core", None, 0),
        ("search", Some(0), 0),
        ("code_search", Some(7), 0),
    ];
    assert_eq!(found, expected);
}

#[tokio::test(start_paused = true)]
async fn a_token_on_trial_is_tried_by_one_call_and_only_after_the_others() {
    let budgets = budgets(2);
    let refused = budgets.take(Resource::Core).await.unwrap();
    budgets.refuse(refused).await;
    let second = budgets.take(Resource::Core).await.unwrap();
    assert_eq!(second.grant().account, 1);
    second.settle(quota(100, 50, 1_000, 86_000));
    tokio::time::advance(Duration::from_secs(3_600)).await;
    let held = take(&budgets, 51).await;
    let accounts: Vec<_> = held.iter().map(|call| call.grant().account).collect();
    assert_eq!(accounts.iter().filter(|account| **account == 0).count(), 1);
    assert_matches!(budgets.take(Resource::Core).await, Err(Denied::Busy(_)));
    drop(held);
    tokio::time::advance(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn waiting_for_a_call_under_way_comes_before_waiting_for_a_window() {
    let budgets = budgets(3);
    let mut calls = take(&budgets, 3).await.into_iter();
    calls.next().unwrap().settle(quota(100, 0, 1_000, 500));
    calls.next().unwrap().settle(quota(100, 0, 1_000, 300));
    assert_matches!(budgets.take(Resource::Core).await, Err(Denied::Busy(_)));
    budgets.refuse(calls.next().unwrap()).await;
    let Err(Denied::Spent(until)) = budgets.take(Resource::Core).await else {
        panic!("two are spent");
    };
    assert_eq!(until - Instant::now(), Duration::from_secs(305));
}

/// A host that counts, with calls under way in both directions.
#[derive(Default)]
struct Host {
    used: u32,
    window: u64,
    to_host: VecDeque<CallNumber>,
    to_us: Vec<(CallNumber, Outcome)>,
}

proptest! {
    /// Whatever is lost, late or overtaken: the host never sees a call beyond its limit.
    #[test]
    fn a_budget_is_never_exceeded(
        limit in 1_u32..12,
        steps in proptest::collection::vec((0_u8..6, 0_usize..8), 1..400),
    ) {
        let mut now = Instant::now();
        let mut host = Host::default();
        let mut window = Window::default();
        let length = 60;
        let mut began: Option<Instant> = None;
        for (step, pick) in steps {
            match step {
                0 | 1 => {
                    window.roll(&rules(0), now);
                    if let Available::Calls(_) = window.available(&rules(0), now) {
                        let ticket = window.take();
                        host.to_host.push_back(ticket);
                    }
                }
                2 if !host.to_host.is_empty() => {
                    let place = pick % host.to_host.len();
                    let ticket = host.to_host.remove(place).unwrap();
                    if began.is_none_or(|at| now >= at + Duration::from_secs(length)) {
                        began = Some(now);
                        host.used = 0;
                        host.window += length;
                    }
                    host.used += 1;
                    prop_assert!(host.used <= limit, "call {} of {limit}", host.used);
                    let ends = began.unwrap_or(now) + Duration::from_secs(length);
                    let reset_in = (ends - now).as_secs();
                    let told = quota(limit, limit - host.used, host.window, reset_in);
                    host.to_us.push((ticket, told));
                }
                3 | 4 if !host.to_us.is_empty() => {
                    let (ticket, told) = host.to_us.swap_remove(pick % host.to_us.len());
                    // Every so often an answer is lost on its way; not where nothing else is
                    // known of the budget, which one call after the other has to find out.
                    let is_seen = matches!(window.state, State::Known(k) if k.ends.is_some());
                    let told = if pick == 7 && is_seen { Outcome::Lost } else { told };
                    window.settle(ticket, told, now);
                }
                5 => now += Duration::from_secs(pick as u64 * 3),
                _ => {}
            }
        }
    }
}
