//! Notices from other instances (`LISTEN`).

use std::{sync::Arc, time::Duration};

use grip_tasks::CancellationToken;
use sqlx::{
    Executor as _,
    postgres::{PgConnectOptions, PgListener, PgPoolOptions},
};
use tokio::time::{self, timeout};

use crate::topics::{CHANNEL, Topics};

/// How soon the line for notices is tried again after it broke.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// After so long a silence the line is tested.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// Longest wait for an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Passes on what other instances tell of, until told to stop.
pub(super) async fn listen(
    options: PgConnectOptions,
    topics: Arc<Topics>,
    stop: CancellationToken,
) {
    let hearing = async {
        loop {
            if let Err(error) = listen_once(options.clone(), &topics).await {
                tracing::debug!(%error, "notices of other instances are not heard for a while");
            }
            topics.notify_all();
            time::sleep(RETRY_DELAY).await;
        }
    };
    stop.run_until_cancelled(hearing).await;
}

async fn listen_once(options: PgConnectOptions, topics: &Topics) -> Result<(), sqlx::Error> {
    // It wants a pool, which is for this one connection.
    let pool = PgPoolOptions::new()
        .max_connections(1)
        .acquire_timeout(ANSWER_TIMEOUT)
        .idle_timeout(None)
        .max_lifetime(None)
        .connect_lazy_with(options);
    let listening = async {
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.listen(CHANNEL).await?;
        Ok::<_, sqlx::Error>(listener)
    };
    let listening = timeout(ANSWER_TIMEOUT * 2, listening).await;
    let mut listener = listening.map_err(|_| sqlx::Error::PoolTimedOut)??;
    topics.notify_all();
    loop {
        match timeout(KEEPALIVE, listener.try_recv()).await {
            Ok(Ok(Some(notice))) => topics.notify(notice.payload()),
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(error)) => return Err(error),
            Err(_) => {
                let answered = timeout(ANSWER_TIMEOUT, listener.execute("SELECT 1")).await;
                answered.map_err(|_| sqlx::Error::PoolTimedOut)??;
            }
        }
    }
}
