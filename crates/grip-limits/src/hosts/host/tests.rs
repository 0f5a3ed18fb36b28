use super::{super::Held, *};

/// A host with a clock that only the test moves.
struct Bench {
    host: Host,
    now: Instant,
    tokens: u64,
}

impl Bench {
    fn new() -> Self {
        Self::with(Limits::default())
    }

    fn with(limits: Limits) -> Self {
        let now = Instant::now();
        let host = Host::new(limits, BreakerOptions::default(), now);
        let tokens = 0;
        Self { host, now, tokens }
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }

    fn ask(&mut self, lane: Lane) -> Result<HostPermit, Hold> {
        self.tokens += 1;
        let start = StartName {
            token: self.tokens,
            number: 1,
        };
        let probe = self.host.take(lane, start, self.now)?;
        let is_shared = false;
        Ok(HostPermit {
            domain: domain(),
            lane,
            held: Held {
                start,
                probe,
                is_shared,
            },
        })
    }

    /// Takes one more start under a slot.
    fn again(&mut self, slot: &mut HostPermit) -> Result<(), Hold> {
        let start = StartName {
            number: slot.held.start.number + 1,
            ..slot.held.start
        };
        let probe = slot.held.probe;
        slot.held.probe = self.host.take_more(slot.lane, start, probe, self.now)?;
        slot.held.start = start;
        Ok(())
    }

    fn git(&mut self) -> Result<HostPermit, Hold> {
        self.ask(Lane::Git)
    }

    fn release(&mut self, slot: &HostPermit, outcome: Outcome) {
        self.host.settle(slot, outcome, false, self.now);
    }

    fn finish(&mut self, slot: &HostPermit, verdict: Verdict, advice: Option<Advice>) {
        self.release(slot, Outcome::Done { verdict, advice });
    }

    /// A request that begins and ends well at once.
    fn request(&mut self, lane: Lane) -> Result<(), Hold> {
        let slot = self.ask(lane)?;
        self.finish(&slot, Verdict::Success, None);
        Ok(())
    }

    /// How many requests of `lane` go through right now, one after the other.
    fn requests_until_refused(&mut self, lane: Lane) -> usize {
        (0..1_000)
            .take_while(|_| self.request(lane).is_ok())
            .count()
    }

    fn status(&mut self) -> crate::HostStatus {
        self.host.status(&domain(), false, self.now)
    }
}

fn domain() -> Domain {
    Domain::parse("git.example").unwrap()
}

fn wait(secs: u64, why: Why) -> Option<Advice> {
    Some(Advice::new(Duration::from_secs(secs), why))
}

fn window() -> Duration {
    Limits::default().counted_for()
}

#[test]
fn concurrent_limit_blocks_when_saturated() {
    let mut bench = Bench::new();
    let slots: Vec<_> = (0..5).map(|_| bench.git().unwrap()).collect();
    assert_eq!(bench.git().unwrap_err().reason, Reason::InFlight);
    bench.finish(&slots[2], Verdict::Success, None);
    bench.git().unwrap();
    assert_eq!(bench.git().unwrap_err().reason, Reason::InFlight);
}

#[test]
fn rate_limit_blocks_when_window_full() {
    let mut bench = Bench::new();
    let began = bench.now;
    for _ in 0..30 {
        bench.request(Lane::Git).unwrap();
        bench.pass(Duration::from_secs(1));
    }
    let hold = bench.git().unwrap_err();
    assert_eq!(hold, Hold::new(Reason::Window, began + window()));
    bench.now = hold.retry_at - Duration::from_millis(1);
    assert_eq!(bench.git().unwrap_err(), hold);
    bench.now = hold.retry_at;
    bench.request(Lane::Git).unwrap();
    // The window slides: the second start is still in it.
    let second = began + Duration::from_secs(1) + window();
    assert_eq!(bench.git().unwrap_err().retry_at, second);
}

#[test]
fn a_start_counts_a_little_longer_than_the_window() {
    let limits = Limits {
        per_window: 1,
        ..Limits::default()
    };
    let mut bench = Bench::with(limits);
    bench.request(Lane::Git).unwrap();
    bench.pass(limits.window);
    bench.request(Lane::Git).unwrap_err();
    bench.pass(Duration::from_millis(250));
    bench.request(Lane::Git).unwrap();
}

#[test]
fn the_log_of_starts_never_outgrows_the_limit() {
    let mut bench = Bench::new();
    for _ in 0..200 {
        bench.requests_until_refused(Lane::Git);
        assert!(bench.host.starts.len() <= 30);
        bench.pass(Duration::from_secs(7));
    }
    assert_eq!(bench.host.started[0] as usize, bench.host.starts.len());
}

#[test]
fn an_unused_permit_older_than_the_window_takes_no_other_start_away() {
    let mut bench = Bench::new();
    let old = bench.git().unwrap();
    bench.pass(window());
    bench.request(Lane::Git).unwrap();
    bench.release(&old, Outcome::Unused);
    assert_eq!(bench.status().started, 1);
}

