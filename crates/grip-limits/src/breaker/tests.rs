use grip_testkit::assert_matches;
use proptest::prelude::*;

use super::*;

const OPTIONS: BreakerOptions = BreakerOptions::DEFAULT;

/// A breaker with a clock that only the test moves.
struct Bench {
    breaker: Breaker,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        Self {
            breaker: Breaker::default(),
            now: Instant::now(),
        }
    }

    /// One that has just opened.
    fn opened() -> Self {
        let mut bench = Self::new();
        for _ in 0..4 {
            bench.request(Verdict::Failure);
        }
        assert_eq!(bench.state(), BreakerState::Open);
        bench
    }

    /// One that has just cooled down.
    fn cooled() -> Self {
        let mut bench = Self::opened();
        bench.pass(OPTIONS.cooldown);
        bench
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    fn start(&mut self) -> Result<Option<u64>, Blocked> {
        self.breaker.check(&OPTIONS, self.now)?;
        Ok(self.breaker.start())
    }

    fn end(&mut self, probe: Option<u64>, verdict: Option<Verdict>) {
        self.breaker.end(probe, verdict, &OPTIONS, self.now);
    }

    fn request(&mut self, verdict: Verdict) {
        let probe = self.start().unwrap();
        self.end(probe, Some(verdict));
    }

    fn state(&mut self) -> BreakerState {
        self.breaker.state(self.now)
    }
}

#[test]
fn neutral_and_cancelled_requests_say_nothing_while_it_is_closed() {
    let mut bench = Bench::new();
    for _ in 0..3 {
        bench.request(Verdict::Failure);
    }
    bench.request(Verdict::Neutral);
    let probe = bench.start().unwrap();
    bench.end(probe, None);
    assert_eq!(bench.state(), BreakerState::Closed);
    assert!(probe.is_none());
}

#[test]
fn nothing_passes_while_it_is_open() {
    let mut bench = Bench::opened();
    let until = bench.now + OPTIONS.cooldown;
    for _ in 0..10 {
        assert_eq!(bench.start().unwrap_err(), Blocked::OpenUntil(until));
        bench.pass(Duration::from_millis(999));
    }
    bench.now = until;
    assert!(bench.start().unwrap().is_some());
}

#[test]
fn no_more_than_three_probes_are_under_way_at_once() {
    let mut bench = Bench::cooled();
    let probes: Vec<_> = (0..3).map(|_| bench.start().unwrap()).collect();
    assert!(probes.iter().all(Option::is_some));
    assert_eq!(bench.start().unwrap_err(), Blocked::Probing);
    bench.end(probes[0], Some(Verdict::Success));
    assert!(bench.start().unwrap().is_some());
    assert_eq!(bench.start().unwrap_err(), Blocked::Probing);
}

#[test]
fn as_many_good_probes_as_may_run_at_once_close_it() {
    let mut bench = Bench::cooled();
    bench.request(Verdict::Success);
    bench.request(Verdict::Neutral);
    assert_eq!(bench.state(), BreakerState::HalfOpen);
    bench.request(Verdict::Success);
    assert_eq!(bench.state(), BreakerState::Closed);
    // The failures of before are forgotten: one more is not half of anything.
    bench.request(Verdict::Failure);
    assert_eq!(bench.state(), BreakerState::Closed);
    assert_eq!(bench.breaker.failures(&OPTIONS, bench.now), 1);
}

#[test]
fn a_failed_probe_opens_it_again_for_a_whole_cooldown() {
    let mut bench = Bench::cooled();
    bench.request(Verdict::Success);
    bench.request(Verdict::Failure);
    assert_eq!(bench.state(), BreakerState::Open);
    bench.pass(OPTIONS.cooldown - Duration::from_millis(1));
    assert_matches!(bench.start(), Err(Blocked::OpenUntil(_)));
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.state(), BreakerState::HalfOpen);
}

