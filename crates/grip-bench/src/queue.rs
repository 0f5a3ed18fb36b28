//! Claims of the work queue beside the plain statement, run by as many connections.
//!
//! Claimed rows are due again after a moment, so that their number stays the same. Rounds of the
//! two alternate, and the middle of the ratios counts.

mod embedded;

use std::{
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Result;
use grip_db::{Db, Server};
use grip_queue::{Finished, Queue};
use grip_tasks::TaskGroup;
use grip_testkit::PostgresServer;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::time::Instant;

use crate::report::{Table, median};

const WORKERS: usize = 16;
const ROUNDS: usize = 5;
const ROUND: Duration = Duration::from_secs(2);
/// So soon a claimed row is due again.
const LEASE: Duration = Duration::from_millis(10);
const HELD: usize = 20_000;

/// What everybody writes who needs a queue on Postgres.
const PLAIN: &str = "UPDATE queue SET visible_at = $4, lease_token = lease_token + 1, holder = $5 \
                     WHERE id IN (SELECT id FROM queue WHERE kind = $1 AND visible_at <= $2 \
                     ORDER BY visible_at LIMIT $3 FOR UPDATE SKIP LOCKED) \
                     RETURNING id, lease_token, key, payload";
const PLAIN_FINISH: &str = "DELETE FROM queue WHERE id = $1 AND lease_token = $2";

/// What is done again and again; says how many jobs it took.
#[derive(Clone, Copy)]
enum Work {
    Claim(i64),
    ClaimAndFinish,
}

pub async fn measure(table: &mut Table) -> Result<()> {
    for rows in [10_000, 1_000_000] {
        let fixture = Fixture::start(rows).await?;
        for many in [1, 16] {
            let name = format!("queue: claim {many} of {rows} jobs, {WORKERS} at once");
            fixture.compare(&name, Work::Claim(many), table).await?;
        }
        if rows == 10_000 {
            fixture.hold(HELD).await?;
            let name = format!("queue: claim 1 of {rows} jobs, {HELD} leases held");
            fixture.compare(&name, Work::Claim(1), table).await?;
        } else {
            let name = "queue: claim 1 and finish it";
            fixture.compare(name, Work::ClaimAndFinish, table).await?;
            fixture.count(table).await?;
        }
    }
    embedded::measure(table).await
}

/// A server with a table of jobs: as many for the queue as for the plain statement.
struct Fixture {
    server: PostgresServer,
    queue: Queue,
    group: TaskGroup,
}

impl Fixture {
    async fn start(rows: usize) -> Result<Self> {
        let server = PostgresServer::durable().await?;
        let settings = Server {
            connections: WORKERS as u32 + 3,
            ..Server::new(server.url(), "bench")
        };
        let queue = Queue::new(Db::connect(&settings).await?);
        let fixture = Self {
            server,
            queue,
            group: TaskGroup::new("bench"),
        };
        for kind in ["ours", "plain"] {
            let fill = "INSERT INTO queue (kind, key, payload, visible_at, enqueued_at) \
                        SELECT '{kind}', 'github.com/some-owner/repository-' || n, '{}', n, 0 \
                        FROM generate_series(1, {rows}) AS n";
            let fill = fill
                .replace("{kind}", kind)
                .replace("{rows}", &rows.to_string());
            fixture.run(fill).await?;
        }
        fixture.run("VACUUM ANALYZE queue".to_owned()).await?;
        Ok(fixture)
    }

    async fn run(&self, text: String) -> Result<()> {
        let mut db = PgConnection::connect(&self.server.url()).await?;
        sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut db).await?;
        Ok(())
    }

    /// Leases out so many jobs of both kinds, besides those that are due.
    async fn hold(&self, count: usize) -> Result<()> {
        for kind in ["ours", "plain"] {
            let hold = format!(
                "INSERT INTO queue (kind, key, payload, visible_at, enqueued_at, holder) \
                 SELECT '{kind}', 'held ' || n, '{{}}', {} + n, 0, 'bench' \
                 FROM generate_series(1, {count}) AS n",
                now_ms() + 3_000_000
            );
            self.run(hold).await?;
        }
        self.run("VACUUM ANALYZE queue".to_owned()).await
    }

    async fn compare(&self, name: &str, work: Work, table: &mut Table) -> Result<()> {
        let mut plain = Vec::new();
        for _ in 0..WORKERS {
            plain.push(PgConnection::connect(&self.server.url()).await?);
        }
        let (mut rates, mut floors, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        // The first round warms both up.
        for round in 0..=ROUNDS {
            let ours = ours(&self.queue, work).await?;
            let floor;
            (plain, floor) = self.plain(plain, work).await?;
            if round > 0 {
                rates.push(ours);
                floors.push(floor);
                ratios.push(ours / floor);
            }
        }
        let (rate, floor) = (median(&mut rates), median(&mut floors));
        let floor = format!("plain SKIP LOCKED: {floor:.0} jobs/s");
        let ratio = median(&mut ratios);
        table.row(name, format!("{rate:.0} jobs/s"), &floor, Some(ratio), "–");
        Ok(())
    }

    /// Jobs a second by the plain statement, and the connections back.
    async fn plain(
        &self,
        connections: Vec<PgConnection>,
        work: Work,
    ) -> Result<(Vec<PgConnection>, f64)> {
        let began = Instant::now();
        let holder: Arc<str> = "bench/plain/1".into();
        let tasks: Vec<_> = connections
            .into_iter()
            .map(|mut db| {
                let holder = Arc::clone(&holder);
                self.group.spawn("plain", async move {
                    let mut jobs = 0;
                    while began.elapsed() < ROUND {
                        jobs += plainly(&mut db, &holder, work).await?;
                    }
                    anyhow::Ok((db, jobs))
                })
            })
            .collect();
        let (mut back, mut jobs) = (Vec::new(), 0);
        for task in tasks {
            let (db, count) = task.await??;
            back.push(db);
            jobs += count;
        }
        Ok((back, jobs as f64 / began.elapsed().as_secs_f64()))
    }

    /// What the counts for pages and metrics cost.
    async fn count(&self, table: &mut Table) -> Result<()> {
        let began = Instant::now();
        let kinds = self.queue.stats().await?;
        let took = began.elapsed();
        let jobs: i64 = kinds
            .iter()
            .map(|kind| kind.due + kind.waiting + kind.leased)
            .sum();
        let name = format!("queue: count of {jobs} jobs by state");
        table.row(
            &name,
            format!("{} ms", took.as_millis()),
            "made at most every 50 times as long",
            None,
            "–",
        );
        Ok(())
    }
}

/// Jobs a second through the queue.
async fn ours(queue: &Queue, work: Work) -> Result<f64> {
    let group = TaskGroup::new("bench");
    let began = Instant::now();
    let tasks: Vec<_> = (0..WORKERS)
        .map(|_| {
            let queue = queue.clone();
            group.spawn("ours", async move {
                let mut jobs = 0;
                while began.elapsed() < ROUND {
                    jobs += with_queue(&queue, work).await?;
                }
                anyhow::Ok(jobs)
            })
        })
        .collect();
    let mut jobs = 0;
    for task in tasks {
        jobs += task.await??;
    }
    Ok(jobs as f64 / began.elapsed().as_secs_f64())
}

async fn with_queue(queue: &Queue, work: Work) -> Result<usize> {
    match work {
        Work::Claim(many) => Ok(queue.claim("ours", many as usize, LEASE).await?.len()),
        Work::ClaimAndFinish => {
            let leases = queue.claim("ours", 1, Duration::from_secs(60)).await?;
            for lease in &leases {
                let finished = queue.finish(lease).await?;
                anyhow::ensure!(finished == Finished::Done, "nobody else had it");
            }
            Ok(leases.len())
        }
    }
}

async fn plainly(db: &mut PgConnection, holder: &str, work: Work) -> Result<usize> {
    let (many, lease_ms) = match work {
        Work::Claim(many) => (many, LEASE.as_millis() as i64),
        Work::ClaimAndFinish => (1, 60_000),
    };
    let now = now_ms();
    let rows: Vec<(i64, i64, String, String)> = sqlx::query_as(PLAIN)
        .bind("plain")
        .bind(now)
        .bind(many)
        .bind(now + lease_ms)
        .bind(holder)
        .fetch_all(&mut *db)
        .await?;
    if let Work::ClaimAndFinish = work {
        for (id, token, ..) in &rows {
            let finish = sqlx::query(PLAIN_FINISH).bind(id).bind(token);
            finish.execute(&mut *db).await?;
        }
    }
    Ok(rows.len())
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_millis() as i64)
}
