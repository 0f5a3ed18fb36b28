//! Shared accounts that go on without Redis.
//!
//! Invariants:
//! - No caller waits longer for Redis than its timeout.
//! - While Redis is disconnected, this process goes on alone with a part of every limit, counting
//!   what it did before; a Redis that is back is told what it missed or lost.

use std::sync::Arc;

use parking_lot::MutexGuard;
use tokio::time::Instant;

use super::{BoxFuture, Ledger, LocalLedger, Member, Mode, SharedAccounts, redis::RedisLedger};
use crate::{SharedRedis, redis::Connected};

pub(super) struct FallbackLedger<A: SharedAccounts> {
    redis: RedisLedger<A>,
    /// What this process knows and holds of the accounts.
    local: LocalLedger<A>,
}

impl<A: SharedAccounts> FallbackLedger<A> {
    /// Opens a ledger whose leases the task of `redis` renews.
    pub(super) fn attach(mut accounts: A, redis: &SharedRedis) -> Arc<dyn Ledger<A>> {
        accounts.set_mode(Mode::Shared, Instant::now());
        let ledger = Arc::new(Self {
            redis: RedisLedger::new(redis.clone()),
            local: LocalLedger::new(accounts),
        });
        redis.attach(Arc::clone(&ledger) as Arc<dyn Member>);
        ledger
    }

    async fn take(&self, key: &A::Key) -> Result<A::Grant, A::Refusal> {
        let group = A::group(key);
        let request = self.lock().request(key, Instant::now())?;
        let accounts = &self.local.accounts;
        if let Some(response) = self.redis.take(accounts, &group, request).await {
            return response;
        }
        let redis = &self.redis.redis;
        let mode = Mode::Fallback {
            percent: redis.fallback_percent(),
            outage: redis.outage().unwrap_or_default(),
        };
        let mut accounts = self.lock();
        let now = Instant::now();
        accounts.set_mode(mode, now);
        accounts.take(key, now)
    }
}

impl<A: SharedAccounts> Ledger<A> for FallbackLedger<A> {
    fn take<'a>(&'a self, key: &'a A::Key) -> BoxFuture<'a, Result<A::Grant, A::Refusal>> {
        Box::pin(self.take(key))
    }

    fn settle(&self, grant: A::Grant, outcome: A::Outcome) {
        let mut accounts = self.lock();
        let now = Instant::now();
        accounts.settle(&grant, outcome, now);
        drop(accounts);
        for (group, update) in A::settled(&grant, outcome, now) {
            self.redis.push(group, update);
        }
    }

    fn flush(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.redis.flush(&self.local.accounts))
    }

    fn lock(&self) -> MutexGuard<'_, A> {
        self.local.lock()
    }

    fn redis(&self) -> Option<&SharedRedis> {
        Some(&self.redis.redis)
    }
}

impl<A: SharedAccounts> Member for FallbackLedger<A> {
    fn flush_member(&self) -> BoxFuture<'_, ()> {
        self.flush()
    }

    fn renew<'a>(
        &'a self,
        connected: &'a Connected,
        everything: bool,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(
            self.redis
                .renew(&self.local.accounts, connected, everything),
        )
    }

    fn reconnected(&self) {
        self.lock().set_mode(Mode::Shared, Instant::now());
    }
}
