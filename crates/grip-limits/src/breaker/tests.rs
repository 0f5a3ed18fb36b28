use super::*;

const OPTIONS: BreakerOptions = BreakerOptions {
    window: Duration::from_secs(30),
    trip_percent: 50,
    min_requests: 4,
    cooldown: Duration::from_secs(10),
    probes: 3,
};

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

    /// One that has just shut.
    fn shut() -> Self {
        let mut bench = Self::new();
        for _ in 0..4 {
            bench.request(Verdict::Failure);
        }
        assert_eq!(bench.state(), BreakerState::Shut);
        bench
    }

    /// One that has just cooled down.
    fn cooled() -> Self {
        let mut bench = Self::shut();
        bench.pass(OPTIONS.cooldown);
        bench
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    fn start(&mut self) -> Result<Option<u64>, Hold> {
        self.breaker.look(&OPTIONS, self.now)?;
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
fn half_of_the_answers_failing_shuts_it() {
    let mut bench = Bench::new();
    for verdict in [Verdict::Success, Verdict::Success, Verdict::Failure] {
        bench.request(verdict);
    }
    assert_eq!(bench.state(), BreakerState::Passing);
    bench.request(Verdict::Failure);
    assert_eq!(bench.state(), BreakerState::Shut);
}

#[test]
fn a_few_answers_are_too_few_to_judge() {
    let mut bench = Bench::new();
    for _ in 0..3 {
        bench.request(Verdict::Failure);
    }
    assert_eq!(bench.state(), BreakerState::Passing);
    assert_eq!(bench.breaker.failures(&OPTIONS, bench.now), 3);
}

#[test]
fn failures_below_the_threshold_leave_it_passing() {
    let mut bench = Bench::new();
    for _ in 0..20 {
        bench.request(Verdict::Success);
        bench.request(Verdict::Success);
        bench.request(Verdict::Failure);
    }
    assert_eq!(bench.state(), BreakerState::Passing);
}

#[test]
fn answers_older_than_the_window_do_not_count() {
    let mut bench = Bench::new();
    for _ in 0..3 {
        bench.request(Verdict::Failure);
    }
    bench.pass(OPTIONS.window);
    assert_eq!(bench.breaker.failures(&OPTIONS, bench.now), 0);
    for _ in 0..3 {
        bench.request(Verdict::Failure);
    }
    assert_eq!(bench.state(), BreakerState::Passing);
}

#[test]
fn neutral_and_cancelled_requests_say_nothing_while_it_passes() {
    let mut bench = Bench::new();
    for _ in 0..3 {
        bench.request(Verdict::Failure);
    }
    bench.request(Verdict::Neutral);
    let probe = bench.start().unwrap();
    bench.end(probe, None);
    assert_eq!(bench.state(), BreakerState::Passing);
    assert!(probe.is_none());
}

#[test]
fn nothing_passes_while_it_is_shut() {
    let mut bench = Bench::shut();
    let until = bench.now + OPTIONS.cooldown;
    for _ in 0..10 {
        let hold = bench.start().unwrap_err();
        assert_eq!((hold.reason, hold.retry_at), (Reason::Shut, until));
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
    assert_eq!(bench.start().unwrap_err().reason, Reason::InFlight);
    bench.end(probes[0], Some(Verdict::Success));
    assert!(bench.start().unwrap().is_some());
    assert_eq!(bench.start().unwrap_err().reason, Reason::InFlight);
}

#[test]
fn as_many_good_probes_as_may_run_at_once_close_the_case() {
    let mut bench = Bench::cooled();
    bench.request(Verdict::Success);
    bench.request(Verdict::Neutral);
    assert_eq!(bench.state(), BreakerState::Probing);
    bench.request(Verdict::Success);
    assert_eq!(bench.state(), BreakerState::Passing);
    // The failures of before are forgotten: one more is not half of anything.
    bench.request(Verdict::Failure);
    assert_eq!(bench.state(), BreakerState::Passing);
    assert_eq!(bench.breaker.failures(&OPTIONS, bench.now), 1);
}

#[test]
fn a_failed_probe_shuts_it_again_for_a_whole_cooldown() {
    let mut bench = Bench::cooled();
    bench.request(Verdict::Success);
    bench.request(Verdict::Failure);
    assert_eq!(bench.state(), BreakerState::Shut);
    bench.pass(OPTIONS.cooldown - Duration::from_millis(1));
    assert_eq!(bench.start().unwrap_err().reason, Reason::Shut);
    bench.pass(Duration::from_millis(1));
    assert_eq!(bench.state(), BreakerState::Probing);
}

#[test]
fn a_cancelled_probe_gives_its_place_back_and_decides_nothing() {
    let mut bench = Bench::cooled();
    let probes: Vec<_> = (0..3).map(|_| bench.start().unwrap()).collect();
    bench.end(probes[1], None);
    assert_eq!(bench.state(), BreakerState::Probing);
    assert!(bench.start().unwrap().is_some());
}

#[test]
fn answers_to_requests_from_before_move_nothing() {
    let mut bench = Bench::new();
    let before: Vec<_> = (0..6).map(|_| bench.start().unwrap()).collect();
    for probe in &before[..4] {
        bench.end(*probe, Some(Verdict::Failure));
    }
    assert_eq!(bench.state(), BreakerState::Shut);
    bench.pass(OPTIONS.cooldown);
    bench.end(before[4], Some(Verdict::Failure));
    assert_eq!(bench.state(), BreakerState::Probing);
    bench.end(before[5], Some(Verdict::Success));
    bench.request(Verdict::Success);
    bench.request(Verdict::Success);
    assert_eq!(bench.state(), BreakerState::Probing);
}

#[test]
fn slow_probes_of_an_earlier_round_still_take_their_places() {
    let mut bench = Bench::cooled();
    let slow = [bench.start().unwrap(), bench.start().unwrap()];
    bench.request(Verdict::Failure);
    bench.pass(OPTIONS.cooldown);
    let fresh = bench.start().unwrap();
    assert_eq!(bench.start().unwrap_err().reason, Reason::InFlight);
    // What they bring is old news.
    bench.end(slow[0], Some(Verdict::Failure));
    assert_eq!(bench.state(), BreakerState::Probing);
    assert_ne!(slow[1], fresh);
}

#[test]
fn a_redirect_of_a_probe_is_the_same_probe() {
    let mut bench = Bench::cooled();
    let mut probe = bench.start().unwrap();
    for _ in 0..2 {
        bench
            .breaker
            .look_again(probe, &OPTIONS, bench.now)
            .unwrap();
        bench.breaker.start_again(&mut probe);
    }
    let others: Vec<_> = (0..2).map(|_| bench.start().unwrap()).collect();
    assert_eq!(bench.breaker.probes, 3);
    bench.end(probe, Some(Verdict::Success));
    for other in others {
        bench.end(other, Some(Verdict::Success));
    }
    assert_eq!(bench.state(), BreakerState::Passing);
    assert_eq!(bench.breaker.probes, 0);
}

#[test]
fn a_redirect_of_a_request_from_before_becomes_a_probe_or_waits() {
    let mut bench = Bench::new();
    let mut old = bench.start().unwrap();
    for _ in 0..4 {
        bench.request(Verdict::Failure);
    }
    let hold = bench.breaker.look_again(old, &OPTIONS, bench.now);
    assert_eq!(hold.unwrap_err().reason, Reason::Shut);
    bench.pass(OPTIONS.cooldown);
    let probes: Vec<_> = (0..3).map(|_| bench.start().unwrap()).collect();
    let hold = bench.breaker.look_again(old, &OPTIONS, bench.now);
    assert_eq!(hold.unwrap_err().reason, Reason::InFlight);
    bench.end(probes[0], None);
    bench.breaker.look_again(old, &OPTIONS, bench.now).unwrap();
    bench.breaker.start_again(&mut old);
    assert_eq!(old, probes[1]);
    assert_eq!(bench.start().unwrap_err().reason, Reason::InFlight);
}

#[test]
fn the_memory_of_answers_is_bounded() {
    let mut bench = Bench::new();
    for round in 0..MAX_ANSWERS * 3 {
        let failed = round % 4 == 0;
        bench.request(if failed {
            Verdict::Failure
        } else {
            Verdict::Success
        });
    }
    assert_eq!(bench.breaker.answers.len(), MAX_ANSWERS);
    assert_eq!(bench.breaker.failures as usize, MAX_ANSWERS / 4);
}
