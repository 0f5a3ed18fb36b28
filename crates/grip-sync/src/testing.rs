//! A made-up node and made-up hosts, with a clock that tests can stop.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures_util::future::BoxFuture;
use grip_egress::Forbidden;
use grip_git::remote::RemoteError;
use grip_limits::{Permit, Throttle, Verdict};
use grip_nostr::{EventId, PublicKey};
use grip_purgatory::{
    AttemptEnd, FindProviders, Millis, Need, NeedsError, NextSync, Providers, SyncContext,
};
use grip_tasks::{CancellationToken, TaskGroup};
use grip_types::{Domain, Identifier, Oid};
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};
use url::Url;

use crate::{
    engine::Engine,
    fetch::{Fetch, FetchError, Fetched, Job},
    options::{Backoff, Options},
    sync::{Parts, Sync},
};

pub(crate) fn identifier(text: &str) -> Identifier {
    Identifier::parse(text).unwrap()
}

pub(crate) fn url(text: &str) -> Url {
    Url::parse(text).unwrap()
}

pub(crate) fn domain(text: &str) -> Domain {
    Domain::parse(text).unwrap()
}

pub(crate) fn oid(n: u64) -> Oid {
    let mut raw = [0; 20];
    raw[..8].copy_from_slice(&(n + 1).to_be_bytes());
    Oid::from_bytes(&raw).unwrap()
}

pub(crate) fn oids(numbers: &[u64]) -> BTreeSet<Oid> {
    numbers.iter().copied().map(oid).collect()
}

pub(crate) fn author(n: u8) -> PublicKey {
    PublicKey::from_byte_array([n; 32])
}

/// Its event is named by the first of its objects.
pub(crate) fn need(numbers: &[u64], urls: &[&str]) -> Need {
    let mut id = [0; 32];
    id[..8].copy_from_slice(&numbers[0].to_be_bytes());
    Need {
        event: EventId::from_byte_array(id),
        is_state: false,
        author: author(1),
        is_served: false,
        oids: oids(numbers),
        urls: urls.iter().copied().map(url).collect(),
        owners: Vec::new(),
    }
}

pub(crate) fn state(numbers: &[u64], urls: &[&str]) -> Need {
    Need {
        is_state: true,
        ..need(numbers, urls)
    }
}

/// What a URL does instead of answering with what it has.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Fail,
    /// The host is sound, and has no such repository.
    Refuse,
    Hang,
    Forbidden,
    Resume,
    Slow(Duration),
    /// What it has comes with so many bytes.
    Send(u64),
    Panic,
}

/// One request as the host saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SeenRequest {
    /// Milliseconds since the beginning.
    pub(crate) at: i64,
    pub(crate) identifier: Identifier,
    pub(crate) url: Url,
    pub(crate) wants: BTreeSet<Oid>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) due: Millis,
    pub(crate) count: u32,
    pub(crate) in_progress: bool,
    renewed: bool,
}

#[derive(Default)]
pub(crate) struct State {
    waiting: HashMap<Identifier, Vec<Need>>,
    here: HashMap<Identifier, BTreeSet<Oid>>,
    pub(crate) queue: HashMap<Identifier, Entry>,
    due: BTreeSet<(Millis, Identifier)>,
    has: HashMap<Url, BTreeSet<Oid>>,
    pub(crate) further: Vec<Providers>,
    pub(crate) looked_further: usize,
    acts: HashMap<Url, Vec<Act>>,
    pub(crate) asked: Vec<SeenRequest>,
    in_flight: HashMap<Domain, usize>,
    pub(crate) most_in_flight: HashMap<Domain, usize>,
    pub(crate) most_fetches: usize,
    pub(crate) released: Vec<(i64, EventId)>,
    pub(crate) ended: Vec<(Identifier, AttemptEnd)>,
    pub(crate) begun: Vec<Identifier>,
    pub(crate) looks: usize,
    pub(crate) is_broken: bool,
}

/// A node and all its hosts.
pub(crate) struct World {
    began: Instant,
    pub(crate) state: Mutex<State>,
    changes: watch::Sender<u64>,
    /// Steps of others, each before that call of the seam, counted from zero.
    schedule: Mutex<Schedule>,
}

