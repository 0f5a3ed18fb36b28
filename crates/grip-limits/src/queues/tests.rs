use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering},
};

use tokio::time::{advance, sleep, timeout};

use super::*;
use crate::{
    Advice, Hosts, Limits, LocalLedger, Options, Verdict, Why,
    hosts::{HostPermit, HostRequest, Outcome},
    ledger::{BoxFuture, Ledger},
    notifier::Notifier,
};
use parking_lot::MutexGuard;

mod property;

const HOUR: Duration = Duration::from_secs(3_600);

/// A local ledger that counts how often it was asked, and responds after a delay.
struct Watched {
    local: LocalLedger<Hosts>,
    notifier: Arc<Notifier>,
    asked: AtomicUsize,
    delay: Duration,
}

impl Watched {
    fn new(options: Options) -> Self {
        let notifier = Arc::<Notifier>::default();
        Self {
            local: LocalLedger::new(Hosts::new(options, Arc::clone(&notifier))),
            notifier,
            asked: AtomicUsize::new(0),
            delay: Duration::ZERO,
        }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// Takes a slot without being counted as asked.
    async fn slot(&self, domain: &Domain) -> HostPermit {
        let request = HostRequest {
            domain: domain.clone(),
            lane: Lane::Git,
            under: None,
        };
        self.local.take(&request).await.unwrap()
    }
}

impl Ledger<Hosts> for Watched {
    fn lock(&self) -> MutexGuard<'_, Hosts> {
        self.local.lock()
    }

    fn take<'a>(&'a self, request: &'a HostRequest) -> BoxFuture<'a, Result<HostPermit, Refused>> {
        Box::pin(async move {
            self.asked.fetch_add(1, Ordering::Relaxed);
            let response = self.local.take(request).await;
            if !self.delay.is_zero() {
                sleep(self.delay).await;
            }
            response
        })
    }
}

fn domain(name: &str) -> Domain {
    Domain::parse(name).unwrap()
}

fn host() -> Domain {
    domain("git.example")
}

fn url(path: &str) -> Url {
    Url::parse(&format!("https://git.example/{path}")).unwrap()
}

fn queues<K: Clone + Eq + Hash + Send + Sync + 'static>(options: Options) -> Queues<K> {
    let throttle = Throttle::memory(options);
    Queues::new(throttle, Lane::Git, QueueBounds::default())
}

fn watched(ledger: Watched, recheck: Option<Duration>) -> (Arc<Watched>, Queues<usize>) {
    let ledger = Arc::new(ledger);
    let notifier = Arc::clone(&ledger.notifier);
    let throttle = Throttle::over(Arc::clone(&ledger) as Arc<_>, notifier, recheck);
    let queues = Queues::new(throttle, Lane::Git, QueueBounds::default());
    (ledger, queues)
}

fn limits(in_flight: u32, per_window: u32) -> Options {
    Options {
        limits: Limits {
            in_flight,
            per_window,
            ..Limits::default()
        },
        ..Options::default()
    }
}

fn enqueue<K: Clone + Eq + Hash + Send + Sync + 'static>(queues: &Queues<K>, key: K) {
    queues.enqueue(&host(), key, &[], HashSet::new()).unwrap();
}

/// The next turn, if it can be had without time passing.
async fn now<K: Clone + Eq + Hash + Send + Sync + 'static>(queues: &Queues<K>) -> Option<Turn<K>> {
    timeout(Duration::ZERO, queues.next()).await.ok()
}

/// The next turn; a turn that never comes is a failure and not a hang.
async fn soon<K: Clone + Eq + Hash + Send + Sync + 'static>(queues: &Queues<K>) -> Turn<K> {
    let turn = timeout(HOUR, queues.next()).await;
    turn.expect("because a turn is due")
}

/// Uses the permit of a turn for a request that went well.
fn succeed<K: Clone + Eq + Hash>(turn: &mut Turn<K>) {
    let permit = turn.take_permit().unwrap();
    permit.finish(Verdict::Success, None);
}

