//! Clusters of one, two and three nodes beside a node alone: push cycles, events, reads, and the commits that
//! their database makes.
//!
//! Everything runs on this machine, the clients too. So each row says how many cores were busy: where all
//! are, more nodes share what one had.

use std::{fmt, path::Path, time::Duration};

use anyhow::{Context as _, Result, ensure};
use futures_util::future::try_join_all;
use grip_testkit::{Author, Node, PostgresServer, Project, WorkTree, wire};
use sqlx::{Connection as _, PgConnection};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::{
    advertise,
    cycle::{self, Prepared},
    events, fanout,
    fixture::{Fixture, SETTINGS},
    http::Connection,
    report::Table,
};

const MOST_NODES: usize = 3;
const EVENTS: usize = 6_000;
const READS: usize = 12_000;
/// Connections of all clients together.
const CONNECTIONS: usize = 12;
/// Events in flight on each.
const WINDOW: usize = 32;
/// How long commits are counted.
const PROBE: Duration = Duration::from_secs(2);
/// About what a record of one small push or a few events takes.
const RECORD_BYTES: i32 = 1_024;
const SUBSCRIBERS: usize = 500;
const FETCHES: usize = 40;
/// Commits that each fetch brings.
const FETCHED_COMMITS: usize = 10;
/// Repositories whose announcements and states are stored.
const STORED: usize = 1_000;
/// Records after which a snapshot is made: never here, so that the log is not trimmed and its bytes count.
const SNAPSHOT_RECORDS: &str = "1000000000";

/// What a node alone, or so many in a cluster, did.
struct Rates {
    cycles: Rate,
    events: Rate,
    reads: Rate,
}

/// How often a second something was done, how many cores were busy meanwhile, and how many records the log
/// got for each, of how many bytes.
#[derive(Clone, Copy)]
struct Rate {
    per_second: f64,
    cores: f64,
    records: f64,
    log_bytes: f64,
}

/// Records that the log has had, and their bytes.
#[derive(Clone, Copy, Default)]
struct Logged {
    records: i64,
    bytes: i64,
}

pub async fn measure(binary: &Path, table: &mut Table) -> Result<()> {
    let alone = Service::alone(binary).await?.rates().await?;
    add_rows(table, "a node alone", &alone, &alone, None);
    let mut one_node = None;
    for count in 1..=MOST_NODES {
        let service = Service::cluster(binary, count).await?;
        let rates = service.rates().await?;
        let commits = service.commits().await?;
        let beside = one_node.as_ref().unwrap_or(&alone);
        let name = format!("cluster of {count}");
        add_rows(table, &name, &rates, beside, Some(commits));
        one_node.get_or_insert(rates);
    }
    // Of processes that have done nothing yet: what memory they have left would hide what subscribers take.
    let fresh = Service::cluster(binary, MOST_NODES).await?;
    fresh.add_unit_costs(table).await
}

/// Adds three rows; the ratio is to `beside`: of a cluster of one to a node alone, of more to one.
fn add_rows(table: &mut Table, name: &str, rates: &Rates, beside: &Rates, commits: Option<f64>) {
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    let rows = [
        ("push cycles, wire", rates.cycles, beside.cycles),
        ("events", rates.events, beside.events),
        ("info/refs v2", rates.reads, beside.reads),
    ];
    for (what, rate, beside) in rows {
        let Rate {
            per_second,
            cores,
            records,
            log_bytes,
        } = rate;
        let floor = commits.map_or_else(
            || "–".to_owned(),
            |commits| {
                let appended = per_second * records;
                format!(
                    "{records:.2} records of {log_bytes:.0} bytes in all each, {appended:.0}/s; \
                     Postgres commits {commits:.0}/s, one after the other"
                )
            },
        );
        let value = format!("{per_second:.0}/s, {cores:.1} of {all} cores busy");
        let path = format!("{name}: {what}");
        let ratio = per_second / beside.per_second;
        table.row(&path, value, &floor, Some(ratio), "–");
    }
}

/// Nodes that serve the same repositories, or one alone.
struct Service {
    fixture: Fixture,
    others: Vec<Node>,
    /// The database of a cluster, and the directory of its packs.
    shared: Option<(PostgresServer, TempDir)>,
}

impl Service {
    async fn alone(binary: &Path) -> Result<Self> {
        Ok(Self {
            fixture: Fixture::new(binary).await?,
            others: Vec::new(),
            shared: None,
        })
    }

