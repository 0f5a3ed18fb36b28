//! Connection set-up for the server: settings of a session, its fence and time limit.

use std::{sync::Arc, time::Duration};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection, postgres::PgConnectOptions};
use tokio::time::timeout;

use super::Fence;
use crate::DbError;

/// The server, and how long it is waited for.
#[derive(Clone)]
pub(crate) struct Host {
    pub(super) options: PgConnectOptions,
    time_limit: Duration,
    fence: Option<Arc<Fence>>,
}

impl Host {
    pub(super) fn new(
        options: PgConnectOptions,
        time_limit: Duration,
        fence: Option<Fence>,
    ) -> Self {
        Self {
            options,
            time_limit,
            fence: fence.map(Arc::new),
        }
    }

    /// What every transaction has to hold.
    pub(crate) fn fence(&self) -> Option<&Fence> {
        self.fence.as_deref()
    }

    /// Longest time a piece of work may take, all in all.
    pub(crate) fn time_limit(&self) -> Duration {
        self.time_limit
    }

    /// Longest wait for one thing of which a piece of work needs up to three: a connection that
    /// others use, a new one, an answer.
    pub(crate) fn answer(&self) -> Duration {
        self.time_limit / 3
    }

    /// A new connection, set up as all are.
    pub(crate) async fn open(&self) -> Result<PgConnection, DbError> {
        let opening = async {
            let mut link = PgConnection::connect_with(&self.options).await?;
            let session = AssertSqlSafe(self.session());
            sqlx::raw_sql(session).execute(&mut link).await?;
            Ok(link)
        };
        let opened = timeout(self.answer(), opening).await;
        opened
            .map_err(|_| DbError::TimedOut)?
            .map_err(DbError::of_server)
    }

    /// What every session is told: who dies or hangs leaves no lock behind for long, what is
    /// answered is on the disk, and nothing depends on how the server is set up. Where it promises
    /// more than its own disk, that stays.
    fn session(&self) -> String {
        let longest = self.time_limit.as_millis();
        format!(
            "SET default_transaction_isolation = 'read committed'; \
             SET statement_timeout = {longest}; \
             SET idle_in_transaction_session_timeout = {longest}; \
             SET tcp_keepalives_idle = 30; \
             SET tcp_keepalives_interval = 10; \
             SET tcp_keepalives_count = 3; \
             SELECT set_config('synchronous_commit', 'on', false) \
             WHERE current_setting('synchronous_commit') = 'off'"
        )
    }
}