#[tokio::test(start_paused = true)]
async fn round_robin_processes_identifiers_fairly() {
    let queues = queues(Options::default());
    for key in ["a", "b", "c"] {
        enqueue(&queues, key);
    }
    let mut order = Vec::new();
    for round in 0..9 {
        let mut turn = now(&queues).await.unwrap();
        order.push(*turn.key());
        succeed(&mut turn);
        turn.tried_url(url(&round.to_string()));
    }
    assert_eq!(order, ["a", "b", "c", "a", "b", "c", "a", "b", "c"]);
}

#[tokio::test(start_paused = true)]
async fn skips_in_progress_identifiers() {
    let queues = queues(Options::default());
    enqueue(&queues, "a");
    enqueue(&queues, "b");
    let first = now(&queues).await.unwrap();
    let second = now(&queues).await.unwrap();
    assert_eq!((*first.key(), *second.key()), ("a", "b"));
    // Three slots are free, but no key is there to use them.
    assert!(now(&queues).await.is_none());
    drop(second);
    assert_eq!(*now(&queues).await.unwrap().key(), "b");
    drop(first);
}

#[tokio::test(start_paused = true)]
async fn a_full_window_wakes_the_queue_by_itself_when_it_frees() {
    let options = Options::default();
    let window = options.limits.counted_for();
    let queues = queues(options);
    for key in 0..31 {
        enqueue(&queues, key);
    }
    let began = Instant::now();
    for _ in 0..30 {
        let mut turn = now(&queues).await.unwrap();
        succeed(&mut turn);
        turn.done();
    }
    // Nothing is under way any more, so no completion will ever tell.
    let turn = soon(&queues).await;
    let waited = began.elapsed();
    assert_eq!(*turn.key(), 30);
    assert!(waited >= window && waited <= window + Duration::from_millis(5));
}

