//! Random orders of events: hosts are not asked too much, and every key gets a turn.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::BreakerState;

const IN_FLIGHT: u32 = 4;
const PER_WINDOW: u32 = 6;
const WINDOW: Duration = Duration::from_secs(20);
const PROBES: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    Arrive {
        host: usize,
        key: usize,
    },
    /// Takes as many turns as there are right now, up to so many.
    Turns(usize),
    /// One more request under the slot of a turn.
    Again(usize),
    Succeed(usize),
    Fail(usize),
    Advise {
        turn: usize,
        secs: u64,
    },
    /// The request is given up, and the turn with it.
    Cancel(usize),
    /// The turn is given up before its request.
    Unused(usize),
    Remove(usize),
    Pass {
        ms: u64,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (0..3_usize, 0..15_usize).prop_map(|(host, key)| Step::Arrive { host, key }),
        6 => (1..5_usize).prop_map(Step::Turns),
        1 => (0..8_usize).prop_map(Step::Again),
        3 => (0..8_usize).prop_map(Step::Succeed),
        3 => (0..8_usize).prop_map(Step::Fail),
        1 => (0..8_usize, 0..60_u64).prop_map(|(turn, secs)| Step::Advise { turn, secs }),
        2 => (0..8_usize).prop_map(Step::Cancel),
        1 => (0..8_usize).prop_map(Step::Unused),
        1 => (0..15_usize).prop_map(Step::Remove),
        4 => (0..15_000_u64).prop_map(|ms| Step::Pass { ms }),
    ]
}

/// A turn under way, with the starts that its host has seen under it.
struct Held {
    turn: Turn<usize>,
    permit: Permit,
    starts: Vec<Instant>,
    is_probe: bool,
}

/// What the hosts and a strict observer see.
struct World {
    throttle: Throttle,
    queues: Queues<usize>,
    held: Vec<Held>,
    /// When requests reached each host.
    reached: HashMap<Domain, Vec<Instant>>,
    silent_until: HashMap<Domain, Instant>,
    waiting: BTreeSet<(Domain, usize)>,
}

fn name(number: usize) -> Domain {
    domain(&format!("host-{number}.example"))
}

impl World {
    fn new() -> Self {
        let throttle = Throttle::memory(Options {
            limits: Limits {
                in_flight: IN_FLIGHT,
                per_window: PER_WINDOW,
                window: WINDOW,
            },
            ..Options::default()
        });
        Self {
            queues: Queues::new(throttle.clone(), Lane::Git, QueueBounds::default()),
            throttle,
            held: Vec::new(),
            reached: HashMap::new(),
            silent_until: HashMap::new(),
            waiting: BTreeSet::new(),
        }
    }

    async fn take(&mut self, step: Step) {
        match step {
            Step::Arrive { host, key } => {
                let host = name(host);
                self.queues
                    .enqueue(&host, key, &[], HashSet::new())
                    .unwrap();
                self.waiting.insert((host, key));
            }
            Step::Turns(most) => self.take_turns(most).await,
            Step::Again(turn) => self.again(turn).await,
            Step::Succeed(turn) => self.end(turn, Verdict::Success, None),
            Step::Fail(turn) => self.end(turn, Verdict::Failure, None),
            Step::Advise { turn, secs } => self.end(turn, Verdict::Neutral, Some(secs)),
            Step::Cancel(turn) => {
                if let Some(held) = self.pick(turn) {
                    self.count(&held);
                }
            }
            Step::Unused(turn) => self.unused(turn),
            Step::Remove(key) => {
                self.queues.remove(&key);
                self.waiting.retain(|(_, other)| *other != key);
            }
            Step::Pass { ms } => advance(Duration::from_millis(ms)).await,
        }
    }

    fn pick(&mut self, turn: usize) -> Option<Held> {
        (turn < self.held.len()).then(|| self.held.swap_remove(turn))
    }