#[test]
fn outcomes_of_requests_from_before_move_nothing() {
    let mut bench = Bench::new();
    let before: Vec<_> = (0..6).map(|_| bench.start().unwrap()).collect();
    for probe in &before[..4] {
        bench.end(*probe, Some(Verdict::Failure));
    }
    assert_eq!(bench.state(), BreakerState::Open);
    bench.pass(OPTIONS.cooldown);
    bench.end(before[4], Some(Verdict::Failure));
    assert_eq!(bench.state(), BreakerState::HalfOpen);
    bench.end(before[5], Some(Verdict::Success));
    bench.request(Verdict::Success);
    bench.request(Verdict::Success);
    assert_eq!(bench.state(), BreakerState::HalfOpen);
}

#[test]
fn slow_probes_of_an_earlier_round_still_count() {
    let mut bench = Bench::cooled();
    let slow = [bench.start().unwrap(), bench.start().unwrap()];
    bench.request(Verdict::Failure);
    bench.pass(OPTIONS.cooldown);
    let fresh = bench.start().unwrap();
    assert_eq!(bench.start().unwrap_err(), Blocked::Probing);
    // What they bring is old news.
    bench.end(slow[0], Some(Verdict::Failure));
    assert_eq!(bench.state(), BreakerState::HalfOpen);
    assert_ne!(slow[1], fresh);
}

#[test]
fn a_redirect_of_a_probe_is_the_same_probe() {
    let mut bench = Bench::cooled();
    let mut probe = bench.start().unwrap();
    for _ in 0..2 {
        bench
            .breaker
            .check_next(probe, &OPTIONS, bench.now)
            .unwrap();
        probe = bench.breaker.start_next(probe);
    }
    let others: Vec<_> = (0..2).map(|_| bench.start().unwrap()).collect();
    assert_eq!(bench.breaker.probes, 3);
    bench.end(probe, Some(Verdict::Success));
    for other in others {
        bench.end(other, Some(Verdict::Success));
    }
    assert_eq!(bench.state(), BreakerState::Closed);
    assert_eq!(bench.breaker.probes, 0);
}

#[test]
fn a_redirect_of_a_request_from_before_becomes_a_probe_or_waits() {
    let mut bench = Bench::new();
    let mut old = bench.start().unwrap();
    for _ in 0..4 {
        bench.request(Verdict::Failure);
    }
    let until = bench.now + OPTIONS.cooldown;
    let blocked = bench.breaker.check_next(old, &OPTIONS, bench.now);
    assert_eq!(blocked.unwrap_err(), Blocked::OpenUntil(until));
    bench.pass(OPTIONS.cooldown);
    let probes: Vec<_> = (0..3).map(|_| bench.start().unwrap()).collect();
    let blocked = bench.breaker.check_next(old, &OPTIONS, bench.now);
    assert_eq!(blocked.unwrap_err(), Blocked::Probing);
    bench.end(probes[0], None);
    bench.breaker.check_next(old, &OPTIONS, bench.now).unwrap();
    old = bench.breaker.start_next(old);
    assert_eq!(old, probes[1]);
    assert_eq!(bench.start().unwrap_err(), Blocked::Probing);
}

proptest! {
    #[test]
    fn a_breaker_opens_only_over_the_threshold(
        steps in prop::collection::vec((0..6_000_u64, prop::bool::weighted(0.3)), 1..200),
        tolerates_threshold in any::<bool>(),
    ) {
        let options = BreakerOptions { tolerates_threshold, max_outcomes: 8, ..OPTIONS };
        let mut breaker = Breaker::default();
        let mut now = Instant::now();
        let mut seen: Vec<(Instant, bool)> = Vec::new();
        for (ms, failed) in steps {
            now += Duration::from_millis(ms);
            seen.push((now, failed));
            let verdict = if failed { Verdict::Failure } else { Verdict::Success };
            breaker.end(None, Some(verdict), &options, now);
            let recent = seen.iter().rev().take(8).filter(|(at, _)| now - *at < options.window);
            let recent: Vec<bool> = recent.map(|(_, failed)| *failed).collect();
            let failures = recent.iter().filter(|failed| **failed).count();
            let over = failures * 2 + usize::from(!tolerates_threshold) > recent.len();
            let should_open = failed && recent.len() >= 4 && over;
            prop_assert_eq!(breaker.open_until().is_some(), should_open);
            prop_assert_eq!(breaker.outcomes.len(), recent.len());
            prop_assert_eq!(breaker.failures(&options, now) as usize, failures);
            if should_open {
                break;
            }
        }
    }
}