    async fn cluster(binary: &Path, count: usize) -> Result<Self> {
        let (server, packs) = (PostgresServer::durable().await?, TempDir::new()?);
        let mut nodes: Vec<Node> = Vec::new();
        for number in 0..count {
            let mut node = Node::prepare(binary, SETTINGS)?;
            let domain = nodes
                .first()
                .map_or_else(|| node.authority(), Node::authority);
            node.set_env("NGIT_DOMAIN", &domain);
            node.set_env("DATABASE_URL", &server.url());
            let place = packs.path().to_str().context("UTF-8")?;
            node.set_env("GRIPFAST_CLUSTER_PACKS", place);
            node.set_env("GRIPFAST_CLUSTER_SNAPSHOT_RECORDS", SNAPSHOT_RECORDS);
            node.set_env("GRIPFAST_NODE_NAME", &format!("node-{number}"));
            node.launch().await?;
            nodes.push(node);
        }
        let others = nodes.split_off(1);
        let first = nodes.pop().context("one node at least")?;
        Ok(Self {
            fixture: Fixture::at(first).await?,
            others,
            shared: Some((server, packs)),
        })
    }

    fn nodes(&self) -> Vec<&Node> {
        let first = std::iter::once(&self.fixture.node);
        first.chain(&self.others).collect()
    }

    async fn rates(&self) -> Result<Rates> {
        Ok(Rates {
            cycles: self.cycles().await?,
            events: self.events().await?,
            reads: self.reads().await?,
        })
    }

    /// Push cycles of several repositories at once, each at another node.
    async fn cycles(&self) -> Result<Rate> {
        let nodes = self.nodes();
        let mut prepared = Vec::new();
        for number in 0..cycle::REPOSITORIES {
            prepared.push(Prepared::new(&self.fixture.node, number).await?);
        }
        let measured = Measurement::begin(self).await?;
        let places = nodes.iter().cycle();
        let running = prepared.iter().zip(places).map(|(it, node)| it.run(node));
        try_join_all(running).await?;
        measured
            .end(cycle::REPOSITORIES * cycle::PUSHES as usize)
            .await
    }

    async fn events(&self) -> Result<Rate> {
        let authors: Vec<Author> = (0..50).map(|_| Author::new()).collect();
        let all = self.fixture.issues(&authors, EVENTS);
        let nodes = self.nodes();
        let shares = all.chunks(EVENTS.div_ceil(nodes.len()));
        let measured = Measurement::begin(self).await?;
        let sending = shares
            .zip(&nodes)
            .map(|(share, node)| events::send_all(node, share, CONNECTIONS / nodes.len(), WINDOW));
        try_join_all(sending).await?;
        measured.end(EVENTS).await
    }

    async fn reads(&self) -> Result<Rate> {
        let path = self.fixture.project.path();
        let path = format!("{path}/info/refs?service=git-upload-pack");
        let nodes = self.nodes();
        let read = |node: &Node| {
            let (port, path) = (node.port(), path.clone());
            async move {
                let mut connection = Connection::open(port).await?;
                for _ in 0..READS / CONNECTIONS {
                    connection.get(&path, "Git-Protocol: version=2\r\n").await?;
                }
                anyhow::Ok(())
            }
        };
        let measured = Measurement::begin(self).await?;
        let places = nodes.iter().cycle().take(CONNECTIONS);
        try_join_all(places.map(|node| read(node))).await?;
        measured.end(READS).await
    }

    /// What subscribers, listings, fetches, forwarded events and stored repositories cost the parts of a cluster
    /// that has done nothing yet.
    async fn add_unit_costs(&self, table: &mut Table) -> Result<()> {
        let mut row = |path: &str, value: String, floor: &str| {
            table.row(&format!("cluster: {path}"), value, floor, None, "–");
        };
        let memory = self.subscriber_bytes().await?.map(|bytes| bytes / 1e3);
        let [leader, follower] = memory;
        row(
            "memory per idle subscriber of a follower",
            format!("{leader:.0} kB on the leader, {follower:.0} kB on the follower"),
            "–",
        );
        let (per_second, cpu) = self.listings().await?;
        row(
            "ls-refs from one follower",
            format!("{per_second:.0}/s; {cpu}"),
            "–",
        );
        let cpu = self.fetches().await?;
        let path = format!("fetch of {FETCHED_COMMITS} commits from one follower, by git");
        row(&path, cpu.to_string(), "–");
        let cpu = self.forwarded_events().await?;
        row("event sent to one follower", cpu.to_string(), "–");
        let (stored, json) = self.stored_bytes().await?;
        row(
            "event store per announcement and state",
            format!("{stored:.0} bytes"),
            &format!("{json:.0} bytes of JSON"),
        );
        Ok(())
    }

