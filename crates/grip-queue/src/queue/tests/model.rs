//! The rules of leases as a model in memory, and random schedules that must end alike.
//!
//! Time moves in steps that are long against the run, so that both agree on what is due.

use std::collections::BTreeMap;

use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

use super::*;
use crate::Class;

/// One step of time.
const STEP_MS: i64 = 1_000_000;
const KEYS: u8 = 5;
/// Half steps, for what is due between two.
type Time = i64;

#[derive(Clone, Debug)]
enum Step {
    Ask {
        key: u8,
        delay: i64,
        revive: bool,
        periodic: bool,
    },
    Claim {
        most: usize,
        lease: i64,
    },
    /// Uses one of the leases there ever were, so that old ones are tried too.
    Lease(usize, LeaseStep),
    Retry(u8),
    Remove(u8),
    Pass(i64),
}

#[derive(Clone, Debug)]
enum LeaseStep {
    Renew(i64),
    Finish,
    Fail(u8),
    Postpone(i64),
    Release,
    RemoveLeased,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let of_lease = prop_oneof![
        2 => (1..4_i64).prop_map(LeaseStep::Renew),
        3 => Just(LeaseStep::Finish),
        4 => (0..4_u8).prop_map(LeaseStep::Fail),
        1 => (0..3_i64).prop_map(LeaseStep::Postpone),
        1 => Just(LeaseStep::Release),
        1 => Just(LeaseStep::RemoveLeased),
    ];
    let step = prop_oneof![
        4 => (0..KEYS, 0..4_i64, any::<bool>(), prop::bool::weighted(0.3))
            .prop_map(|(key, delay, revive, periodic)| Step::Ask { key, delay, revive, periodic }),
        5 => (1..4_usize, 1..4_i64).prop_map(|(most, lease)| Step::Claim { most, lease }),
        12 => (0..1_000_usize, of_lease).prop_map(|(of, step)| Step::Lease(of, step)),
        1 => (0..KEYS).prop_map(Step::Retry),
        1 => (0..KEYS).prop_map(Step::Remove),
        4 => (1..3_i64).prop_map(Step::Pass),
    ];
    prop::collection::vec(step, 1..60)
}

/// A job as the rules have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Row {
    due: Time,
    /// The number of the claim that holds it, in force or run out.
    held: Option<usize>,
    again: Option<Time>,
    periodic: bool,
    attempts: i64,
    limited: i64,
    lost: i64,
    dead: bool,
}

const PERIOD: Time = 2 * 5;

#[derive(Default)]
struct Model {
    now: Time,
    rows: BTreeMap<u8, Row>,
    /// All leases ever given, with their keys.
    leases: Vec<(u8, Lease)>,
}

impl Row {
    fn ended(&mut self) {
        self.held = None;
        self.lost = 0;
    }

    fn start_over(&mut self) {
        (self.attempts, self.limited, self.dead) = (0, 0, false);
    }
}

impl Model {
    /// The row that the claim still holds.
    fn holds(&mut self, claim: usize) -> Option<&mut Row> {
        let (key, _) = self.leases.get(claim)?;
        let row = self.rows.get_mut(key)?;
        (row.held == Some(claim)).then_some(row)
    }

    fn ask(&mut self, key: u8, delay: Time, revive: bool, periodic: bool) {
        let due = self.now + delay;
        let fresh = Row {
            due,
            periodic,
            ..Row::default()
        };
        let Some(row) = self.rows.get_mut(&key) else {
            self.rows.insert(key, fresh);
            return;
        };
        row.periodic |= periodic;
        if row.held.is_some() {
            row.again = Some(row.again.map_or(due, |again| again.min(due)));
            return;
        }
        if revive {
            // What is dead lies at the end of time.
            row.due = if row.dead { due } else { row.due.min(due) };
            row.start_over();
        } else if !row.dead && row.attempts + row.limited == 0 {
            row.due = row.due.min(due);
        }
    }

    fn is_due(&self, key: u8) -> bool {
        self.rows
            .get(&key)
            .is_some_and(|row| !row.dead && row.due <= self.now)
    }