#[tokio::test(start_paused = true)]
async fn a_completion_wakes_the_queue() {
    let queues = queues(Options::default());
    let mut held = Vec::new();
    for key in 0..6 {
        enqueue(&queues, key);
    }
    for _ in 0..5 {
        held.push(now(&queues).await.unwrap());
    }
    let completing = async {
        sleep(Duration::from_secs(3)).await;
        let mut turn = held.pop().unwrap();
        succeed(&mut turn);
        turn.done();
    };
    let began = Instant::now();
    let (turn, ()) = tokio::join!(soon(&queues), completing);
    assert_eq!(*turn.key(), 5);
    assert_eq!(began.elapsed(), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn an_arrival_wakes_the_queue() {
    let queues = queues(Options::default());
    let arriving = async {
        sleep(Duration::from_secs(3)).await;
        enqueue(&queues, "late");
    };
    let (turn, ()) = tokio::join!(soon(&queues), arriving);
    assert_eq!(*turn.key(), "late");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_advice_wakes_the_queue() {
    let queues = queues(Options::default());
    enqueue(&queues, "a");
    let mut turn = now(&queues).await.unwrap();
    let advice = Advice::new(Duration::from_secs(1_000), Why::RetryAfter);
    let permit = turn.take_permit().unwrap();
    permit.finish(Verdict::Neutral, Some(advice));
    drop(turn);
    let began = Instant::now();
    soon(&queues).await.done();
    assert_eq!(began.elapsed(), Duration::from_secs(1_000));
}

#[tokio::test(start_paused = true)]
async fn a_thousand_identifiers_on_one_domain_are_all_served_within_one_round() {
    const KEYS: usize = 1_000;
    let queues = queues(Options::default());
    for key in 0..KEYS {
        enqueue(&queues, key);
    }
    let mut served = HashMap::new();
    for step in 0..2 * KEYS {
        let mut turn = soon(&queues).await;
        succeed(&mut turn);
        *served.entry(*turn.key()).or_insert(0) += 1;
        assert_eq!(served[turn.key()], step / KEYS + 1, "step {step}");
        turn.tried_url(url(&step.to_string()));
    }
    assert_eq!(served.len(), KEYS);
}

#[tokio::test(start_paused = true)]
async fn tried_urls_are_merged_when_an_identifier_is_enqueued_again() {
    let queues = queues(Options::default());
    let tried = |paths: &[&str]| paths.iter().map(|path| url(path)).collect::<HashSet<_>>();
    queues
        .enqueue(&host(), "a", &[], tried(&["1", "2"]))
        .unwrap();
    queues
        .enqueue(&host(), "a", &[], tried(&["2", "3"]))
        .unwrap();
    assert_eq!((queues.len(), queues.waiting(&host())), (1, 1));

    let turn = now(&queues).await.unwrap();
    assert_eq!(turn.tried(), &tried(&["1", "2", "3"]));
    queues.enqueue(&host(), "a", &[], tried(&["4"])).unwrap();
    turn.tried_url(url("5"));
    let turn = now(&queues).await.unwrap();
    assert_eq!(turn.tried(), &tried(&["1", "2", "3", "4", "5"]));
}

#[tokio::test(start_paused = true)]
async fn tried_urls_are_kept_per_domain() {
    let queues = queues(Options::default());
    let other = domain("other.example");
    queues
        .enqueue(&host(), "a", &[], HashSet::from([url("1")]))
        .unwrap();
    queues.enqueue(&other, "a", &[], HashSet::new()).unwrap();
    for _ in 0..2 {
        let turn = now(&queues).await.unwrap();
        assert_eq!(turn.tried().len(), usize::from(*turn.domain() == host()));
        turn.done();
    }
    assert!(queues.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_identifier_enqueued_during_its_turn_gets_another() {
    let queues = queues(Options::default());
    enqueue(&queues, "a");
    let turn = now(&queues).await.unwrap();
    enqueue(&queues, "a");
    turn.done();
    now(&queues).await.unwrap().done();
    assert!(now(&queues).await.is_none());
    assert!(queues.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_removed_identifier_leaves_all_queues_and_leaves_after_its_turn() {
    let queues = queues(Options::default());
    let other = domain("other.example");
    enqueue(&queues, "a");
    queues.enqueue(&other, "a", &[], HashSet::new()).unwrap();
    queues.enqueue(&other, "b", &[], HashSet::new()).unwrap();
    let turn = now(&queues).await.unwrap();
    assert_eq!((turn.domain(), *turn.key()), (&host(), "a"));
    queues.remove(&"a");
    assert_eq!((queues.waiting(&host()), queues.waiting(&other)), (1, 1));
    turn.tried_url(url("1"));
    assert_eq!(queues.len(), 1);
    assert_eq!(*now(&queues).await.unwrap().key(), "b");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_turn_is_back_in_the_queue_and_gives_its_start_back() {
    let options = limits(1, 1);
    let throttle = Throttle::memory(options);
    let queues = Queues::new(throttle.clone(), Lane::Git, QueueBounds::default());
    enqueue(&queues, "a");
    for _ in 0..3 {
        drop(now(&queues).await.unwrap());
    }
    assert_eq!(throttle.hosts()[0].started, 0);
    let mut turn = now(&queues).await.unwrap();
    let permit = turn.take_permit().unwrap();
    assert!(turn.take_permit().is_none(), "given out once");
    drop(permit);
    drop(turn);
    assert_eq!(queues.len(), 1);
    assert!(now(&queues).await.is_none(), "that start was used");
}

#[tokio::test(start_paused = true)]
async fn a_queue_has_a_bound_and_all_queues_together_too() {
    let throttle = Throttle::memory(Options::default());
    let bounds = QueueBounds {
        per_domain: 2,
        total: 3,
    };
    let queues = Queues::new(throttle, Lane::Git, bounds);
    let put = |name: &str, key: usize| {
        let of = owner(name.as_bytes()[0] + 10 * u8::try_from(key).unwrap(), false);
        queues.enqueue(&domain(name), key, &[of], HashSet::new())
    };
    put("a.example", 1).unwrap();
    put("a.example", 2).unwrap();
    let full = put("a.example", 3).unwrap_err();
    assert_eq!((full.domain, full.waiting), (domain("a.example"), 2));
    put("b.example", 1).unwrap();
    assert_eq!(put("c.example", 1).unwrap_err().waiting, 3);
    // A key that is there already may merge.
    put("a.example", 2).unwrap();
    queues.remove(&1);
    assert_eq!(queues.len(), 1);
    put("c.example", 1).unwrap();
}

fn owner(n: u8, is_served: bool) -> Owner {
    let key = [n; 32];
    Owner { key, is_served }
}

#[tokio::test(start_paused = true)]
async fn ten_thousand_identifiers_of_one_author_do_not_keep_another_waiting() {
    let queues = queues(Options::default());
    let put = |key: usize, of: Owner| queues.enqueue(&host(), key, &[of], HashSet::new());
    for key in 0..10_000 {
        put(key, owner(1, false)).unwrap();
    }
    // The line is full, and the author with most places gives one up.
    put(50_000, owner(2, false)).unwrap();
    put(60_000, owner(3, true)).unwrap();
    assert_eq!(queues.waiting(&host()), 10_000);
    let mut order = Vec::new();
    for _ in 0..4 {
        let mut turn = now(&queues).await.unwrap();
        order.push(*turn.key());
        succeed(&mut turn);
        turn.done();
    }
    assert_eq!(order[0], 60_000, "what is served comes first");
    assert!(order.contains(&50_000), "{order:?}");
    assert!(put(70_000, owner(1, false)).is_ok());
}

#[tokio::test(start_paused = true)]
async fn an_identifier_that_a_stranger_queued_first_comes_with_its_served_author() {
    let queues = queues(Options::default());
    let put = |key: &'static str, of: &[Owner]| {
        queues.enqueue(&host(), key, of, HashSet::new()).unwrap();
    };
    let (stranger, served) = (owner(1, false), owner(2, true));
    put("a", &[stranger]);
    put("b", &[stranger]);
    put("b", &[stranger, served]);
    put("b", &[stranger]);
    assert_eq!(*now(&queues).await.unwrap().key(), "b");
    queues.remove(&"a");
    queues.remove(&"b");
    assert!(queues.shared.table.lock().is_blank());
}

#[tokio::test(start_paused = true)]
async fn a_dead_host_delays_nobody_else() {
    let queues = queues(Options::default());
    let (dead, healthy) = (domain("dead.example"), domain("healthy.example"));
    for key in 0..20 {
        queues.enqueue(&dead, key, &[], HashSet::new()).unwrap();
        queues.enqueue(&healthy, key, &[], HashSet::new()).unwrap();
    }
    let began = Instant::now();
    let mut served = 0;
    let mut asked_dead = 0;
    while let Some(mut turn) = now(&queues).await {
        let permit = turn.take_permit().unwrap();
        if *turn.domain() == dead {
            asked_dead += 1;
            permit.finish(Verdict::Failure, None);
        } else {
            served += 1;
            permit.finish(Verdict::Success, None);
        }
        turn.done();
    }
    assert_eq!((served, asked_dead), (20, 4));
    assert_eq!(began.elapsed(), Duration::ZERO);
    assert_eq!(queues.waiting(&dead), 16);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_thousand_that_cannot_go_cost_nothing() {
    const HOSTS: usize = 100;
    let (ledger, queues) = watched(Watched::new(Options::default()), None);
    let names: Vec<_> = (0..HOSTS)
        .map(|number| domain(&format!("host-{number}.example")))
        .collect();
    let name = |number: usize| names[number].clone();
    let mut held = Vec::new();
    // Half of the hosts asked to be left alone, the others are saturated.
    for number in 0..HOSTS {
        for _ in 0..5 {
            let slot = ledger.slot(&name(number)).await;
            if number % 2 == 0 {
                held.push(slot);
                continue;
            }
            let advice = Some(Advice::new(HOUR, Why::RetryAfter));
            let verdict = Verdict::Neutral;
            ledger.settle(slot, Outcome::Done { verdict, advice });
            break;
        }
    }
    let enqueue = |key| {
        let owners = [owner((key / HOSTS % 100) as u8, false)];
        let queued = queues.enqueue(&name(key % HOSTS), key, &owners, HashSet::new());
        queued.unwrap();
    };
    (0..100_000).for_each(enqueue);
    let before = ledger.asked();
    assert!(timeout(HOUR / 2, queues.next()).await.is_err());
    assert_eq!(ledger.asked() - before, HOSTS, "once for each queue");

    // Neither newcomers nor other hosts' completions make it look again.
    (100_000..101_000).for_each(enqueue);
    for _ in 0..1_000 {
        ledger.notifier.notify(&domain("unrelated.example"));
        assert!(
            timeout(Duration::from_millis(1), queues.next())
                .await
                .is_err()
        );
    }
    assert_eq!(ledger.asked() - before, HOSTS);

    // One completion lets one go, after one question, and one more finds the host full again.
    ledger.settle(held.pop().unwrap(), Outcome::Cancelled);
    let turn = now(&queues).await.unwrap();
    assert!(now(&queues).await.is_none());
    assert_eq!(ledger.asked() - before, HOSTS + 2);
    drop(turn);
}

#[tokio::test(start_paused = true)]
async fn a_listener_that_missed_notices_asks_for_all_queues_once() {
    let (ledger, queues) = watched(Watched::new(limits(1, 30)), None);
    for number in 0..10 {
        let host = domain(&format!("host-{number}.example"));
        std::mem::forget(ledger.slot(&host).await);
        queues.enqueue(&host, number, &[], HashSet::new()).unwrap();
    }
    assert!(now(&queues).await.is_none());
    let before = ledger.asked();
    ledger.notifier.notify_all();
    assert!(now(&queues).await.is_none());
    assert_eq!(ledger.asked() - before, 10);
}

#[tokio::test(start_paused = true)]
async fn a_shared_limit_is_asked_about_again_a_few_times_a_second() {
    let recheck = Some(Duration::from_millis(250));
    let (ledger, queues) = watched(Watched::new(limits(1, 30)), recheck);
    let slot = ledger.slot(&host()).await;
    enqueue(&queues, 1);
    let before = ledger.asked();
    let wait = Duration::from_millis(1_100);
    assert!(timeout(wait, queues.next()).await.is_err());
    assert_eq!(ledger.asked() - before, 5);
    drop(slot);
}

#[tokio::test(start_paused = true)]
async fn giving_up_in_the_middle_of_a_question_loses_nothing() {
    let mut ledger = Watched::new(Options::default());
    ledger.delay = Duration::from_secs(1);
    let (_ledger, queues) = watched(ledger, None);
    enqueue(&queues, 1);
    for _ in 0..3 {
        let short = Duration::from_millis(500);
        assert!(timeout(short, queues.next()).await.is_err());
        assert_eq!(queues.waiting(&host()), 1);
    }
    let turn = soon(&queues).await;
    assert_eq!(*turn.key(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_frees_while_its_refusal_is_on_the_way_is_not_missed() {
    let mut ledger = Watched::new(limits(1, 30));
    ledger.delay = Duration::from_secs(1);
    let (ledger, queues) = watched(ledger, None);
    let slot = ledger.slot(&host()).await;
    enqueue(&queues, 1);
    let releasing = async {
        sleep(Duration::from_millis(500)).await;
        ledger.settle(slot, Outcome::Cancelled);
        // Another caller that waits sees the notice first.
        assert!(now(&queues).await.is_none());
    };
    let (turn, ()) = tokio::join!(timeout(HOUR, queues.next()), releasing);
    assert_eq!(*turn.unwrap().key(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_permit_for_a_queue_that_all_keys_left_is_given_back() {
    let mut ledger = Watched::new(Options::default());
    ledger.delay = Duration::from_secs(1);
    let (ledger, queues) = watched(ledger, None);
    enqueue(&queues, 1);
    let leaving = async {
        sleep(Duration::from_millis(500)).await;
        queues.remove(&1);
    };
    let (turn, ()) = tokio::join!(timeout(HOUR, queues.next()), leaving);
    assert!(turn.is_err());
    assert!(
        ledger
            .lock()
            .statuses(Instant::now())
            .iter()
            .all(|host| host.in_flight == 0 && host.started == 0)
    );
}

#[tokio::test(start_paused = true)]
async fn several_callers_share_the_turns() {
    let queues = queues(Options::default());
    for key in 0..5 {
        enqueue(&queues, key);
    }
    let all = tokio::join!(soon(&queues), soon(&queues), soon(&queues), soon(&queues));
    let keys = [&all.0, &all.1, &all.2, &all.3].map(|turn| *turn.key());
    assert_eq!(HashSet::from(keys).len(), 4);

    // Two wait, and one completion after the other reaches both.
    let mut fifth = now(&queues).await.unwrap();
    enqueue(&queues, 5);
    enqueue(&queues, 6);
    let completing = async {
        sleep(Duration::from_secs(1)).await;
        succeed(&mut fifth);
        fifth.done();
        sleep(Duration::from_secs(1)).await;
        drop(all);
    };
    let (one, other, ()) = tokio::join!(soon(&queues), soon(&queues), completing);
    assert_ne!(one.key(), other.key());
}