    fn leader_and_follower(&self) -> Result<(&Node, &Node)> {
        Ok((&self.fixture.node, self.others.last().context("others")?))
    }

    /// Bytes of memory that each subscriber of a follower takes on the leader and on the follower.
    async fn subscriber_bytes(&self) -> Result<[f64; 2]> {
        let (leader, follower) = self.leader_and_follower()?;
        let memory = || {
            let (leader, follower) = (
                leader.anonymous_rss_bytes()?,
                follower.anonymous_rss_bytes()?,
            );
            anyhow::Ok([leader, follower])
        };
        let before = memory()?;
        let subscribers = fanout::subscribe(follower, SUBSCRIBERS).await?;
        let after = memory()?;
        drop(subscribers);
        Ok([0, 1].map(|at| after[at].saturating_sub(before[at]) as f64 / SUBSCRIBERS as f64))
    }

    /// Listings a second of a follower, and what each costs.
    async fn listings(&self) -> Result<(f64, Cpu)> {
        let (_, follower) = self.leader_and_follower()?;
        let path = format!("{}/git-upload-pack", self.fixture.project.path());
        let listing = || async {
            let mut connection = Connection::open(follower.port()).await?;
            for _ in 0..READS / CONNECTIONS {
                connection = advertise::list_refs(connection, &path).await?;
            }
            anyhow::Ok(())
        };
        let (began, before) = (Instant::now(), self.cpu()?);
        try_join_all((0..CONNECTIONS).map(|_| listing())).await?;
        let per_second = READS as f64 / began.elapsed().as_secs_f64();
        Ok((per_second, self.cpu()?.each_since(before, READS)))
    }

    /// What it costs to fetch some commits from a follower for a client that has those before them.
    async fn fetches(&self) -> Result<Cpu> {
        let (leader, follower) = self.leader_and_follower()?;
        let project = &self.fixture.project;
        let url = project.url(follower);
        let mut clients = Vec::new();
        for _ in 0..FETCHES {
            let client = WorkTree::init()?;
            client.git(["fetch", "-q", &url, "main:refs/heads/before"])?;
            clients.push(client);
        }
        for number in 0..FETCHED_COMMITS {
            project.tree.commit("file", &number.to_string())?;
        }
        let tip = project.tree.tip("HEAD")?;
        let state = self.fixture.state(&[("refs/heads/main", &tip)], 1);
        leader.connect().await?.publish_ok(&state).await?;
        project.push(leader).await?;
        let before = self.cpu()?;
        for client in &clients {
            client.git(["fetch", "-q", &url, "main:refs/heads/after"])?;
        }
        let cpu = self.cpu()?.each_since(before, FETCHES);
        for client in &clients {
            ensure!(client.tip("refs/heads/after")? == tip);
        }
        Ok(cpu)
    }

    /// What an event costs that a client sends to a follower.
    async fn forwarded_events(&self) -> Result<Cpu> {
        let (_, follower) = self.leader_and_follower()?;
        let authors: Vec<Author> = (0..50).map(|_| Author::new()).collect();
        let events = self.fixture.issues(&authors, EVENTS);
        let before = self.cpu()?;
        events::send_all(follower, &events, CONNECTIONS, WINDOW).await?;
        Ok(self.cpu()?.each_since(before, EVENTS))
    }

    /// Bytes that the announcement and the state of a repository take in the event store, and as JSON.
    async fn stored_bytes(&self) -> Result<(f64, f64)> {
        let (leader, _) = self.leader_and_follower()?;
        let store = leader.data_dir().join("relay/events/data.mdb");
        let tree = &self.fixture.project.tree;
        let tip = tree.tip("HEAD")?;
        let commands = [(wire::ZERO, tip.as_str(), "refs/heads/main")];
        let request = cycle::push_request(tree, &commands, &tip, None).await?;
        let mut relay = leader.connect().await?;
        let mut http = Connection::open(leader.port()).await?;
        let (before, mut json) = (std::fs::metadata(&store)?.len(), 0);
        for number in 0..STORED {
            let project = Project::new(&format!("stored-{number}"));
            let events = [
                project.announcement(&[leader], &[]),
                project.state(&[("refs/heads/main", &tip)]),
            ];
            for event in &events {
                relay.publish_ok(event).await?;
                json += serde_json::to_string(event)?.len();
            }
            cycle::push(&mut http, &project.path(), &request).await?;
        }
        let bytes = std::fs::metadata(&store)?.len() - before;
        Ok((bytes as f64 / STORED as f64, json as f64 / STORED as f64))
    }

