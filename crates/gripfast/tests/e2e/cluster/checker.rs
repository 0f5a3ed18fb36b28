//! Faults at random under a workload, and a ledger of all that was acknowledged: the short form of
//! `cargo xtask campaign cluster`.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::{join_all, try_join_all};
use grip_testkit::{
    Node, PostgresServer, Project, RedisServer, RelayClient, S3Fault, S3Server, http::Connection,
};
use nostr::prelude::Event;
use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::{
    sync::Mutex,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};

use super::scene::{Cluster, Surroundings};
use crate::crash::{
    ledger::Ledger,
    workload::{self, Maintainer, Random},
};

const NODES: usize = 3;
const CLIENTS: usize = 8;
/// Faults that overlap.
const AT_ONCE: u32 = 3;
/// Ledgers that are checked after a round; all are in the end.
const CHECKED: usize = 2;
/// How often a cluster may fail to be whole within a deadline after a round: where the machine has other
/// work, nodes that start beside each other take longer than one alone.
const RECOVERIES: usize = 5;
/// Lines of the log of each node that a failure is told with.
const LOG_LINES: usize = 60;

/// Faults per test; each kind is among them. The campaign sets it higher.
fn faults() -> u32 {
    chosen("GRIPFAST_CLUSTER_FAULTS").unwrap_or(Fault::ALL.len() as u32)
}

/// Which faults, in which order.
fn seed() -> u64 {
    chosen("GRIPFAST_CLUSTER_SEED").unwrap_or(11)
}

fn chosen<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

/// Shorter than half of the faults last, so that another node leads.
const LEASE: (&str, &str) = ("GRIPFAST_CLUSTER_LEASE", "2s");
/// A fault lasts up to so many milliseconds.
const LONGEST_MS: u64 = 4_000;
const SHORTEST_MS: u64 = 200;
/// How far clocks are off, in seconds: far beyond every lease, and short of what uploads wait for their
/// events.
const CLOCKS: [i64; 3] = [-300, 0, 300];
const SLOW_STORE: Duration = Duration::from_millis(400);

/// What happens to a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fault {
    Kill,
    Pause,
    /// Nothing gets through between a node and the database.
    DatabaseCut,
    /// The same between a node and the object store.
    StoreCut,
    ClockJump,
    DatabaseRestart,
    /// The database stands still, and its connections stay open.
    DatabasePause,
    StoreDown,
    /// Some requests fail, and some that were made are said to have failed.
    StoreFlaky,
    StoreSlow,
    /// The server that limits are shared by stands still.
    RedisPause,
}

impl Fault {
    const ALL: [Self; 11] = [
        Self::Kill,
        Self::Pause,
        Self::DatabaseCut,
        Self::StoreCut,
        Self::ClockJump,
        Self::DatabaseRestart,
        Self::DatabasePause,
        Self::StoreDown,
        Self::StoreFlaky,
        Self::StoreSlow,
        Self::RedisPause,
    ];
}

/// All that a fault may befall beside what is around one node.
struct Parts<'c> {
    nodes: &'c [Node],
    database: Mutex<&'c mut PostgresServer>,
    /// One fault of it at a time: they would end each other.
    store: Mutex<&'c S3Server>,
    redis: &'c RedisServer,
}

/// A fault with its place and time.
#[derive(Clone, Copy, Debug)]
struct Strike {
    fault: Fault,
    victim: usize,
    after: Duration,
    lasts: Duration,
    clock: i64,
}

/// Strikes at random, with every kind of fault as often as any other.
struct Strikes {
    random: Random,
    /// Kinds that are still to come before the first comes again.
    left: Vec<Fault>,
    struck: BTreeMap<Fault, u32>,
    longest_recovery: Duration,
}

impl Strikes {
    fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            left: Vec::new(),
            struck: BTreeMap::new(),
            longest_recovery: Duration::ZERO,
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    fn next(&mut self) -> Strike {
        if self.left.is_empty() {
            self.left.extend(Fault::ALL);
        }
        let at = self.below(self.left.len());
        let fault = self.left.swap_remove(at);
        *self.struck.entry(fault).or_default() += 1;
        let lasts = SHORTEST_MS + self.random.below(LONGEST_MS - SHORTEST_MS);
        Strike {
            fault,
            victim: self.below(NODES),
            after: Duration::from_millis(self.random.below(1_500)),
            lasts: Duration::from_millis(lasts),
            clock: CLOCKS[self.below(CLOCKS.len())],
        }
    }
}