    async fn take_turns(&mut self, most: usize) {
        for _ in 0..most {
            // Before the turn: afterwards the breaker may have begun to probe because of it.
            let Some(mut turn) = now(&self.queues).await else {
                return;
            };
            let at = Instant::now();
            let domain = turn.domain().clone();
            let twice =
                |held: &Held| held.turn.key() == turn.key() && *held.turn.domain() == domain;
            assert!(!self.held.iter().any(twice), "in progress twice");
            let silent = self.silent_until.get(&domain);
            assert!(silent.is_none_or(|until| *until <= at), "against advice");
            let state = self.breaker(&domain);
            assert_ne!(state, BreakerState::Open, "an open breaker let one through");
            let permit = turn.take_permit().unwrap();
            self.held.push(Held {
                turn,
                permit,
                starts: vec![at],
                is_probe: state == BreakerState::HalfOpen,
            });
            self.check(&domain);
        }
    }

    fn breaker(&self, domain: &Domain) -> BreakerState {
        let hosts = self.throttle.hosts();
        let host = hosts.iter().find(|host| host.domain == *domain).unwrap();
        host.breaker
    }

    async fn again(&mut self, turn: usize) {
        let Some(held) = self.held.get_mut(turn) else {
            return;
        };
        if held.permit.again().await.is_ok() {
            held.starts.push(Instant::now());
            let domain = held.turn.domain().clone();
            self.check(&domain);
        }
    }

    fn end(&mut self, turn: usize, verdict: Verdict, advised_secs: Option<u64>) {
        let Some(held) = self.pick(turn) else { return };
        self.count(&held);
        let (domain, key) = (held.turn.domain().clone(), *held.turn.key());
        let advice = advised_secs.map(|secs| {
            let wait = Duration::from_secs(secs);
            let until = Instant::now() + wait;
            let known = self.silent_until.entry(domain.clone()).or_insert(until);
            *known = until.max(*known);
            Advice::new(wait, Why::RetryAfter)
        });
        held.permit.finish(verdict, advice);
        self.waiting.remove(&(domain, key));
        held.turn.tried_url(url("x"));
    }

    fn unused(&mut self, turn: usize) {
        let Some(mut held) = self.pick(turn) else {
            return;
        };
        // The latest request was not made.
        held.starts.pop();
        self.count(&held);
        held.permit.unused();
    }

    fn count(&mut self, held: &Held) {
        let reached = self.reached.entry(held.turn.domain().clone());
        reached.or_default().extend(&held.starts);
    }

    /// The limits as the host sees them, with all that is under way counted.
    fn check(&self, domain: &Domain) {
        let held = || self.held.iter().filter(|held| held.turn.domain() == domain);
        assert!(held().count() <= IN_FLIGHT as usize, "too many at once");
        let probes = held().filter(|held| held.is_probe).count();
        if self.breaker(domain) == BreakerState::HalfOpen {
            assert!(probes <= PROBES, "too many probes");
        }
        let mut starts = self.reached.get(domain).cloned().unwrap_or_default();
        starts.extend(held().flat_map(|held| &held.starts));
        starts.sort();
        for (nth, start) in starts.iter().enumerate() {
            let within = starts[nth..].iter().take_while(|at| **at - *start < WINDOW);
            assert!(
                within.count() <= PER_WINDOW as usize,
                "too many in a window"
            );
        }
    }

    /// Lets all that is under way end well, then serves everyone who is left.
    async fn settle(mut self) {
        while !self.held.is_empty() {
            self.end(0, Verdict::Success, None);
        }
        let mut served = BTreeSet::new();
        while !self.queues.is_empty() {
            let turn = timeout(HOUR, self.queues.next()).await;
            let mut turn = turn.expect("everyone gets a turn");
            succeed(&mut turn);
            assert!(served.insert((turn.domain().clone(), *turn.key())));
            turn.done();
        }
        let missed: Vec<_> = self.waiting.difference(&served).collect();
        assert!(missed.is_empty(), "never tried: {missed:?}");
        assert!(self.queues.shared.table.lock().is_blank());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn limits_hold_in_every_window_and_everyone_is_tried(
        steps in proptest::collection::vec(step(), 1..200),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let mut world = World::new();
            for step in steps {
                world.take(step).await;
            }
            world.settle().await;
        });
    }
}
