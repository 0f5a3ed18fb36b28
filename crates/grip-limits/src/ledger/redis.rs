//! Accounts that many instances share through Redis, and that go on without it.
//!
//! Invariants:
//! - Asking and taking is one script by Redis's clock; no caller waits longer than the timeout.
//! - What an instance holds is a lease, renewed by the task of the connection. What a killed
//!   instance holds, or could not give back because too much is pending, is free when its lease
//!   ends.
//! - Only that task tells updates and renewals, one after the other, so that what was given back is
//!   never renewed.
//! - While Redis is disconnected, this process goes on alone with a part of every limit, counting
//!   what it did before; a Redis that is back is told what it missed or lost.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use super::{BoxFuture, Ledger, Member, Mode, SharedAccounts};
use crate::{SharedRedis, redis::Connected};

/// How many updates wait for a Redis that is slow or disconnected. Beyond, the oldest is dropped:
/// what it would have freed comes back when its lease ends, and what it taught is older than the
/// rest.
const MAX_PENDING: usize = 4_096;

/// How many are told in one step.
const AT_ONCE: usize = 128;

pub(super) struct RedisLedger<A: SharedAccounts> {
    redis: SharedRedis,
    script: redis::Script,
    /// What this process knows and holds of the accounts.
    accounts: Mutex<A>,
    pending: Mutex<PendingUpdates<A>>,
}

/// Updates that Redis has not been told yet, the oldest first.
struct PendingUpdates<A: SharedAccounts> {
    updates: VecDeque<(A::Group, A::Update)>,
    /// Whether the task is telling some that are not among them.
    is_telling: bool,
}

/// A request whose response may never come.
///
/// Dropped with its withdrawal, it gives back what Redis may have given out.
struct Unanswered<'a, A: SharedAccounts> {
    ledger: &'a RedisLedger<A>,
    withdrawal: Option<(A::Group, A::Update)>,
}

impl<A: SharedAccounts> RedisLedger<A> {
    /// Opens a ledger whose leases the task of `redis` renews.
    pub(super) fn attach(mut accounts: A, redis: &SharedRedis) -> Arc<dyn Ledger<A>> {
        accounts.set_mode(Mode::Shared, Instant::now());
        let ledger = Arc::new(Self {
            redis: redis.clone(),
            script: redis::Script::new(A::SCRIPT),
            accounts: Mutex::new(accounts),
            pending: Mutex::new(PendingUpdates {
                updates: VecDeque::new(),
                is_telling: false,
            }),
        });
        redis.attach(Arc::clone(&ledger) as Arc<dyn Member>);
        ledger
    }

    async fn take(&self, key: &A::Key) -> Result<A::Grant, A::Refusal> {
        let group = A::group(key);
        let request = self.lock().request(key, Instant::now())?;
        if let Some(response) = self.take_shared(&group, request).await {
            return response;
        }
        let mode = Mode::Fallback {
            percent: self.redis.fallback_percent(),
            outage: self.redis.outage().unwrap_or_default(),
        };
        let mut accounts = self.lock();
        let now = Instant::now();
        accounts.set_mode(mode, now);
        accounts.take(key, now)
    }

    /// Takes in Redis. None where it did not respond: the request may have been granted, and is
    /// withdrawn.
    async fn take_shared(
        &self,
        group: &A::Group,
        request: A::Request,
    ) -> Option<Result<A::Grant, A::Refusal>> {
        let connected = self.redis.connected()?;
        let now = Instant::now();
        let mut unanswered = Unanswered {
            ledger: self,
            withdrawal: A::withdraw(&request, now).map(|update| (group.clone(), update)),
        };
        let call = self
            .lock()
            .call(&self.redis, group, Some(&request), &[], now);
        let numbers = connected.run(&self.script, &call).await.ok()?;
        let mut accounts = self.lock();
        let now = Instant::now();
        accounts.observe(group, &numbers, now)?;
        let granted = accounts.granted(request, &numbers, now)?;
        unanswered.withdrawal = None;
        Some(granted)
    }