/// Nothing acknowledged is lost, no claim is served without its proof, no two states are served at once, what
/// one client reads never goes back, and all nodes end equal, whatever happens to them, the database, the
/// object store and Redis.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_acknowledged_is_lost_over_random_faults() -> Result<()> {
    let (seed, began) = (seed(), Instant::now());
    let redis = RedisServer::start().await?;
    let redis_url = redis.url();
    let env = [LEASE, ("GRIPFAST_REDIS_URL", &*redis_url)];
    let (mut cluster, surroundings) = Cluster::start_exposed(NODES, &env).await?;
    let mut clients = Vec::new();
    for first in 0..CLIENTS {
        clients.push(Client {
            maintainer: Maintainer::new(&cluster.nodes[0])?,
            ledger: Ledger::default(),
            first,
            // Another one than that of the faults, and of the other clients.
            random: Random::new(seed * 1_000 + 1 + first as u64),
        });
    }
    let ports: Vec<u16> = cluster.nodes.iter().map(Node::port).collect();
    let readers = clients.iter().map(|client| {
        let Project { owner, identifier } = client.maintainer.project();
        Reader {
            ports: ports.clone(),
            path: client.maintainer.path(),
            states: json!({"kinds": [30618], "authors": [owner.hex()], "#d": [identifier]}),
            reads: Vec::new(),
        }
    });
    let mut readers: Vec<Reader> = readers.collect();
    let mut strikes = Strikes::new(seed);
    // Everybody has something to lose, also where the machine is slower than the faults.
    let begun = clients
        .iter_mut()
        .map(|client| client.cycle(&cluster.nodes[client.first % NODES]));
    try_join_all(begun).await?;
    let played = tokio::select! {
        played = play(&mut cluster, (&surroundings, &redis), &mut clients, &mut strikes) => played,
        read = try_join_all(readers.iter_mut().map(Reader::read_on)) => read.map(drop),
    };
    played.with_context(|| {
        let logs: Vec<String> = cluster.nodes.iter().map(end_of_log).collect();
        format!("seed {seed}, {:?}\n{}", strikes.struck, logs.join("\n"))
    })?;
    let (mut read, mut states) = (0, 0);
    for (reader, client) in readers.iter().zip(&mut clients) {
        client.ledger.check(&cluster.nodes[0]).await?;
        reader.never_went_back(client.maintainer.history())?;
        read += reader.reads.len();
        states += reader.reads.iter().filter(|read| read.is_state).count();
        println!("{}", client.ledger.summary());
    }
    let acknowledged: usize = clients.iter().map(|it| it.ledger.acknowledged()).sum();
    ensure!(acknowledged > 0, "the workload got nothing done");
    ensure!(states > 0 && read > states, "nobody read anything");
    println!(
        "seed {seed}: {:?}; {acknowledged} acknowledged, {read} reads, {states} of them of states, whole again within {:.0?}, {:.0?}",
        strikes.struck,
        strikes.longest_recovery,
        began.elapsed()
    );
    let leader = cluster.leader().await?;
    cluster.nodes[leader].run(&["check"]).await?;
    cluster.stop_and_compare().await
}

fn end_of_log(node: &Node) -> String {
    let log = node.log();
    let lines: Vec<&str> = log.lines().collect();
    let end = &lines[lines.len().saturating_sub(LOG_LINES)..];
    format!("--- node at {}\n{}", node.authority(), end.join("\n"))
}