    fn claimed(&mut self, leases: Vec<Lease>, asked: usize, length: Time) {
        let due: Vec<u8> = (0..KEYS).filter(|key| self.is_due(*key)).collect();
        assert_eq!(leases.len(), asked.min(due.len()), "as many as are due");
        let keys: Vec<u8> = leases
            .iter()
            .map(|lease| lease.key.parse().unwrap())
            .collect();
        let last = keys.iter().map(|key| self.rows[key].due).max();
        let passed_over = due
            .iter()
            .filter(|key| !keys.contains(key))
            .map(|key| self.rows[key].due);
        assert!(
            last <= passed_over.min().or(last),
            "the longest due come first"
        );
        for (key, lease) in keys.into_iter().zip(leases) {
            assert!(due.contains(&key), "{key} was not due");
            let claim = self.leases.len();
            let now = self.now;
            let row = self.rows.get_mut(&key).unwrap();
            row.lost += i64::from(row.held.is_some());
            row.held = Some(claim);
            row.due = now + length;
            row.again = row.again.filter(|again| *again > now);
            assert_eq!(
                (row.attempts, row.limited, row.lost),
                (lease.attempts, lease.limited, lease.lost)
            );
            self.leases.push((key, lease));
        }
    }

    fn finish(&mut self, claim: usize) -> Finished {
        let now = self.now;
        let Some(row) = self.holds(claim) else {
            return Finished::Lost;
        };
        if row.again.is_none() && !row.periodic {
            let key = self.leases[claim].0;
            self.rows.remove(&key);
            return Finished::Done;
        }
        row.ended();
        row.start_over();
        let period = row.periodic.then_some(now + PERIOD);
        let again = row.again.take();
        row.due = again.into_iter().chain(period).min().unwrap();
        match period {
            Some(period) if row.due >= period => Finished::Done,
            _ => Finished::Again,
        }
    }

    fn remove_leased(&mut self, claim: usize) -> Finished {
        let Some(row) = self.holds(claim) else {
            return Finished::Lost;
        };
        let Some(again) = row.again.take() else {
            let key = self.leases[claim].0;
            self.rows.remove(&key);
            return Finished::Done;
        };
        row.ended();
        row.start_over();
        row.due = again;
        Finished::Again
    }

    /// The expected answer, without the exact time.
    fn fail(&mut self, claim: usize, class: u8) -> &'static str {
        let now = self.now;
        let periodic = self
            .leases
            .get(claim)
            .is_some_and(|(_, lease)| lease.period_ms.is_some());
        let Some(row) = self.holds(claim) else {
            return "lost";
        };
        row.ended();
        match class {
            1 => row.limited += 1,
            _ => row.attempts += 1,
        }
        let wait = match class {
            // Some time within this step.
            0 if row.attempts < 5 => Some(1),
            // Two steps ahead and a half.
            1 => Some(5),
            _ => None,
        };
        if let Some(wait) = wait {
            row.due = now + wait;
            row.again = row.again.filter(|again| *again > row.due);
            return "later";
        }
        if let Some(again) = row.again.take() {
            row.start_over();
            row.due = again;
            return "later";
        }
        if class != 2 && periodic {
            row.start_over();
            row.due = now + PERIOD;
            return "later";
        }
        row.dead = true;
        "dead"
    }

    fn postpone(&mut self, claim: usize, by: Time) -> bool {
        let now = self.now;
        let Some(row) = self.holds(claim) else {
            return false;
        };
        row.ended();
        row.due = now + by;
        row.again = row.again.filter(|again| *again > row.due);
        true
    }

    fn release(&mut self, claim: usize) -> bool {
        let now = self.now;
        let Some(row) = self.holds(claim) else {
            return false;
        };
        row.ended();
        row.due = now;
        true
    }

    fn retry(&mut self, key: u8) -> bool {
        let now = self.now;
        let Some(row) = self.rows.get_mut(&key) else {
            return false;
        };
        match row.held {
            Some(_) => row.again = Some(now),
            None => {
                (row.due, row.again) = (now, None);
                row.start_over();
            }
        }
        row.lost = 0;
        true
    }
}

