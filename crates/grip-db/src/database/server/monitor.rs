//! The monitoring connection: whether the server answers, its clock, and the lock on our name.

use std::{sync::Arc, time::Duration};

use grip_tasks::CancellationToken;
use sqlx::{Connection as _, PgConnection};
use tokio::time::{self, Instant, timeout};

use super::Host;
use crate::{
    DbError,
    clock::{Clock, ServerTime},
    database::Status,
};

/// How often the server is asked while all is well.
const EVERY: Duration = Duration::from_secs(2);
/// How soon it is tried again after it was lost.
const RETRY_DELAY: Duration = Duration::from_millis(500);
/// Longest wait for one of its answers, where the time limit does not end before.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Set on the server for as long as the session lives, by a number made of the name.
const CLAIM: &str = "SELECT pg_try_advisory_lock(hashtextextended('gripfast node ' || $1, 0))";
/// Whose session has it, and where that comes from.
const HOLDER: &str = "\
    SELECT l.pid, coalesce(host(a.client_addr), 'this host') \
    FROM pg_locks l LEFT JOIN pg_stat_activity a ON a.pid = l.pid \
    WHERE l.locktype = 'advisory' AND l.granted AND l.objsubid = 1 \
    AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database()) \
    AND ((l.classid::bigint << 32) | l.objid::bigint) = \
        hashtextextended('gripfast node ' || $1, 0)";
const CLOCK: &str = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint";

/// The session that holds our name.
pub(crate) struct Monitor {
    host: Host,
    node: String,
    link: Option<PgConnection>,
    /// The process of the server that served our last session.
    process: i32,
}

/// Somebody else's session has the name.
pub(crate) struct Taken {
    pub(crate) by: String,
}

impl Monitor {
    /// Takes the name. One that was held by a process that has just died is waited for.
    pub(crate) async fn claim(
        host: Host,
        node: String,
        time_limit: Duration,
    ) -> Result<Result<Self, Taken>, DbError> {
        let mut monitor = Self {
            host,
            node,
            link: None,
            process: 0,
        };
        let until = Instant::now() + time_limit;
        loop {
            match monitor.connect().await? {
                Ok(()) => return Ok(Ok(monitor)),
                Err(taken) if Instant::now() >= until => return Ok(Err(taken)),
                Err(_) => time::sleep(RETRY_DELAY).await,
            }
        }
    }

    /// Opens the session and takes the name in it.
    async fn connect(&mut self) -> Result<Result<(), Taken>, DbError> {
        let mut link = self.host.open().await?;
        let claiming = claim(&mut link, &self.node, self.process);
        let claimed = timeout(self.answer(), claiming).await;
        let claimed = claimed
            .map_err(|_| DbError::TimedOut)?
            .map_err(DbError::of_server)?;
        Ok(claimed.map(|process| {
            self.process = process;
            self.link = Some(link);
        }))
    }

    fn answer(&self) -> Duration {
        self.host.answer().min(ANSWER_TIMEOUT)
    }

    /// What time the server has; moved by half of what the answer took, as it was read some time
    /// during that.
    pub(crate) async fn time(&mut self) -> Result<ServerTime, DbError> {
        let Some(link) = &mut self.link else {
            return Err(DbError::TimedOut);
        };
        let began = Instant::now();
        let reading = timeout(
            self.host.answer(),
            sqlx::query_scalar(CLOCK).fetch_one(link),
        )
        .await;
        let read: Result<i64, _> = reading.map_err(|_| DbError::TimedOut)?;
        let half = began.elapsed().as_millis() / 2;
        let uncertainty_ms = i64::try_from(half).unwrap_or(i64::MAX);
        let ms = read
            .map_err(DbError::of_server)?
            .saturating_add(uncertainty_ms);
        Ok(ServerTime { ms, uncertainty_ms })
    }

    /// Asks again and again until told to stop, and gives the name back then.
    pub(crate) async fn run(mut self, status: Arc<Status>, stop: CancellationToken) {
        let beating = async {
            while let Ok(()) = self.check(&status).await {
                let pause = if self.link.is_some() {
                    EVERY
                } else {
                    RETRY_DELAY
                };
                time::sleep(pause).await;
            }
        };
        stop.run_until_cancelled(beating).await;
        if let Some(link) = self.link.take() {
            let _ = timeout(self.answer(), link.close()).await;
        }
    }

    /// One look. Fails if the name is somebody else's.
    async fn check(&mut self, status: &Status) -> Result<(), Taken> {
        match self.query(&status.clock).await {
            Ok(Ok(())) => {
                let was = status.outage.send_replace(None);
                if was.is_some() {
                    tracing::info!("the database server answers again");
                }
                Ok(())
            }
            Ok(Err(taken)) => {
                tracing::error!(by = taken.by, "another gripfast has taken our name");
                let _ = status
                    .outage
                    .send_replace(Some(DbError::NameTaken.to_string()));
                status.name_taken.cancel();
                Err(taken)
            }
            Err(error) => {
                self.link = None;
                let was = status.outage.send_replace(Some(error.to_string()));
                if was.is_none() {
                    let error: &dyn std::error::Error = &error;
                    tracing::error!(
                        error,
                        "the database server is lost; tried again until it is back"
                    );
                }
                Ok(())
            }
        }
    }

    async fn query(&mut self, clock: &Clock) -> Result<Result<(), Taken>, DbError> {
        if self.link.is_none()
            && let Err(taken) = self.connect().await?
        {
            return Ok(Err(taken));
        }
        let time = self.time().await?;
        clock.adjust(time);
        Ok(Ok(()))
    }
}

/// Takes the name for the session of `link` and says which process serves it.
async fn claim(
    link: &mut PgConnection,
    node: &str,
    before: i32,
) -> Result<Result<i32, Taken>, sqlx::Error> {
    loop {
        let claim = sqlx::query_scalar(CLAIM).bind(node);
        if claim.fetch_one(&mut *link).await? {
            let own = sqlx::query_scalar("SELECT pg_backend_pid()");
            return Ok(Ok(own.fetch_one(&mut *link).await?));
        }
        let holder = sqlx::query_as(HOLDER).bind(node);
        let holder: Option<(i32, String)> = holder.fetch_optional(&mut *link).await?;
        match holder {
            // Our own session, whose end the server has not noticed yet.
            Some((process, _)) if process == before => {
                let end = sqlx::query("SELECT pg_terminate_backend($1)").bind(process);
                end.execute(&mut *link).await?;
            }
            Some((process, from)) => {
                let by = format!("process {process} of the server, from {from}");
                return Ok(Err(Taken { by }));
            }
            // Given back between the two questions.
            None => {}
        }
        time::sleep(Duration::from_millis(20)).await;
    }
}
