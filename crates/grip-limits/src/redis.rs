//! The ledger that many instances share through Redis.
//!
//! Invariants:
//! - Asking and taking is one script by Redis's clock, so that all instances together keep the
//!   limits of a host, heed what it said to one of them, and share its breaker.
//! - A slot is a lease, renewed by a task of the group. What an instance holds that is killed, or
//!   could not give back because too much waits to be told, is free when the lease ends.
//! - No request waits longer for Redis than the timeout. With Redis away, each instance goes on
//!   alone with a part of every limit, counting what it did before; when Redis is back, it is
//!   told what it missed or lost.
//! - An idle host leaves Redis by itself.
//! - The URL is a secret: it is in no log and in no error.

use std::{fmt, sync::Arc, time::Duration};

use grip_tasks::TaskGroup;
use grip_types::Domain;
use tokio::{sync::mpsc::Sender, time::Instant};

use self::{
    books::Books,
    job::{Settle, Unanswered},
    link::Link,
    reply::{Numbers, Reply},
    scripts::Scripts,
    worker::Worker,
};
use crate::{
    BackendStatus, HostStatus, Lane, Options, Refused, Throttle,
    ledger::{Asked, Bell, Ledger, Outcome, Slot},
};

mod books;
mod job;
mod link;
mod reply;
mod scripts;
mod shared;
mod worker;

pub use self::shared::{Connected, RedisAway, Script, SharedRedis};

/// How soon to ask again where only the end of a request helps, of which nobody tells us.
const RECHECK: Duration = Duration::from_millis(250);

/// Where the shared books are.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisOptions {
    /// `redis://` or `rediss://`, with password and number of the database where needed.
    pub url: String,
    /// The part of every limit that each instance uses while Redis is away: 25.
    pub fallback_percent: u32,
    /// After this time, what a dead instance held is free: 30 seconds.
    pub lease: Duration,
    /// Begins every key, so that several networks of nodes can share one Redis: `gripfast`.
    pub prefix: String,
    /// The longest that a request waits for Redis: 500 milliseconds.
    pub timeout: Duration,
}

/// Why there can be no throttle over Redis. A Redis that is merely away is no error.
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

impl Throttle {
    /// A throttle whose books are in Redis, shared by all instances that use it.
    ///
    /// Where Redis does not answer at once, it begins without. The group's task renews leases,
    /// gives slots back, and looks for Redis while it is away.
    pub async fn redis(
        options: Options,
        redis: RedisOptions,
        group: &TaskGroup,
    ) -> Result<Self, RedisError> {
        if redis.lease < MIN_LEASE {
            return Err(RedisError::Lease);
        }
        let shared = Arc::new(Shared {
            link: Link::new(&redis.url, redis.timeout)?,
            scripts: Scripts::new(&options, &redis),
            books: Books::new(options, redis.fallback_percent),
            bell: Bell::default(),
            percent: redis.fallback_percent,
        });
        let (jobs, queue) = job::queue();
        let worker = Worker::new(Arc::clone(&shared), queue, redis.lease, group.token());
        let worker = worker.begin().await;
        group.spawn("redis-ledger", worker.run());
        Ok(Self::over(Arc::new(RedisLedger { shared, jobs })))
    }
}

struct RedisLedger {
    shared: Arc<Shared>,
    /// The worker ends when this is gone.
    jobs: Sender<Settle>,
}

/// What ledger and worker both need.
struct Shared {
    link: Link,
    scripts: Scripts,
    books: Books,
    bell: Bell,
    percent: u32,
}

impl Ledger for RedisLedger {
    fn acquire<'a>(&'a self, domain: &'a Domain, lane: Lane) -> Asked<'a, Result<Slot, Refused>> {
        Box::pin(self.take(domain, lane))
    }

    fn again<'a>(&'a self, slot: &'a mut Slot) -> Asked<'a, Result<(), Refused>> {
        Box::pin(self.take_again(slot))
    }

    fn release(&self, slot: Slot, outcome: Outcome) {
        let domain = slot.domain.clone();
        let job = self.shared.books.release(slot, outcome);
        let told = job.is_some_and(|job| self.jobs.try_send(job).is_ok());
        // Who asks before Redis has been told finds the slot taken: then the worker rings.
        if !told || self.shared.link.away().is_some() {
            self.shared.bell.ring(&domain);
        }
    }

    fn is_throttled(&self, domain: &Domain, lane: Lane) -> bool {
        self.shared.books.is_throttled(domain, lane)
    }

    fn failures(&self, domain: &Domain) -> u32 {
        self.shared.books.failures(domain)
    }

    fn bell(&self) -> &Bell {
        &self.shared.bell
    }

    fn hosts(&self) -> Vec<HostStatus> {
        self.shared.books.hosts()
    }

    fn backend(&self) -> BackendStatus {
        match self.shared.link.away() {
            None => BackendStatus::Redis { connected: true },
            Some(away) => BackendStatus::Fallback {
                since: away.since,
                percent: self.shared.percent,
                reason: away.reason,
            },
        }
    }

    fn recheck(&self) -> Option<Duration> {
        Some(RECHECK)
    }

    fn shared(&self) -> Option<SharedRedis> {
        let shared = Arc::clone(&self.shared);
        Some(SharedRedis { shared })
    }
}

impl RedisLedger {
    async fn take(&self, domain: &Domain, lane: Lane) -> Result<Slot, Refused> {
        let Shared {
            link,
            scripts,
            books,
            ..
        } = &*self.shared;
        let token = books.open(domain, Instant::now())?;
        if let Some(connection) = link.connection() {
            let unanswered = Unanswered::new(&self.jobs, domain, lane, token);
            let call = scripts.acquire(domain, lane, token);
            if let Ok(numbers) = link.call::<Numbers>(connection, &call).await {
                unanswered.heard();
                let reply = Reply::read(numbers, lane, Instant::now());
                if reply.granted {
                    return Ok(books.granted(domain, lane, token, reply));
                }
                let refused = reply.refused(domain, lane);
                books.see(domain, reply.seen);
                return Err(refused);
            }
        }
        let generation = link.away().map_or(0, |away| away.generation);
        books.take_alone(domain, lane, generation)
    }

    async fn take_again(&self, slot: &mut Slot) -> Result<(), Refused> {
        let Shared {
            link,
            scripts,
            books,
            ..
        } = &*self.shared;
        if let Some(connection) = link.connection() {
            let start = books.next_start(slot);
            let call = scripts.again(&slot.domain, slot.lane, start, slot.probe);
            if let Ok(numbers) = link.call::<Numbers>(connection, &call).await {
                let reply = Reply::read(numbers, slot.lane, Instant::now());
                if reply.granted {
                    books.granted_again(slot, start, reply);
                    return Ok(());
                }
                let refused = reply.refused(&slot.domain, slot.lane);
                books.see(&slot.domain, reply.seen);
                return Err(refused);
            }
        }
        let generation = link.away().map_or(0, |away| away.generation);
        books.again_alone(slot, generation)
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
