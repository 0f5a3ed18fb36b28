//! Baseline of a backfill: plain INSERTs of some hundred rows, a few a transaction.

use std::{
    fs::File,
    io::{BufRead as _, BufReader},
    path::Path,
    time::Duration,
};

use anyhow::{Result, bail};
use flate2::read::MultiGzDecoder;
use grip_ingest::{
    Push,
    extract::{self, Event},
};
use sqlx::{
    ConnectOptions as _, Connection as _, PgConnection, Postgres, QueryBuilder, Sqlite,
    SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use tokio::time::Instant;

const ROWS: usize = 500;
const ROWS_OF_TRANSACTION: usize = 2_000;

const INSERT: &str = "INSERT INTO push_events (id, actor_id, actor_login, repository_id, \
                      repository_name, push_id, ref, head, \"before\", github_created_at, raw, \
                      source, created_at, updated_at) ";
const INSERT_JOBS: &str = "INSERT INTO queue (kind, key, payload, visible_at, enqueued_at) ";

pub(super) enum Plain {
    Sqlite(SqliteConnection),
    Postgres(PgConnection),
}

/// The same statements on either engine.
macro_rules! insert {
    ($engine:ty, $db:expr, $pushes:expr, $with_jobs:expr) => {{
        let mut transaction = $db.begin().await?;
        for part in $pushes.chunks(ROWS) {
            let mut query = QueryBuilder::<$engine>::new(INSERT);
            query.push_values(part, |mut row, push: &Push| {
                row.push_bind(&push.id)
                    .push_bind(push.actor_id)
                    .push_bind(&push.actor_login)
                    .push_bind(push.repository_id)
                    .push_bind(&push.repository_name)
                    .push_bind(push.push_id)
                    .push_bind(&push.git_ref)
                    .push_bind(&push.head)
                    .push_bind(&push.before)
                    .push_bind(push.at_ms)
                    .push_bind(&push.raw)
                    .push_bind("file")
                    .push_bind(1_i64)
                    .push_bind(1_i64);
            });
            query.build().execute(&mut *transaction).await?;
            if $with_jobs {
                let mut query = QueryBuilder::<$engine>::new(INSERT_JOBS);
                query.push_values(part, |mut row, push: &Push| {
                    row.push_bind("push-event-old")
                        .push_bind(&push.id)
                        .push_bind("")
                        .push_bind(1_i64)
                        .push_bind(1_i64);
                });
                query.build().execute(&mut *transaction).await?;
            }
        }
        transaction.commit().await?;
    }};
}

impl Plain {
    pub(super) async fn file(path: &Path) -> Result<Self> {
        let options = SqliteConnectOptions::new()
            .filename(path)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .busy_timeout(Duration::from_secs(10));
        Ok(Self::Sqlite(options.connect().await?))
    }

    pub(super) async fn server(url: &str) -> Result<Self> {
        Ok(Self::Postgres(PgConnection::connect(url).await?))
    }

    /// Inserts all events of a file; only the INSERTs count.
    pub(super) async fn insert_all(mut self, path: &Path, with_jobs: bool) -> Result<Duration> {
        let mut lines = BufReader::new(MultiGzDecoder::new(File::open(path)?)).split(b'\n');
        let mut took = Duration::ZERO;
        loop {
            let some = lines.by_ref().take(ROWS_OF_TRANSACTION);
            let pushes = some.map(|line| push(&line?)).collect::<Result<Vec<_>>>()?;
            if pushes.is_empty() {
                return Ok(took);
            }
            let began = Instant::now();
            match &mut self {
                Self::Sqlite(db) => insert!(Sqlite, db, pushes, with_jobs),
                Self::Postgres(db) => insert!(Postgres, db, pushes, with_jobs),
            }
            took += began.elapsed();
        }
    }
}

fn push(line: &[u8]) -> Result<Push> {
    match extract::event(line)? {
        Event::Push(push) => Ok(*push),
        other => bail!("{other:?}"),
    }
}
