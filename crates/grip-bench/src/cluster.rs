//! Clusters of one, two and three nodes beside a node alone: push cycles, events, reads, and the commits that
//! their database makes.
//!
//! Everything runs on this machine, the clients too. So each row says how many cores were busy: where all
//! are, more nodes share what one had.

use std::{path::Path, time::Duration};

use anyhow::{Context as _, Result};
use futures_util::future::try_join_all;
use grip_testkit::{Author, Node, PostgresServer};
use sqlx::{Connection as _, PgConnection};
use tempfile::TempDir;
use tokio::time::Instant;

use crate::{
    cycle::{self, Prepared},
    events,
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

/// What a node alone, or so many in a cluster, did.
struct Rates {
    cycles: Rate,
    events: Rate,
    reads: Rate,
}

/// How often a second something was done, how many cores were busy meanwhile, and how many records the log
/// got for each.
#[derive(Clone, Copy)]
struct Rate {
    per_second: f64,
    cores: f64,
    records: f64,
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
    Ok(())
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
        } = rate;
        let floor = commits.map_or_else(
            || "–".to_owned(),
            |commits| {
                let appended = per_second * records;
                format!(
                    "{records:.2} records each, {appended:.0}/s; Postgres commits {commits:.0}/s, \
                     one after the other"
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

    /// How many records the log has had; none is kept by a node alone.
    async fn records(&self) -> Result<i64> {
        let Some((server, _)) = &self.shared else {
            return Ok(0);
        };
        let mut db = PgConnection::connect(&server.url()).await?;
        let records = sqlx::query_scalar("SELECT max(seq) FROM clusters");
        Ok(records.fetch_one(&mut db).await?)
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

/// A measurement under way.
struct Measurement<'s> {
    service: &'s Service,
    records_before: i64,
    busy_before: f64,
    began: Instant,
}

impl<'s> Measurement<'s> {
    async fn begin(service: &'s Service) -> Result<Self> {
        Ok(Self {
            service,
            records_before: service.records().await?,
            busy_before: busy_seconds()?,
            began: Instant::now(),
        })
    }

    async fn end(self, count: usize) -> Result<Rate> {
        let seconds = self.began.elapsed().as_secs_f64();
        let busy = busy_seconds()? - self.busy_before;
        let records = self.service.records().await? - self.records_before;
        Ok(Rate {
            per_second: count as f64 / seconds,
            cores: busy / seconds,
            records: records as f64 / count as f64,
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
