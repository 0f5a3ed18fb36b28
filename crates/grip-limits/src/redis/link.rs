//! The connection to Redis: there, or away since when and why.
//!
//! Invariants: nobody waits longer than the timeout; what is told of an error never holds the
//! URL, whose password is a secret; a failure of an old connection does not take down a newer one.

use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use redis::{
    AsyncConnectionConfig, Client, FromRedisValue, ScriptInvocation, aio::MultiplexedConnection,
};
use tokio::{sync::Notify, time::timeout};

use super::RedisError;

/// One connection that all calls of this process share.
pub(super) struct Link {
    client: Client,
    timeout: Duration,
    state: Mutex<State>,
    /// Told when the connection is lost.
    lost: Notify,
}

struct State {
    /// Counts the connections, so that late errors can be told from news.
    generation: u64,
    connection: Result<MultiplexedConnection, Away>,
}

/// Since when Redis is away, and why.
#[derive(Clone, Debug)]
pub(super) struct Away {
    pub since: Timestamp,
    pub reason: String,
    /// Tells this absence from others.
    pub generation: u64,
}

/// The call brought no answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gone;

impl Link {
    /// Does not connect yet.
    pub fn new(url: &str, timeout: Duration) -> Result<Self, RedisError> {
        // Without one the TLS of `rediss://` panics. Who has chosen another keeps it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // The parser's own words might hold parts of the URL.
        let client = Client::open(url).map_err(|_| RedisError::Url)?;
        let away = Away {
            since: Timestamp::now(),
            reason: "not connected yet".to_owned(),
            generation: 0,
        };
        let state = State {
            generation: 0,
            connection: Err(away),
        };
        Ok(Self {
            client,
            timeout,
            state: Mutex::new(state),
            lost: Notify::new(),
        })
    }

    /// Runs a script over what [`Link::connection`] gave. A failure takes the link down.
    pub async fn call<T: FromRedisValue>(
        &self,
        (mut connection, generation): (MultiplexedConnection, u64),
        script: &ScriptInvocation<'_>,
    ) -> Result<T, Gone> {
        self.run(&mut connection, script).await.map_err(|reason| {
            self.lose(generation, reason);
            Gone
        })
    }

    /// Runs a script on a connection that is not in use by others yet.
    pub async fn run<T: FromRedisValue>(
        &self,
        connection: &mut MultiplexedConnection,
        script: &ScriptInvocation<'_>,
    ) -> Result<T, String> {
        match timeout(self.timeout, script.invoke_async(connection)).await {
            Ok(answer) => answer.map_err(|error| plain(&error)),
            Err(_) => Err(self.too_late()),
        }
    }

    /// Makes a new connection; it is in use only once [`Link::use_connection`] has it.
    pub async fn connect(&self) -> Result<MultiplexedConnection, String> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(Some(self.timeout));
        let connecting = self
            .client
            .get_multiplexed_async_connection_with_config(&config);
        match timeout(self.timeout, connecting).await {
            Ok(connection) => connection.map_err(|error| plain(&error)),
            Err(_) => Err(self.too_late()),
        }
    }

    /// Puts a connection to use; returns since when Redis was away.
    pub fn use_connection(&self, connection: MultiplexedConnection) -> Option<Timestamp> {
        let mut state = self.state.lock();
        state.generation += 1;
        let before = std::mem::replace(&mut state.connection, Ok(connection));
        before.err().map(|away| away.since)
    }

    /// Notes why the latest attempt failed.
    pub fn still_away(&self, reason: String) {
        if let Err(away) = &mut self.state.lock().connection {
            away.reason = reason;
        }
    }

    /// Waits until the connection is lost. Cancel safe.
    pub async fn lost(&self) {
        while self.away().is_none() {
            self.lost.notified().await;
        }
    }

    pub fn away(&self) -> Option<Away> {
        self.state.lock().connection.as_ref().err().cloned()
    }

    /// The connection in use, and its generation for [`Link::lose`].
    pub fn connection(&self) -> Option<(MultiplexedConnection, u64)> {
        let state = self.state.lock();
        let connection = state.connection.as_ref().ok()?;
        Some((connection.clone(), state.generation))
    }

    /// Takes the link down, unless another connection is in use by now.
    pub fn lose(&self, generation: u64, reason: String) {
        let mut state = self.state.lock();
        if state.generation != generation || state.connection.is_err() {
            return;
        }
        let since = Timestamp::now();
        state.connection = Err(Away {
            since,
            reason,
            generation,
        });
        drop(state);
        self.lost.notify_one();
    }

    fn too_late(&self) -> String {
        format!("no answer within {} ms", self.timeout.as_millis())
    }
}

/// What went wrong, without anything that the operator's URL or the keys could have put into it.
fn plain(error: &redis::RedisError) -> String {
    if error.is_timeout() {
        return "no answer in time".to_owned();
    }
    if error.is_connection_refusal() {
        return "connection refused".to_owned();
    }
    match error.code() {
        Some(code) => format!("{} ({code})", error.category()),
        None => error.category().to_owned(),
    }
}