#[test]
fn advice_closes_the_host_until_its_time_and_not_longer() {
    let mut bench = Bench::new();
    let slot = bench.git().unwrap();
    bench.finish(&slot, Verdict::Neutral, wait(90, Why::RetryAfter));
    let until = bench.now + Duration::from_secs(90);
    for lane in [Lane::Git, Lane::Api] {
        let hold = bench.ask(lane).unwrap_err();
        assert_eq!(hold, Hold::new(Reason::Advised, until));
    }
    let closed = bench.status().closed.unwrap();
    assert_eq!(
        (closed.for_ms, closed.why),
        (90_000, ClosedReason::RetryAfter)
    );
    bench.now = until - Duration::from_millis(1);
    bench.git().unwrap_err();
    bench.now = until;
    bench.git().unwrap();
    assert_eq!(bench.status().closed, None);
}

#[test]
fn advice_of_a_year_is_heeded_for_a_day() {
    let mut bench = Bench::new();
    let slot = bench.git().unwrap();
    let year = Advice {
        wait: Duration::MAX,
        why: Why::RetryAfter,
    };
    bench.finish(&slot, Verdict::Neutral, Some(year));
    let until = bench.now + Advice::LONGEST;
    assert_eq!(bench.git().unwrap_err().retry_at, until);
}

#[test]
fn a_request_under_way_may_not_go_on_against_advice() {
    let mut bench = Bench::new();
    let mut redirected = bench.git().unwrap();
    let other = bench.git().unwrap();
    bench.finish(&other, Verdict::Neutral, wait(60, Why::Unspecified));
    let hold = bench.again(&mut redirected).unwrap_err();
    assert_eq!(hold.reason, Reason::Advised);
    assert_eq!(bench.status().in_flight, 1);
}

#[test]
fn a_refusal_names_the_reason_that_lasts_longest() {
    let mut bench = Bench::new();
    let mut last = None;
    for _ in 0..30 {
        if let Some(slot) = last.replace(bench.git().unwrap()) {
            bench.finish(&slot, Verdict::Success, None);
        }
    }
    let began = bench.now;
    bench.finish(&last.unwrap(), Verdict::Neutral, wait(5, Why::RetryAfter));
    let hold = bench.git().unwrap_err();
    assert_eq!(hold, Hold::new(Reason::Window, began + window()));
}

#[test]
fn the_reserve_ends_a_window_after_the_other_lane_last_used_the_host() {
    let mut bench = Bench::new();
    let began = bench.now;
    bench.request(Lane::Api).unwrap();
    bench.pass(Duration::from_secs(30));
    assert_eq!(bench.requests_until_refused(Lane::Git), 24);
    let hold = bench.git().unwrap_err();
    assert_eq!(hold, Hold::new(Reason::Window, began + window()));
    bench.now = hold.retry_at;
    assert_eq!(bench.requests_until_refused(Lane::Git), 6);
}

#[test]
fn small_limits_have_no_reserve_that_would_stop_everything() {
    let limits = Limits {
        in_flight: 1,
        per_window: 1,
        ..Limits::default()
    };
    let mut bench = Bench::with(limits);
    bench.request(Lane::Api).unwrap();
    bench.pass(window());
    bench.request(Lane::Git).unwrap();

    let nothing = Limits {
        in_flight: 0,
        per_window: 0,
        ..limits
    };
    assert_eq!(Bench::with(nothing).requests_until_refused(Lane::Git), 1);
}

#[test]
fn a_full_window_closes_the_host_only_if_no_lane_can_go() {
    let mut bench = Bench::new();
    bench.request(Lane::Api).unwrap();
    bench.requests_until_refused(Lane::Git);
    assert_eq!(bench.status().closed, None);
    bench.requests_until_refused(Lane::Api);
    let closed = bench.status().closed.unwrap();
    assert_eq!(closed.why, ClosedReason::Window);
    assert_eq!(u128::from(closed.for_ms), window().as_millis());
}

#[test]
fn a_host_that_owes_nothing_is_blank() {
    let mut bench = Bench::new();
    let slot = bench.git().unwrap();
    bench.pass(window());
    assert!(!bench.host.is_blank(bench.now), "a request is under way");
    bench.finish(&slot, Verdict::Failure, wait(100, Why::RetryAfter));
    bench.pass(Duration::from_secs(60));
    assert!(!bench.host.is_blank(bench.now), "advice holds");
    bench.pass(Duration::from_secs(40));
    assert!(bench.host.is_blank(bench.now));
}

#[test]
fn starts_that_come_in_the_wrong_order_are_kept_in_order() {
    let mut bench = Bench::new();
    let before = bench.now;
    bench.pass(Duration::from_millis(1));
    let later = bench.git().unwrap();
    bench.now = before;
    let earlier = bench.git().unwrap();
    assert!(bench.host.starts.iter().is_sorted_by_key(|start| start.at));
    bench.release(&earlier, Outcome::Unused);
    bench.release(&later, Outcome::Unused);
    assert!(bench.host.starts.is_empty());
}