/// Works, strikes, recovers and checks, round after round.
async fn play(
    cluster: &mut Cluster,
    (surroundings, redis): (&[Surroundings], &RedisServer),
    clients: &mut [Client],
    strikes: &mut Strikes,
) -> Result<()> {
    let mut struck = 0;
    while struck < faults() {
        let count = AT_ONCE.min(faults() - struck);
        let round: Vec<Strike> = (0..count).map(|_| strikes.next()).collect();
        struck += count;
        let (nodes, database, store) = cluster.parts();
        let parts = Parts {
            nodes,
            database: Mutex::new(database),
            store: Mutex::new(store),
            redis,
        };
        let striking = round
            .iter()
            .map(|it| it.strike(&parts, &surroundings[it.victim]));
        let working = join_all(clients.iter_mut().map(|client| client.work(nodes)));
        let told = tokio::select! {
            // Clients see the faults, and are cut off when they are over.
            _ = working => unreachable!("clients work on"),
            told = try_join_all(striking) => told,
        };
        told.with_context(|| format!("{round:?}"))?;
        let checked = recover(cluster, clients, strikes).await;
        checked.with_context(|| format!("after {struck} faults, the last {round:?}"))?;
    }
    Ok(())
}

/// Somebody who works on a repository at one node after the other.
struct Client {
    maintainer: Maintainer,
    ledger: Ledger,
    first: usize,
    random: Random,
}

impl Client {
    async fn cycle(&mut self, node: &Node) -> Result<()> {
        workload::cycle(node, &mut self.maintainer, &mut self.ledger).await
    }