    /// Has the task tell others of an update.
    fn push(&self, group: A::Group, update: A::Update) {
        let updates = &mut self.pending.lock().updates;
        if updates.len() >= MAX_PENDING {
            updates.pop_front();
        }
        updates.push_back((group, update));
        self.redis.wake();
    }

    async fn tell_pending(&self) {
        while let Some(connected) = self.redis.connected() {
            let next = self.pending.lock().next();
            let Some((group, updates)) = next else { return };
            let told = self.tell(&connected, &group, &updates).await;
            let mut pending = self.pending.lock();
            pending.is_telling = false;
            if told.is_err() {
                pending.put_back(&group, updates);
                return;
            }
        }
    }

    async fn renew(&self, connected: &Connected, everything: bool) -> Result<(), String> {
        let renewals = self.lock().renewals(everything, Instant::now());
        for (group, updates) in renewals {
            for updates in updates.chunks(1_024) {
                self.tell(connected, &group, updates).await?;
            }
        }
        Ok(())
    }

    async fn tell(
        &self,
        connected: &Connected,
        group: &A::Group,
        updates: &[A::Update],
    ) -> Result<(), String> {
        let now = Instant::now();
        let call = self.lock().call(&self.redis, group, None, updates, now);
        let numbers = connected.run(&self.script, &call).await?;
        let mut accounts = self.lock();
        let observed = accounts.observe(group, &numbers, Instant::now());
        observed.ok_or_else(|| "unreadable response".to_owned())?;
        accounts.confirmed(group, updates);
        Ok(())
    }
}

impl<A: SharedAccounts> Ledger<A> for RedisLedger<A> {
    fn lock(&self) -> MutexGuard<'_, A> {
        self.accounts.lock()
    }

    fn take<'a>(&'a self, key: &'a A::Key) -> BoxFuture<'a, Result<A::Grant, A::Refusal>> {
        Box::pin(self.take(key))
    }

    fn settle(&self, grant: A::Grant, outcome: A::Outcome) {
        let mut accounts = self.lock();
        let now = Instant::now();
        accounts.settle(&grant, outcome, now);
        drop(accounts);
        for (group, update) in A::settled(&grant, outcome, now) {
            self.push(group, update);
        }
    }

    fn flush(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let is_pending = {
                let pending = self.pending.lock();
                pending.is_telling || !pending.updates.is_empty()
            };
            if is_pending {
                self.redis.flushed().await;
            }
        })
    }

    fn redis(&self) -> Option<&SharedRedis> {
        Some(&self.redis)
    }
}

impl<A: SharedAccounts> Member for RedisLedger<A> {
    fn tell_pending(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.tell_pending())
    }

    fn renew<'a>(
        &'a self,
        connected: &'a Connected,
        everything: bool,
    ) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(self.renew(connected, everything))
    }

    fn reconnected(&self) {
        self.lock().set_mode(Mode::Shared, Instant::now());
    }
}

impl<A: SharedAccounts> PendingUpdates<A> {
    /// Takes out the oldest updates that belong together.
    fn next(&mut self) -> Option<(A::Group, Vec<A::Update>)> {
        let group = self.updates.front()?.0.clone();
        let mut found = Vec::new();
        self.updates.retain(|(of, update)| {
            let belongs = *of == group && found.len() < AT_ONCE;
            if belongs {
                found.push(update.clone());
            }
            !belongs
        });
        self.is_telling = true;
        Some((group, found))
    }

    /// Puts updates back that could not be told, as far as there is room.
    fn put_back(&mut self, group: &A::Group, updates: Vec<A::Update>) {
        let free = MAX_PENDING.saturating_sub(self.updates.len());
        for update in updates.into_iter().rev().take(free) {
            self.updates.push_front((group.clone(), update));
        }
    }
}

impl<A: SharedAccounts> Drop for Unanswered<'_, A> {
    fn drop(&mut self) {
        if let Some((group, update)) = self.withdrawal.take() {
            self.ledger.push(group, update);
        }
    }
}