#[derive(Default)]
struct Schedule {
    calls: usize,
    steps: VecDeque<(usize, Step)>,
}

/// Something that another task does in the meantime.
pub(crate) type Step = Box<dyn FnOnce() + Send>;

impl World {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            began: Instant::now(),
            state: Mutex::default(),
            changes: watch::Sender::new(0),
            schedule: Mutex::default(),
        })
    }

    /// Has others take `steps` in their order, each before the named call of the seam.
    pub(crate) fn interleave(&self, steps: impl IntoIterator<Item = (usize, Step)>) {
        self.schedule.lock().steps.extend(steps);
    }

    /// Takes the steps that are left, and says how many calls of the seam there were.
    pub(crate) fn take_steps_left(&self) -> usize {
        let mut schedule = self.schedule.lock();
        schedule.steps.drain(..).for_each(|(_, step)| step());
        schedule.calls
    }

    fn seam(&self) {
        let mut schedule = self.schedule.lock();
        let call = schedule.calls;
        schedule.calls += 1;
        while schedule.steps.front().is_some_and(|(at, _)| *at <= call) {
            let (_, step) = schedule.steps.pop_front().unwrap();
            step();
        }
    }

    fn clock(&self) -> Millis {
        Millis::new(1_700_000_000_000 + self.elapsed())
    }

    pub(crate) fn elapsed(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_millis()).unwrap()
    }

    /// Has an event of `name` wait, due after `delay`.
    pub(crate) fn wait_for(&self, name: &str, need: Need, delay: Duration) {
        let (identifier, due) = (identifier(name), self.clock() + delay);
        let mut state = self.state.lock();
        state
            .waiting
            .entry(identifier.clone())
            .or_default()
            .push(need);
        let entry = match state.queue.get(&identifier).copied() {
            Some(entry) if entry.in_progress => Entry {
                due,
                count: 0,
                renewed: true,
                ..entry
            },
            Some(entry) => Entry {
                due: due.min(entry.due),
                count: 0,
                ..entry
            },
            None => Entry {
                due,
                count: 0,
                in_progress: false,
                renewed: false,
            },
        };
        state.set(&identifier, Some(entry));
        drop(state);
        self.changes.send_modify(|n| *n += 1);
    }

    pub(crate) fn now_for(&self, name: &str, need: Need) {
        self.wait_for(name, need, Duration::ZERO);
    }

    /// Gives a URL objects.
    pub(crate) fn provide(&self, at: &str, numbers: &[u64]) {
        let mut state = self.state.lock();
        state.has.entry(url(at)).or_default().extend(oids(numbers));
    }

    /// Has a URL do these in turn, the last for ever.
    pub(crate) fn act(&self, at: &str, acts: &[Act]) {
        self.state.lock().acts.insert(url(at), acts.to_vec());
    }

    pub(crate) fn asked_urls(&self) -> Vec<String> {
        let state = self.state.lock();
        state
            .asked
            .iter()
            .map(|asked| asked.url.to_string())
            .collect()
    }

    pub(crate) fn is_done(&self) -> bool {
        self.state.lock().waiting.is_empty()
    }

    pub(crate) fn put_here(&self, name: &str, numbers: &[u64]) {
        let mut state = self.state.lock();
        state
            .here
            .entry(identifier(name))
            .or_default()
            .extend(oids(numbers));
    }

    fn next_act(&self, at: &Url) -> Option<Act> {
        let mut state = self.state.lock();
        let acts = state.acts.get_mut(at)?;
        if acts.len() > 1 {
            return Some(acts.remove(0));
        }
        acts.first().cloned()
    }

    fn deliver(&self, job: Job<'_>) -> BTreeSet<Oid> {
        let mut state = self.state.lock();
        let has = state.has.get(job.url).cloned().unwrap_or_default();
        let arrived: BTreeSet<Oid> = has.intersection(job.wants).copied().collect();
        let here = state.here.entry(job.identifier.clone()).or_default();
        here.extend(&arrived);
        arrived
    }
}

impl State {
    pub(crate) fn forget_acts(&mut self, at: &Url) {
        self.acts.remove(at);
    }