    async fn work(&mut self, nodes: &[Node]) {
        for node in nodes.iter().cycle().skip(self.first) {
            let (who, ledger) = (&mut self.maintainer, &mut self.ledger);
            let step = workload::step(node, who, ledger, &mut self.random);
            if step.await.is_err() {
                // As people do: a node that is down would be asked thousands of times.
                sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// Somebody who reads one branch again and again, each time at the next node: in git, and now and then in
/// the state.
struct Reader {
    ports: Vec<u16>,
    path: String,
    /// The filter of the states of the repository.
    states: Value,
    /// In the order in which it was read.
    reads: Vec<Read>,
}

/// Where `main` was.
struct Read {
    tip: String,
    is_state: bool,
}

/// One of so many looks is at the state; no multiple of the nodes.
const STATE_EVERY: usize = 4;

impl Reader {
    async fn read_on(&mut self) -> Result<()> {
        let mut pace = interval(Duration::from_millis(50));
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        for (look, port) in self.ports.clone().iter().cycle().enumerate() {
            pace.tick().await;
            let is_state = look.is_multiple_of(STATE_EVERY);
            // A node that is down, or cannot tell whether it is up to date, shows nothing.
            let tips = if is_state {
                let reading = timeout(Duration::from_secs(2), states_at(*port, &self.states));
                let states = reading.await.unwrap_or(Ok(Vec::new())).unwrap_or_default();
                ensure!(states.len() < 2, "served at once: {states:?}");
                states.iter().filter_map(main_of).collect()
            } else {
                let reading = timeout(Duration::from_secs(2), main_at(*port, &self.path));
                let main = reading.await.unwrap_or(Ok(None)).unwrap_or_default();
                Vec::from_iter(main)
            };
            let reads = tips.into_iter().map(|tip| Read { tip, is_state });
            self.reads.extend(reads);
        }
        Ok(())
    }

    /// What was read in git never is before what was read in git or in a state; a state is never before one
    /// that was read: refs are where a state says before it is served.
    fn never_went_back(&self, history: &[String]) -> Result<()> {
        let (mut in_git, mut in_states) = (0, 0);
        for Read { tip, is_state } in &self.reads {
            let at = history.iter().position(|known| known == tip);
            let at = at.with_context(|| format!("{tip} was never committed"))?;
            if *is_state {
                ensure!(
                    at >= in_states,
                    "state {at} was shown after state {in_states}"
                );
                in_states = at;
            } else {
                let last = in_git.max(in_states);
                ensure!(at >= last, "commit {at} was shown after commit {last}");
                in_git = at;
            }
        }
        Ok(())
    }
}

/// The states that a node serves of a repository.
async fn states_at(port: u16, filter: &Value) -> Result<Vec<Event>> {
    let mut relay = RelayClient::connect(&format!("ws://127.0.0.1:{port}")).await?;
    relay.query(std::slice::from_ref(filter)).await
}

/// Where a state says that `main` is.
fn main_of(state: &Event) -> Option<String> {
    let mut tags = state.tags.iter();
    let main = tags.find(|tag| tag.kind() == "refs/heads/main")?;
    main.content().map(str::to_owned)
}

/// Where a node shows `main`, without a process of git for it.
async fn main_at(port: u16, path: &str) -> Result<Option<String>> {
    let mut connection = Connection::open(port).await?;
    let path = format!("{path}/info/refs?service=git-upload-pack");
    let response = connection.get(&path).await?;
    ensure!(response.status == 200, "{}", response.status);
    let text = response.text();
    let mut lines = text.lines();
    let main = lines.find_map(|line| line.strip_suffix(" refs/heads/main"));
    Ok(main
        .and_then(|line| line.get(line.len() - 40..))
        .map(str::to_owned))
}

impl Strike {
    async fn strike(&self, parts: &Parts<'_>, around: &Surroundings) -> Result<()> {
        // Not a wait for something to happen: the moment of the fault is the experiment.
        sleep(self.after).await;
        let (victim, store) = (&parts.nodes[self.victim], &parts.store);
        match self.fault {
            Fault::Kill => victim.signal(Signal::KILL)?,
            Fault::Pause => {
                victim.signal(Signal::STOP)?;
                sleep(self.lasts).await;
                victim.signal(Signal::CONT)?;
            }
            Fault::DatabaseCut => {
                around.to_database.block();
                sleep(self.lasts).await;
                around.to_database.unblock();
            }
            Fault::StoreCut => {
                around.to_store.block();
                sleep(self.lasts).await;
                around.to_store.unblock();
            }
            Fault::ClockJump => {
                around.clock.set_off_by(self.clock)?;
                sleep(self.lasts).await;
            }
            Fault::DatabaseRestart => parts.database.lock().await.restart().await?,
            Fault::DatabasePause => {
                let server = parts.database.lock().await;
                server.freeze()?;
                sleep(self.lasts).await;
                server.thaw()?;
            }
            Fault::RedisPause => {
                parts.redis.freeze()?;
                sleep(self.lasts).await;
                parts.redis.thaw()?;
            }
            Fault::StoreDown => self.with(store, S3Fault::Unavailable).await,
            Fault::StoreFlaky => self.with(store, S3Fault::Flaky { one_in: 3 }).await,
            Fault::StoreSlow => self.with(store, S3Fault::Slow(SLOW_STORE)).await,
        }
        Ok(())
    }

    async fn with(&self, store: &Mutex<&S3Server>, fault: S3Fault) {
        let store = store.lock().await;
        store.fault(Some(fault));
        sleep(self.lasts).await;
        store.fault(None);
    }
}

/// Waits until the cluster has recovered, and looks at what some clients were told.
async fn recover(
    cluster: &mut Cluster,
    clients: &mut [Client],
    strikes: &mut Strikes,
) -> Result<()> {
    let began = Instant::now();
    let mut recovered = is_whole(cluster).await;
    for _ in 1..RECOVERIES {
        match &recovered {
            Ok(true) => break,
            Ok(false) => {}
            Err(error) => println!("not whole after {:.0?}: {error:#}", began.elapsed()),
        }
        recovered = is_whole(cluster).await;
    }
    ensure!(recovered?, "nodes end again and again");
    strikes.longest_recovery = strikes.longest_recovery.max(began.elapsed());
    let asked = &cluster.nodes[strikes.below(NODES)];
    let first = strikes.below(clients.len());
    for at in first..first + CHECKED {
        clients[at % CLIENTS].ledger.check(asked).await?;
    }
    Ok(())
}

/// Starts what has ended, as a service manager does, and waits until all nodes have caught up. A node that
/// was struck may find out meanwhile that it does not lead any more, and end.
async fn is_whole(cluster: &mut Cluster) -> Result<bool> {
    cluster.start_ended().await?;
    cluster.leader().await?;
    // A follower that begins to lead listens again after a moment.
    cluster.start_ended().await?;
    cluster.settle().await?;
    cluster.has_all_packs().await?;
    Ok(cluster.nodes.iter_mut().all(|node| node.is_running()))
}
