//! The Redis that instances share.
//!
//! One connection for all ledgers of this process, and one task that serves it: it finds Redis
//! while it is disconnected, tells it what was settled here, and renews leases.
//!
//! The URL is a secret: it is in no log and in no error.

use std::{fmt, sync::Arc, time::Duration};

use grip_tasks::TaskGroup;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{
    BackendStatus,
    ledger::{Member, Members, ScriptCall},
};

mod connection;
mod task;

pub(crate) use self::connection::Connected;
use self::{connection::Connection, task::RedisTask};

/// Where the shared ledgers are.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisOptions {
    /// `redis://` or `rediss://`, with password and number of the database where needed.
    pub url: String,
    /// The part of every limit that each instance uses while Redis is disconnected: 25.
    pub fallback_percent: u32,
    /// After this time, what a dead instance held is free: 30 seconds.
    pub lease: Duration,
    /// Begins every key, so that several networks of nodes can share one Redis: `gripfast`.
    pub prefix: String,
    /// The longest that a request waits for Redis: 500 milliseconds.
    pub timeout: Duration,
}

/// Why Redis cannot be used. A Redis that is merely disconnected is no error.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RedisError {
    #[error("the URL of Redis cannot be read")]
    Url,
    #[error("the lease of slots must be at least {} ms", MIN_LEASE.as_millis())]
    Lease,
}

/// A shorter lease could end between two renewals on a busy machine.
const MIN_LEASE: Duration = Duration::from_millis(300);

/// The Redis that the instances share, for as many ledgers as there are. Cheap to clone.
#[derive(Clone)]
pub struct SharedRedis {
    shared: Arc<Shared>,
}

struct Shared {
    options: RedisOptions,
    connection: Connection,
    /// This process among all that share the Redis.
    instance: String,
    /// Bounded by the ledgers of the process.
    members: Members,
    /// Tells the task that something is pending.
    pending: Notify,
}

/// A script that only touches the keys it is given, and responds with whole numbers.
pub(crate) struct Script(redis::Script);

impl SharedRedis {
    /// Does not connect yet.
    pub(crate) fn new(options: RedisOptions) -> Result<Self, RedisError> {
        if options.lease < MIN_LEASE {
            return Err(RedisError::Lease);
        }
        let shared = Arc::new(Shared {
            connection: Connection::new(&options.url, options.timeout)?,
            options,
            instance: format!("{:016x}", rand::random::<u64>()),
            members: Mutex::default(),
            pending: Notify::new(),
        });
        Ok(Self { shared })
    }

    /// Tries to connect once, then starts the task.
    ///
    /// It works until the group stops or no ledger is in use.
    pub(crate) async fn start(&self, group: &TaskGroup) {
        let mut task = RedisTask::new(self.clone(), group.token());
        task.try_connect().await;
        group.spawn("redis-ledger", task.run());
    }

    /// The connection; none while Redis is disconnected.
    pub(crate) fn connected(&self) -> Option<Connected> {
        let (connection, generation) = self.shared.connection.get()?;
        Some(Connected {
            redis: self.clone(),
            connection,
            generation: Some(generation),
        })
    }

    /// Which outage this is; none while Redis is connected.
    pub(crate) fn outage(&self) -> Option<u64> {
        let outage = self.shared.connection.outage()?;
        Some(outage.generation)
    }

    pub(crate) fn backend(&self) -> BackendStatus {
        match self.shared.connection.outage() {
            None => BackendStatus::Redis { connected: true },
            Some(outage) => BackendStatus::Fallback {
                since: outage.since,
                percent: self.fallback_percent(),
                reason: outage.reason,
            },
        }
    }

    /// Begins every key.
    pub fn prefix(&self) -> &str {
        &self.shared.options.prefix
    }

    /// This process among all that share the Redis.
    pub fn instance(&self) -> &str {
        &self.shared.instance
    }

    pub(crate) fn lease(&self) -> Duration {
        self.shared.options.lease
    }

    pub(crate) fn fallback_percent(&self) -> u32 {
        self.shared.options.fallback_percent
    }

    pub(crate) fn attach(&self, member: Arc<dyn Member>) {
        self.shared.members.lock().push(member);
    }

    /// Has the task tell Redis what is pending.
    pub(crate) fn wake(&self) {
        self.shared.pending.notify_one();
    }
}

impl Script {
    pub fn new(text: &str) -> Self {
        Self(redis::Script::new(text))
    }

    fn invocation(&self, call: &ScriptCall) -> redis::ScriptInvocation<'_> {
        let mut invocation = self.0.prepare_invoke();
        for key in &call.keys {
            invocation.key(key);
        }
        for argument in &call.arguments {
            invocation.arg(argument);
        }
        invocation
    }
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            url: "redis://127.0.0.1/".to_owned(),
            fallback_percent: 25,
            lease: Duration::from_secs(30),
            prefix: "gripfast".to_owned(),
            timeout: Duration::from_millis(500),
        }
    }
}

impl fmt::Debug for RedisOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisOptions")
            .field("fallback_percent", &self.fallback_percent)
            .field("lease", &self.lease)
            .field("prefix", &self.prefix)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}
