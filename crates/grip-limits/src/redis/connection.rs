//! The connection to Redis: in use, or lost since when and why.
//!
//! Invariants: nobody waits longer than the timeout; the reason of an outage never holds the URL,
//! whose password is a secret; a failure of an old connection does not take down a newer one.

use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use redis::{AsyncConnectionConfig, Client, aio::MultiplexedConnection};
use tokio::{sync::Notify, time::timeout};

use super::{RedisError, SharedRedis};
use crate::ledger::ScriptCall;

/// One connection that all calls of this process share.
pub(super) struct Connection {
    client: Client,
    timeout: Duration,
    state: Mutex<State>,
    /// Told when the connection is lost.
    lost: Notify,
}

struct State {
    /// Counts the connections, so that late errors can be told from new ones.
    generation: u64,
    connection: Result<MultiplexedConnection, Outage>,
}

/// Since when Redis is disconnected, and why.
#[derive(Clone, Debug)]
pub(super) struct Outage {
    pub since: Timestamp,
    pub reason: String,
    /// Tells this outage from others.
    pub generation: u64,
}

/// The connection in use at one moment, or one that is not in use yet.
pub(crate) struct Connected {
    pub(super) redis: SharedRedis,
    pub(super) connection: MultiplexedConnection,
    /// None while it is not in use.
    pub(super) generation: Option<u64>,
}

impl Connected {
    /// Runs a script. A failure takes the connection down for everybody, until Redis is found
    /// again.
    ///
    /// Dropped before its end, it may have run.
    pub async fn run(&self, script: &redis::Script, call: &ScriptCall) -> Result<Vec<i64>, String> {
        let shared = &self.redis.shared.connection;
        let mut connection = self.connection.clone();
        let mut invocation = script.prepare_invoke();
        for key in &call.keys {
            invocation.key(key);
        }
        invocation.arg(&call.arguments);
        let run = timeout(shared.timeout, invocation.invoke_async(&mut connection)).await;
        let run = match run {
            Ok(run) => run.map_err(|error| plain(&error)),
            Err(_) => Err(shared.timed_out()),
        };
        run.inspect_err(|reason| {
            if let Some(generation) = self.generation {
                shared.lose(generation, reason.clone());
            }
        })
    }
}

impl Connection {
    /// Does not connect yet.
    pub fn new(url: &str, timeout: Duration) -> Result<Self, RedisError> {
        // Without one the TLS of `rediss://` panics. One that was chosen before stays.
        let _ = rustls::crypto::ring::default_provider().install_default();
        // The parser's own words might hold parts of the URL.
        let client = Client::open(url).map_err(|_| RedisError::Url)?;
        let outage = Outage {
            since: Timestamp::now(),
            reason: "not connected yet".to_owned(),
            generation: 0,
        };
        let state = State {
            generation: 0,
            connection: Err(outage),
        };
        Ok(Self {
            client,
            timeout,
            state: Mutex::new(state),
            lost: Notify::new(),
        })
    }

    /// Makes a new connection; it is in use only after [`Connection::set`].
    pub async fn open(&self) -> Result<MultiplexedConnection, String> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(Some(self.timeout));
        let connecting = self
            .client
            .get_multiplexed_async_connection_with_config(&config);
        match timeout(self.timeout, connecting).await {
            Ok(connection) => connection.map_err(|error| plain(&error)),
            Err(_) => Err(self.timed_out()),
        }
    }

    /// Puts a connection to use.
    pub fn set(&self, connection: MultiplexedConnection) {
        let mut state = self.state.lock();
        state.generation += 1;
        state.connection = Ok(connection);
    }

    /// Notes why the latest attempt to connect failed.
    pub fn set_reason(&self, reason: String) {
        if let Err(outage) = &mut self.state.lock().connection {
            outage.reason = reason;
        }
    }

    /// Waits until the connection is lost. Cancel safe.
    pub async fn lost(&self) {
        while self.outage().is_none() {
            self.lost.notified().await;
        }
    }

    pub fn outage(&self) -> Option<Outage> {
        self.state.lock().connection.as_ref().err().cloned()
    }

    /// The connection in use, and its generation for [`Connection::lose`].
    pub fn get(&self) -> Option<(MultiplexedConnection, u64)> {
        let state = self.state.lock();
        let connection = state.connection.as_ref().ok()?;
        Some((connection.clone(), state.generation))
    }

    /// Takes the connection down, unless another is in use by now.
    fn lose(&self, generation: u64, reason: String) {
        let mut state = self.state.lock();
        if state.generation != generation || state.connection.is_err() {
            return;
        }
        let since = Timestamp::now();
        state.connection = Err(Outage {
            since,
            reason,
            generation,
        });
        drop(state);
        self.lost.notify_one();
    }

    fn timed_out(&self) -> String {
        format!("no response within {} ms", self.timeout.as_millis())
    }
}

/// What went wrong, without anything that the operator's URL or the keys could have put into it.
fn plain(error: &redis::RedisError) -> String {
    if error.is_timeout() {
        return "no response in time".to_owned();
    }
    if error.is_connection_refusal() {
        return "connection refused".to_owned();
    }
    match error.code() {
        Some(code) => format!("{} ({code})", error.category()),
        None => error.category().to_owned(),
    }
}