    pub(crate) fn set(&mut self, identifier: &Identifier, entry: Option<Entry>) {
        if let Some(before) = self.queue.remove(identifier) {
            self.due.remove(&(before.due, identifier.clone()));
        }
        let Some(entry) = entry else { return };
        self.queue.insert(identifier.clone(), entry);
        if !entry.in_progress {
            self.due.insert((entry.due, identifier.clone()));
        }
    }
}

/// The node, as the search holds it.
pub(crate) struct Service(Arc<World>);

impl std::ops::Deref for Service {
    type Target = World;

    fn deref(&self) -> &World {
        &self.0
    }
}

impl SyncContext for Service {
    fn now(&self) -> Millis {
        self.clock()
    }

    fn next_sync(&self) -> Option<Millis> {
        let mut state = self.state.lock();
        state.looks += 1;
        state.due.first().map(|(due, _)| *due)
    }

    fn begin_sync(&self) -> NextSync {
        let now = self.now();
        let mut state = self.state.lock();
        state.looks += 1;
        let Some((due, identifier)) = state.due.first().cloned() else {
            return NextSync::Nothing;
        };
        if due > now {
            return NextSync::In(due.since(now));
        }
        let mut entry = state.queue[&identifier];
        entry.in_progress = true;
        state.set(&identifier, Some(entry));
        state.begun.push(identifier.clone());
        NextSync::Due(identifier)
    }

    fn attempt_count(&self, identifier: &Identifier) -> u32 {
        self.seam();
        let state = self.state.lock();
        state.queue.get(identifier).map_or(0, |entry| entry.count)
    }

    async fn finish_sync(&self, identifier: &Identifier, after: AttemptEnd) {
        let now = self.now();
        let mut state = self.state.lock();
        state.ended.push((identifier.clone(), after));
        let Some(mut entry) = state.queue.get(identifier).copied() else {
            return;
        };
        assert!(entry.in_progress, "only what began can end");
        entry.in_progress = false;
        let (wait, counts) = match after {
            AttemptEnd::Complete if !entry.renewed => return state.set(identifier, None),
            AttemptEnd::Complete => (Duration::ZERO, 0),
            AttemptEnd::Retry(wait) => (wait, 1),
            AttemptEnd::Resume(wait) => (wait, 0),
        };
        if !entry.renewed {
            entry.count += counts;
            entry.due = now + wait;
        }
        entry.renewed = false;
        state.set(identifier, Some(entry));
        drop(state);
        self.changes.send_modify(|n| *n += 1);
    }

    fn sync_changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn has_pending_events(&self, identifier: &Identifier) -> bool {
        self.seam();
        self.state.lock().waiting.contains_key(identifier)
    }

    async fn needs(&self, identifier: &Identifier) -> Result<Vec<Need>, NeedsError> {
        tokio::task::yield_now().await;
        self.seam();
        let state = self.state.lock();
        if state.is_broken {
            return Err(NeedsError("the disk is gone".into()));
        }
        let nothing = BTreeSet::new();
        let here = state.here.get(identifier).unwrap_or(&nothing);
        let waiting = state.waiting.get(identifier).into_iter().flatten();
        let lacks = waiting.map(|need| Need {
            oids: need.oids.difference(here).copied().collect(),
            ..need.clone()
        });
        Ok(lacks.filter(|need| !need.oids.is_empty()).collect())
    }

    async fn process_newly_available_git_data(&self, identifier: &Identifier) -> usize {
        let at = self.elapsed();
        let mut state = self.state.lock();
        let here = state.here.get(identifier).cloned().unwrap_or_default();
        let Some(waiting) = state.waiting.remove(identifier) else {
            return 0;
        };
        let (ready, rest): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .partition(|need| need.oids.is_subset(&here));
        if !rest.is_empty() {
            state.waiting.insert(identifier.clone(), rest);
        }
        state
            .released
            .extend(ready.iter().map(|need| (at, need.event)));
        ready.len()
    }
}

impl FindProviders for World {
    fn find_providers<'a>(
        &'a self,
        _: &'a Identifier,
        _: &'a [Need],
    ) -> BoxFuture<'a, Vec<Providers>> {
        self.seam();
        let mut state = self.state.lock();
        state.looked_further += 1;
        Box::pin(std::future::ready(state.further.clone()))
    }
}