    fn cpu(&self) -> Result<Cpu> {
        let (leader, follower) = self.leader_and_follower()?;
        let (postgres, _) = self.shared.as_ref().context("a node alone has none")?;
        Ok(Cpu {
            leader: leader.cpu_seconds()?,
            follower: follower.cpu_seconds()?,
            postgres: postgres.cpu_seconds()?,
            machine: busy_seconds()?,
        })
    }

    /// What the log has had; none is kept by a node alone.
    async fn logged(&self) -> Result<Logged> {
        let Some((server, _)) = &self.shared else {
            return Ok(Logged::default());
        };
        let mut db = PgConnection::connect(&server.url()).await?;
        let logged = "SELECT (SELECT max(seq) FROM clusters),
                             (SELECT coalesce(sum(pg_column_size(log.*)), 0)::BIGINT FROM cluster_log log)";
        let (records, bytes) = sqlx::query_as(logged).fetch_one(&mut db).await?;
        Ok(Logged { records, bytes })
    }

    /// Commits a second of one connection, each of a counter and a row, as records are appended.
    async fn commits(&self) -> Result<f64> {
        let (server, _) = self.shared.as_ref().context("a node alone has none")?;
        let mut db = PgConnection::connect(&server.url()).await?;
        let tables = "CREATE TABLE IF NOT EXISTS bench_counter (n BIGINT NOT NULL);
                      CREATE TABLE IF NOT EXISTS bench_log (content BYTEA NOT NULL);
                      INSERT INTO bench_counter VALUES (0)";
        sqlx::raw_sql(tables).execute(&mut db).await?;
        let (began, mut count) = (Instant::now(), 0);
        while began.elapsed() < PROBE {
            let mut transaction = db.begin().await?;
            let add = sqlx::query("UPDATE bench_counter SET n = n + 1");
            add.execute(&mut *transaction).await?;
            let content =
                sqlx::query("INSERT INTO bench_log VALUES (decode(repeat('7f', $1), 'hex'))");
            content
                .bind(RECORD_BYTES)
                .execute(&mut *transaction)
                .await?;
            transaction.commit().await?;
            count += 1;
        }
        Ok(f64::from(count) / began.elapsed().as_secs_f64())
    }
}

/// Seconds of CPU of the parts of a cluster, with the processes that they started, and of the whole machine.
#[derive(Clone, Copy)]
struct Cpu {
    leader: f64,
    follower: f64,
    postgres: f64,
    machine: f64,
}

impl Cpu {
    /// What each of `count` took.
    fn each_since(self, before: Self, count: usize) -> Self {
        let each = |after: f64, before: f64| (after - before) / count as f64;
        Self {
            leader: each(self.leader, before.leader),
            follower: each(self.follower, before.follower),
            postgres: each(self.postgres, before.postgres),
            machine: each(self.machine, before.machine),
        }
    }
}

impl fmt::Display for Cpu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [self.leader, self.follower, self.postgres, self.machine];
        let [leader, follower, postgres, machine] = parts.map(|seconds| seconds * 1e6);
        write!(
            f,
            "CPU each: leader {leader:.0} µs, follower {follower:.0} µs, Postgres {postgres:.0} µs, \
             whole machine with clients {machine:.0} µs"
        )
    }
}

/// A measurement under way.
struct Measurement<'s> {
    service: &'s Service,
    logged_before: Logged,
    busy_before: f64,
    began: Instant,
}

impl<'s> Measurement<'s> {
    async fn begin(service: &'s Service) -> Result<Self> {
        Ok(Self {
            service,
            logged_before: service.logged().await?,
            busy_before: busy_seconds()?,
            began: Instant::now(),
        })
    }

    async fn end(self, count: usize) -> Result<Rate> {
        let seconds = self.began.elapsed().as_secs_f64();
        let busy = busy_seconds()? - self.busy_before;
        let (logged, before) = (self.service.logged().await?, self.logged_before);
        let count = count as f64;
        Ok(Rate {
            per_second: count / seconds,
            cores: busy / seconds,
            records: (logged.records - before.records) as f64 / count,
            log_bytes: (logged.bytes - before.bytes) as f64 / count,
        })
    }
}

/// Seconds that the cores of this machine have worked since it started.
fn busy_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/stat")?;
    let line = stat.lines().next().context("/proc/stat has a line")?;
    let ticks: Vec<f64> = line
        .split_whitespace()
        .skip(1)
        .filter_map(|field| field.parse().ok())
        .collect();
    // User, nice, system; idle and waiting are left out; interrupts.
    let busy = [0, 1, 2, 5, 6].map(|at| ticks.get(at).copied().unwrap_or_default());
    Ok(busy.iter().sum::<f64>() / 100.0)
}
