//! Old events from a packed file, beside plain INSERTs of the same rows in batches.
//!
//! What is measured unpacks, reads, keeps and asks for the work that follows; the floor is handed
//! rows that are ready. Rounds of the two alternate, each on an empty database, and the middle of
//! the ratios counts.

mod plain;

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};
use flate2::{Compression, write::GzEncoder};
use grip_db::{Db, Server};
use grip_ingest::backfill::Backfill;
use grip_queue::Queue;
use grip_tasks::TaskGroup;
use grip_testkit::PostgresServer;
use serde_json::json;
use tempfile::TempDir;
use tokio::time::Instant;

use self::plain::Plain;
use crate::report::{Table, median};

const EVENTS: usize = 100_000;
const ROUNDS: usize = 3;
const LIVE_FOR: Duration = Duration::from_secs(86_400);
/// 2025-01-01 15:00 UTC
const HOUR: i64 = 1_735_743_600;

pub async fn measure(table: &mut Table) -> Result<()> {
    let directory = TempDir::new()?;
    let path = directory.path().join("2025-01-01-15.json.gz");
    write(&path)?;
    let bytes = fs::metadata(&path)?.len();
    for engine in ["SQLite", "Postgres"] {
        let mut rounds = Rounds::default();
        for _ in 0..ROUNDS {
            rounds.run(engine, &path).await?;
        }
        let (rate, floor) = (median(&mut rounds.rates), median(&mut rounds.floors));
        let with_jobs = median(&mut rounds.with_jobs);
        let (begin, end) = rounds.memory;
        table.row(
            &format!("backfill on {engine}: {EVENTS} pushes, {} KiB", bytes >> 10),
            format!(
                "{rate:.0} events/s, {with_jobs:.2} of INSERTs with their jobs, \
                 {begin} MiB after a tenth, {end} MiB at the end"
            ),
            &format!("plain batched INSERTs of the same rows: {floor:.0} rows/s"),
            Some(median(&mut rounds.ratios)),
            "–",
        );
    }
    Ok(())
}

#[derive(Default)]
struct Rounds {
    rates: Vec<f64>,
    floors: Vec<f64>,
    ratios: Vec<f64>,
    with_jobs: Vec<f64>,
    /// MiB in use after a tenth and at the end of the last round.
    memory: (u64, u64),
}

impl Rounds {
    async fn run(&mut self, engine: &str, path: &Path) -> Result<()> {
        let place = Place::new(engine).await?;
        let db = place.open().await?;
        let mut tenth = 0;
        let began = Instant::now();
        let group = TaskGroup::new("bench");
        let backfill = Backfill::new(db.clone(), Queue::new(db), LIVE_FOR, group);
        let done = backfill.file(path, |progress| {
            if tenth == 0 && progress.lines >= EVENTS as u64 / 10 {
                tenth = memory_mib().unwrap_or_default();
            }
        });
        let done = done.await?;
        let ours = EVENTS as f64 / began.elapsed().as_secs_f64();
        ensure!(done.accepted.new == EVENTS as u64, "{done:?}");
        self.memory = (tenth, memory_mib()?);
        drop(place);

        let floor = self.plainly(engine, path, false).await?;
        let with_jobs = self.plainly(engine, path, true).await?;
        self.rates.push(ours);
        self.floors.push(floor);
        self.ratios.push(ours / floor);
        self.with_jobs.push(ours / with_jobs);
        Ok(())
    }

    async fn plainly(&self, engine: &str, path: &Path, with_jobs: bool) -> Result<f64> {
        let place = Place::new(engine).await?;
        // The tables, and nothing else of ours.
        drop(place.open().await?);
        let plain = match &place {
            Place::File { file, .. } => Plain::file(file).await?,
            Place::Server(server) => Plain::server(&server.url()).await?,
        };
        let took = plain.insert_all(path, with_jobs).await?;
        Ok(EVENTS as f64 / took.as_secs_f64())
    }
}

/// An empty database.
enum Place {
    File { file: PathBuf, _directory: TempDir },
    Server(PostgresServer),
}

impl Place {
    async fn new(engine: &str) -> Result<Self> {
        if engine == "Postgres" {
            return Ok(Self::Server(PostgresServer::durable().await?));
        }
        let directory = TempDir::new()?;
        let file = directory.path().join("events.db");
        Ok(Self::File {
            file,
            _directory: directory,
        })
    }

    async fn open(&self) -> Result<Db> {
        Ok(match self {
            Self::File { file, .. } => Db::open(file).await?,
            Self::Server(server) => Db::connect(&Server::new(server.url(), "bench")).await?,
        })
    }
}

/// A file like those of gharchive.org: pushes of many people to many repositories.
fn write(path: &Path) -> Result<()> {
    let mut encoder = GzEncoder::new(File::create(path)?, Compression::default());
    let mut noise = 0x9e37_79b9_7f4a_7c15_u64;
    for number in 0..EVENTS {
        let mut next = || {
            noise = noise
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            noise >> 16
        };
        let (actor, repo) = (next() % 50_000 + 1, next() % 80_000 + 1);
        let mut commit = || format!("{:016x}{:016x}{:08x}", next(), next(), next() as u32);
        let (head, before) = (commit(), commit());
        let second = HOUR + (number * 3_600 / EVENTS) as i64;
        let created = format!(
            "2025-01-01T15:{:02}:{:02}Z",
            (second % 3_600) / 60,
            second % 60
        );
        let (login, name) = (
            format!("person-{actor}"),
            format!("person-{actor}/project-{repo}"),
        );
        let event = json!({
            "id": (45_000_000_000_u64 + number as u64).to_string(),
            "type": "PushEvent",
            "actor": {
                "id": actor, "login": login, "display_login": login, "gravatar_id": "",
                "url": format!("https://api.github.com/users/{login}"),
                "avatar_url": format!("https://avatars.githubusercontent.com/u/{actor}?"),
            },
            "repo": {
                "id": repo, "name": name, "url": format!("https://api.github.com/repos/{name}"),
            },
            "payload": {
                "repository_id": repo, "push_id": 21_000_000_000_u64 + number as u64,
                "size": 1, "distinct_size": 1, "ref": "refs/heads/main",
                "head": head, "before": before,
                "commits": [{
                    "sha": head, "distinct": true,
                    "author": {"email": format!("{login}@users.noreply.example"), "name": login},
                    "message": "Update the readme, and say what is not done yet",
                    "url": format!("https://api.github.com/repos/{name}/commits/{head}"),
                }],
            },
            "public": true,
            "created_at": created,
        });
        writeln!(encoder, "{event}")?;
    }
    encoder.finish()?;
    Ok(())
}

/// What this process has in memory.
fn memory_mib() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"));
    let word = line.and_then(|line| line.split_whitespace().nth(1));
    let kib: u64 = word.context("no VmRSS")?.parse()?;
    Ok(kib / 1_024)
}