impl Fetch for Arc<World> {
    fn check(&self, url: &Url) -> Result<(), Forbidden> {
        self.seam();
        match url.host_str() {
            Some("own.example") => Err(Forbidden::Own(domain("own.example"))),
            _ => Ok(()),
        }
    }

    async fn fetch(&self, job: Job<'_>, permit: Permit) -> Result<Fetched, FetchError> {
        let _under_way = UnderWay::new(self, &job, &permit);
        let mut fetched = Fetched::default();
        match self.next_act(job.url) {
            Some(Act::Fail) => {
                permit.finish(Verdict::Failure, None);
                return Err(RemoteError::Truncated.into());
            }
            Some(Act::Refuse) => {
                permit.finish(Verdict::Neutral, None);
                return Err(RemoteError::Refused("no such repository".to_owned()).into());
            }
            Some(Act::Hang) => std::future::pending().await,
            Some(Act::Forbidden) => {
                permit.unused();
                return Err(FetchError::Forbidden(Forbidden::NoHost));
            }
            Some(Act::Resume) => fetched.resume = true,
            Some(Act::Send(bytes)) => {
                job.meter.add(bytes);
                fetched.arrived = self.deliver(job);
            }
            Some(Act::Slow(time)) => {
                sleep(time).await;
                fetched.arrived = self.deliver(job);
            }
            Some(Act::Panic) => panic!("told to"),
            None => fetched.arrived = self.deliver(job),
        }
        permit.finish(Verdict::Success, None);
        Ok(fetched)
    }
}

struct UnderWay {
    world: Arc<World>,
    domain: Domain,
}

impl UnderWay {
    fn new(world: &Arc<World>, job: &Job<'_>, permit: &Permit) -> Self {
        let at = world.elapsed();
        let domain = Domain::of(job.url).unwrap();
        assert_eq!(&domain, permit.domain());
        let mut state = world.state.lock();
        state.asked.push(SeenRequest {
            at,
            identifier: job.identifier.clone(),
            url: job.url.clone(),
            wants: job.wants.clone(),
        });
        let now = state.in_flight.entry(domain.clone()).or_default();
        *now += 1;
        let now = *now;
        let most = state.most_in_flight.entry(domain.clone()).or_default();
        *most = now.max(*most);
        state.most_fetches = state.most_fetches.max(state.in_flight.values().sum());
        drop(state);
        let world = Arc::clone(world);
        Self { world, domain }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        let mut state = self.world.state.lock();
        *state.in_flight.get_mut(&self.domain).unwrap() -= 1;
    }
}

/// Options without chance.
pub(crate) fn steady() -> Options {
    Options {
        backoff: Backoff {
            random: Arc::new(|| 0.5),
            ..Backoff::default()
        },
        ..Options::default()
    }
}

pub(crate) type TestEngine = Engine<Service, Arc<World>>;

fn parts(
    world: &Arc<World>,
    options: Options,
    limits: grip_limits::Options,
    group: TaskGroup,
) -> Parts<Service, Arc<World>> {
    Parts {
        context: Service(Arc::clone(world)),
        providers: Arc::clone(world) as Arc<dyn FindProviders>,
        fetch: Arc::clone(world),
        throttle: Throttle::memory(limits),
        options,
        group,
    }
}

/// An engine without its loops.
pub(crate) fn engine(world: &Arc<World>) -> TestEngine {
    let limits = grip_limits::Options::default();
    let parts = parts(world, steady(), limits, TaskGroup::new("test"));
    Engine::new(parts, CancellationToken::new())
}

/// A running sync; the group stops it.
pub(crate) fn start(world: &Arc<World>, options: Options) -> (Sync, TaskGroup) {
    start_with(world, options, grip_limits::Options::default())
}

pub(crate) fn start_with(
    world: &Arc<World>,
    options: Options,
    limits: grip_limits::Options,
) -> (Sync, TaskGroup) {
    let group = TaskGroup::new("test");
    let sync = Sync::start(parts(world, options, limits, group.clone()));
    (sync, group)
}

/// How often each URL was asked.
pub(crate) fn counts(world: &World) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for url in world.asked_urls() {
        *counts.entry(url).or_default() += 1;
    }
    counts
}
