use std::sync::Arc;

use grip_dht::PeerName;
use grip_tasks::TaskGroup;
use proptest::prelude::*;
use tokio::task::yield_now;

use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn peer(n: u8) -> PeerName {
    PeerName::from_bytes(&[n; 38]).unwrap()
}

fn options() -> Options {
    Options::default()
}

#[test]
fn breaker_transitions_obey_thresholds() {
    let (mut breaker, now) = (Breaker::default(), Instant::now());
    for outcome in [Outcome::Good, Outcome::Bad, Outcome::Good] {
        assert_eq!(breaker.note(outcome, false, &options(), now), None);
    }
    // Two of four are no more than half.
    assert_eq!(breaker.note(Outcome::Bad, false, &options(), now), None);
    let until = now + options().cooldown;
    let change = breaker.note(Outcome::Bad, false, &options(), now);
    assert_eq!(change, Some(Change::Shut { until }));
}

#[test]
fn failures_out_of_the_window_do_not_count() {
    let (mut breaker, now) = (Breaker::default(), Instant::now());
    for _ in 0..3 {
        breaker.note(Outcome::Bad, false, &options(), now);
    }
    let later = now + options().window;
    assert_eq!(breaker.note(Outcome::Bad, false, &options(), later), None);
    assert!(!breaker.is_blank(options().window, later));
    assert!(breaker.is_blank(options().window, later + options().window));
}

#[test]
fn only_probes_of_this_shutting_decide() {
    let (mut breaker, now) = (Breaker::default(), Instant::now());
    for _ in 0..4 {
        breaker.note(Outcome::Bad, false, &options(), now);
    }
    assert!(breaker.is_shut);
    // Late answers to questions from before.
    assert_eq!(breaker.note(Outcome::Good, false, &options(), now), None);
    assert_eq!(breaker.note(Outcome::Bad, false, &options(), now), None);
    assert_eq!(breaker.note(Outcome::Good, true, &options(), now), None);
    let change = breaker.note(Outcome::Bad, true, &options(), now);
    assert!(matches!(change, Some(Change::Shut { .. })));
    assert_eq!(breaker.note(Outcome::Good, true, &options(), now), None);
    let change = breaker.note(Outcome::Good, true, &options(), now);
    assert_eq!(change, Some(Change::Passing));
}

async fn end(breakers: &Arc<Breakers>, peer: &PeerName, outcome: Outcome) {
    let pass = breakers.admit(peer, SECOND, Instant::now());
    pass.map_err(|_| "shut").unwrap().end(outcome);
    yield_now().await;
}

#[tokio::test(start_paused = true)]
async fn a_shut_peer_is_probed_after_the_cooldown_by_no_more_than_the_probes() {
    let group = TaskGroup::new("test");
    let breakers = Breakers::start(options(), &group);
    for _ in 0..4 {
        end(&breakers, &peer(1), Outcome::Bad).await;
    }
    let now = Instant::now();
    let until = breakers.admit(&peer(1), SECOND, now).err().unwrap();
    assert_eq!(until, now + options().cooldown);
    assert_eq!(breakers.states(now), [(peer(1), PeerState::Shut)]);
    assert!(breakers.admit(&peer(2), SECOND, now).is_ok());

    tokio::time::advance(options().cooldown).await;
    let now = Instant::now();
    assert_eq!(breakers.states(now), [(peer(1), PeerState::Probing)]);
    let one = breakers.admit(&peer(1), SECOND, now).ok().unwrap();
    let two = breakers.admit(&peer(1), SECOND, now).ok().unwrap();
    assert!(breakers.admit(&peer(1), SECOND, now).is_err());
    // A probe that was given up early is free for another.
    drop(two);
    let two = breakers.admit(&peer(1), SECOND, now).ok().unwrap();
    one.end(Outcome::Good);
    two.end(Outcome::Good);
    yield_now().await;
    assert!(breakers.states(now).is_empty());
    assert_eq!(group.shutdown(SECOND).await, grip_tasks::Ended::Drained);
}

#[tokio::test(start_paused = true)]
async fn a_question_given_up_late_speaks_against_the_peer() {
    let group = TaskGroup::new("test");
    let breakers = Breakers::start(options(), &group);
    for _ in 0..4 {
        let quick = breakers.admit(&peer(1), SECOND, Instant::now());
        let slow = breakers.admit(&peer(2), SECOND, Instant::now());
        drop(quick);
        tokio::time::advance(SECOND).await;
        drop(slow);
        yield_now().await;
    }
    let now = Instant::now();
    assert_eq!(breakers.states(now), [(peer(2), PeerState::Shut)]);
    let _ = group.shutdown(SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn a_probe_whose_outcome_is_dropped_is_made_again() {
    let group = TaskGroup::new("test");
    let breakers = Breakers::start(options(), &group);
    for _ in 0..4 {
        end(&breakers, &peer(1), Outcome::Bad).await;
    }
    tokio::time::advance(options().cooldown).await;
    let now = Instant::now();
    let probes = [(); 2].map(|()| breakers.admit(&peer(1), SECOND, now).ok().unwrap());
    // The writer does not get to write, and all its places are taken.
    while breakers.dropped() == 0 {
        let pass = breakers.admit(&peer(2), SECOND, now).ok().unwrap();
        pass.end(Outcome::Good);
    }
    probes
        .into_iter()
        .for_each(|probe| probe.end(Outcome::Good));
    assert_eq!(breakers.dropped(), 3);
    tokio::time::sleep(SECOND).await;
    assert_eq!(breakers.states(now), [(peer(1), PeerState::Probing)]);
    for _ in 0..2 {
        end(&breakers, &peer(1), Outcome::Good).await;
    }
    assert!(breakers.states(now).is_empty());
    let _ = group.shutdown(SECOND).await;
}

#[tokio::test(start_paused = true)]
async fn what_says_nothing_of_a_peer_takes_no_place_from_what_does() {
    let group = TaskGroup::new("test");
    let breakers = Breakers::start(options(), &group);
    for _ in 0..2_000 {
        let pass = breakers.admit(&peer(1), SECOND, Instant::now());
        pass.ok().unwrap().end(Outcome::Neither);
    }
    assert_eq!(breakers.dropped(), 0);
    let _ = group.shutdown(SECOND).await;
}

proptest! {
    #[test]
    fn a_breaker_shuts_only_over_the_threshold(
        steps in prop::collection::vec((0..9_000_u64, any::<bool>()), 1..200),
    ) {
        let options = options();
        let mut breaker = Breaker::default();
        let mut now = Instant::now();
        let mut seen: Vec<(Instant, bool)> = Vec::new();
        for (ms, failed) in steps {
            now += Duration::from_millis(ms);
            seen.push((now, failed));
            let outcome = if failed { Outcome::Bad } else { Outcome::Good };
            let change = breaker.note(outcome, false, &options, now);
            let recent = seen.iter().rev().take(MAX_ANSWERS).filter(|(at, _)| now - *at < options.window);
            let recent: Vec<bool> = recent.map(|(_, failed)| *failed).collect();
            let failures = recent.iter().filter(|failed| **failed).count();
            let should = failed && recent.len() >= 4 && failures * 2 > recent.len();
            prop_assert_eq!(change.is_some(), should);
            if change.is_some() {
                break;
            }
        }
    }
}
