//! The Redis that instances share.
//!
//! One connection for all ledgers of this process, and one task that serves it: it finds Redis
//! while it is disconnected, tells it what was settled here, and renews leases.
//!
//! The URL is a secret: it is in no log and in no error.

use std::{
    fmt,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use grip_tasks::CancellationToken;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::{BackendStatus, ledger::Member};

mod connection;
mod task;

use self::connection::Connection;
pub(crate) use self::{connection::Connected, task::RedisTask};

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
    members: Mutex<Vec<Arc<dyn Member>>>,
    /// Tells the task that something is pending.
    pending: Notify,
    /// How many callers asked the task to tell what is pending, and up to which of them it did.
    flushes: AtomicU64,
    flushed: watch::Receiver<u64>,
}

impl SharedRedis {
    /// Does not connect yet: that is done by the task, which renews leases and tells updates.
    pub(crate) fn new(
        options: RedisOptions,
        stop: CancellationToken,
    ) -> Result<(Self, RedisTask), RedisError> {
        if options.lease < MIN_LEASE {
            return Err(RedisError::Lease);
        }
        let (told, flushed) = watch::channel(0);
        let shared = Arc::new(Shared {
            connection: Connection::new(&options.url, options.timeout)?,
            options,
            instance: format!("{:016x}", rand::random::<u64>()),
            members: Mutex::default(),
            pending: Notify::new(),
            flushes: AtomicU64::new(0),
            flushed,
        });
        let redis = Self { shared };
        let task = RedisTask::new(redis.clone(), told, stop);
        Ok((redis, task))
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

    /// Drops the ledgers that nobody else uses any more; whether any is left.
    fn retain_used(&self) -> bool {
        let mut members = self.shared.members.lock();
        members.retain(|member| Arc::strong_count(member) > 1);
        !members.is_empty()
    }

    /// Has the task tell Redis what is pending.
    pub(crate) fn wake(&self) {
        self.shared.pending.notify_one();
    }

    /// Waits until the task told what is pending now; ends early where Redis is disconnected or
    /// the task has ended. Cancel safe.
    pub(crate) async fn flushed(&self) {
        let number = self.shared.flushes.fetch_add(1, Ordering::SeqCst) + 1;
        // After the count: a task that loses the connection now sees it and reports it as done.
        if self.outage().is_some() {
            return;
        }
        self.wake();
        let mut flushed = self.shared.flushed.clone();
        let _ = flushed.wait_for(|upto| *upto >= number).await;
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