/// Plays a schedule on the queue and on the model.
async fn play(queue: &Queue, kind: &str, steps: Vec<Step>) {
    let db = queue.db();
    let mut model = Model::default();
    for step in steps {
        match step {
            Step::Pass(steps) => {
                db.shift_clock_ms(steps * STEP_MS);
                model.now += 2 * steps;
            }
            Step::Ask {
                key,
                delay,
                revive,
                periodic,
            } => {
                let due = db.now_ms() + delay * STEP_MS;
                let mut job = NewJob::new(kind, key.to_string()).due_ms(due);
                job.revive = revive;
                job.period = periodic.then(|| length(PERIOD / 2));
                let is_new = !model.rows.contains_key(&key);
                assert_eq!(queue.enqueue(vec![job]).await.unwrap(), usize::from(is_new));
                model.ask(key, 2 * delay, revive, periodic);
            }
            Step::Claim { most, lease } => {
                let leases = queue.claim(kind, most, length(lease)).await.unwrap();
                model.claimed(leases, most, 2 * lease);
            }
            Step::Lease(of, step) => {
                if let Some(claim) = of.checked_rem(model.leases.len()) {
                    play_lease(queue, &mut model, claim, step).await;
                }
            }
            Step::Retry(key) => {
                let found = queue.retry(kind, &key.to_string()).await.unwrap();
                assert_eq!(found, model.retry(key));
            }
            Step::Remove(key) => {
                let found = queue.remove(kind, &key.to_string()).await.unwrap();
                assert_eq!(found, model.rows.remove(&key).is_some());
            }
        }
        agree(queue, kind, &model).await;
    }
}

fn length(steps: i64) -> Duration {
    Duration::from_millis((steps * STEP_MS) as u64)
}

async fn play_lease(queue: &Queue, model: &mut Model, claim: usize, step: LeaseStep) {
    let at = |steps: i64| queue.db().now_ms() + steps * STEP_MS;
    let lease = model.leases[claim].1.clone();
    match step {
        LeaseStep::Renew(steps) => {
            let ours = queue.renew(&[&lease], length(steps)).await.unwrap();
            let now = model.now;
            let row = model.holds(claim);
            assert_eq!(ours.len(), usize::from(row.is_some()));
            if let Some(row) = row {
                row.due = now + 2 * steps;
            }
        }
        LeaseStep::Finish => {
            let finished = queue.finish(&lease).await.unwrap();
            assert_eq!(finished, model.finish(claim));
        }
        LeaseStep::RemoveLeased => {
            let finished = queue.remove_leased(&lease).await.unwrap();
            assert_eq!(finished, model.remove_leased(claim));
        }
        LeaseStep::Fail(class) => {
            // Between two steps: the queue adds a moment by chance.
            let until_ms = at(2) + STEP_MS / 2;
            let class_of = [
                Class::Transient,
                Class::RateLimited { until_ms },
                Class::Permanent,
                Class::NextPeriod,
            ];
            let failure = Failure {
                class: class_of[usize::from(class)],
                reason: "x".into(),
            };
            let told = match queue.fail(&lease, failure).await.unwrap() {
                Failed::Later { .. } => "later",
                Failed::Dead => "dead",
                Failed::Lost => "lost",
            };
            assert_eq!(told, model.fail(claim, class));
        }
        LeaseStep::Postpone(by) => {
            let done = queue.postpone(&lease, at(by), "x").await.unwrap();
            assert_eq!(done, model.postpone(claim, 2 * by));
        }
        LeaseStep::Release => {
            let released = queue.release(&[lease]).await.unwrap();
            assert_eq!(released == 1, model.release(claim));
        }
    }
}

async fn agree(queue: &Queue, kind: &str, model: &Model) {
    let filter = crate::Filter {
        kind: Some(kind.to_owned()),
        ..Default::default()
    };
    let found = queue.list(&filter, 100).await.unwrap();
    assert_eq!(found.len(), model.rows.len());
    for job in found {
        let row = &model.rows[&job.key.parse().unwrap()];
        let state = match (row.dead, row.due <= model.now, row.held) {
            (true, ..) => State::Dead,
            (_, true, _) => State::Due,
            (_, _, Some(_)) => State::Leased,
            (_, _, None) => State::Waiting,
        };
        assert_eq!(job.state, state, "{job:?} {row:?}");
        let counts = (job.attempts, job.limited, job.lost);
        assert_eq!(
            counts,
            (row.attempts, row.limited, row.lost),
            "{job:?} {row:?}"
        );
    }
}

on_both_engines! {
    async fn every_schedule_ends_as_the_rules_say(test: TestDatabase) {
        let queue = Queue::new(test.db().clone());
        let cases = if test.db().engine() == grip_db::Engine::Sqlite { 120 } else { 60 };
        let config = Config { cases, failure_persistence: None, ..Config::default() };
        let handle = tokio::runtime::Handle::current();
        let case = std::cell::Cell::new(0);
        let run = move || {
            let mut runner = TestRunner::new(config);
            runner.run(&steps(), |steps| {
                case.set(case.get() + 1);
                handle.block_on(play(&queue, &format!("k{}", case.get()), steps));
                Ok(())
            })
        };
        TaskGroup::new("test").spawn_blocking("runner", run).await.unwrap().unwrap();
    }
}
