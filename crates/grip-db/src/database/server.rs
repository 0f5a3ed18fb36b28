//! A Postgres server, which several nodes may share.

use std::{fmt, path::PathBuf, str::FromStr as _, sync::Arc, time::Duration};

use grip_tasks::CancellationToken;
use sqlx::{
    ConnectOptions as _, PgPool,
    migrate::Migrator,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions},
};
use tokio::time;

use super::{Db, Pool, assemble};
use crate::{
    OpenError,
    clock::Clock,
    topics::{self, Topics},
    writer::Source,
};

static MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/postgres");

/// Longest wait for a connection of the pool.
const ACQUIRE: Duration = Duration::from_secs(10);
/// How soon the line for notices is tried again after it broke.
const LISTEN_AGAIN: Duration = Duration::from_secs(1);

/// Which server, and who we are there.
#[derive(Clone)]
pub struct Server {
    /// `postgres://user:password@host/database`; shown without its password.
    pub url: String,
    /// The name of this instance, different from those of all others on the server.
    pub node: String,
    /// Connections at most; work beyond waits for one. Default: 10.
    pub connections: u32,
}

impl Server {
    pub fn new(url: impl Into<String>, node: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            node: node.into(),
            connections: 10,
        }
    }

    /// Host and database, for messages.
    fn shown(&self) -> PathBuf {
        let shown = match PgConnectOptions::from_str(&self.url) {
            Ok(options) => {
                let database = options.get_database().unwrap_or("postgres");
                format!("{}:{}/{database}", options.get_host(), options.get_port())
            }
            Err(_) => "the database server".to_owned(),
        };
        PathBuf::from(shown)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({} as {:?})", self.shown().display(), self.node)
    }
}

impl Db {
    /// Connects to the server and brings its schema up to date; instances that start together
    /// wait for each other there.
    pub async fn connect(server: &Server) -> Result<Self, OpenError> {
        let shown = server.shown();
        let failed = |source| OpenError::new(shown.clone(), source);
        let options = options(server).map_err(failed)?;
        let pool = PgPoolOptions::new()
            .max_connections(server.connections.max(3))
            .acquire_timeout(ACQUIRE)
            .connect_with(options)
            .await
            .map_err(failed)?;
        let migrated = MIGRATIONS.run(&pool).await;
        migrated.map_err(|source| OpenError::migration(shown.clone(), source))?;
        let clock = Clock::new(read_clock(&pool).await.map_err(failed)?);
        let (source, node) = (Source::Postgres(pool.clone()), server.node.clone());
        let db = assemble(Pool::Postgres(pool.clone()), source, node, clock);
        let db = db.await.map_err(failed)?;
        db.listen(pool);
        Ok(db)
    }

    fn listen(&self, pool: PgPool) {
        let group = &self.inner.group;
        let (clock, stop) = (Arc::clone(&self.inner.clock), group.token());
        let watched = pool.clone();
        group.spawn("clock", async move {
            let every = || stop.run_until_cancelled(time::sleep(Clock::EVERY));
            while every().await.is_some() {
                // A server that is away is somebody else's trouble; the clock runs on.
                if let Ok(ms) = read_clock(&watched).await {
                    clock.set(ms);
                }
            }
        });
        let topics = Arc::clone(&self.inner.topics);
        group.spawn("listener", hear(pool, topics, group.token()));
    }
}

/// Passes on what other instances tell of, until told to stop.
async fn hear(pool: PgPool, topics: Arc<Topics>, stop: CancellationToken) {
    let hearing = async {
        loop {
            if let Err(error) = hear_once(&pool, &topics).await {
                tracing::debug!(%error, "notices of other instances are not heard for a while");
            }
            topics.tell_all();
            time::sleep(LISTEN_AGAIN).await;
        }
    };
    stop.run_until_cancelled(hearing).await;
}

async fn hear_once(pool: &PgPool, topics: &Topics) -> Result<(), sqlx::Error> {
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(topics::CHANNEL).await?;
    topics.tell_all();
    while let Some(notice) = listener.try_recv().await? {
        topics.tell(notice.payload());
    }
    Ok(())
}

async fn read_clock(pool: &PgPool) -> Result<i64, sqlx::Error> {
    let text = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";
    sqlx::query_scalar(text).fetch_one(pool).await
}

fn options(server: &Server) -> Result<PgConnectOptions, sqlx::Error> {
    let options = PgConnectOptions::from_str(&server.url)?;
    Ok(options
        .application_name(&format!("gripfast {}", server.node))
        .disable_statement_logging())
}
