//! Accounts that many instances share through Redis.
//!
//! Invariants:
//! - Asking and taking is one script by Redis's clock.
//! - What an instance holds is a lease, renewed by the task of the connection. What a killed
//!   instance holds, or could not give back because too much is pending, is free when its lease
//!   ends.
//! - Updates and renewals are told one after the other, so that what was given back is never
//!   renewed.

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    SharedAccounts,
    pending::{Batch, PendingUpdates},
};
use crate::{
    SharedRedis,
    redis::{Connected, Script},
};

pub(super) struct RedisLedger<A: SharedAccounts> {
    pub(super) redis: SharedRedis,
    script: Script,
    pending: PendingUpdates<A>,
    /// Held while updates are told.
    telling: tokio::sync::Mutex<()>,
}

/// A request whose response may never come.
///
/// Dropped without [`Unanswered::answered`], it gives back what Redis may have given out.
struct Unanswered<'a, A: SharedAccounts> {
    ledger: &'a RedisLedger<A>,
    withdrawal: Option<(A::Group, A::Update)>,
}

impl<A: SharedAccounts> RedisLedger<A> {
    pub(super) fn new(redis: SharedRedis) -> Self {
        Self {
            redis,
            script: Script::new(A::SCRIPT),
            pending: PendingUpdates::new(),
            telling: tokio::sync::Mutex::default(),
        }
    }

    /// Takes in Redis. None where it did not respond: the request may have been granted, and is
    /// withdrawn.
    pub(super) async fn take(
        &self,
        accounts: &Mutex<A>,
        group: &A::Group,
        request: A::Request,
    ) -> Option<Result<A::Grant, A::Refusal>> {
        let connected = self.redis.connected()?;
        let now = Instant::now();
        let unanswered = Unanswered {
            ledger: self,
            withdrawal: A::withdraw(&request, now).map(|update| (group.clone(), update)),
        };
        let call = accounts
            .lock()
            .call(&self.redis, group, Some(&request), &[], now);
        let numbers = connected.run(&self.script, &call).await.ok()?;
        let mut accounts = accounts.lock();
        let now = Instant::now();
        accounts.observe(group, &numbers, now)?;
        let granted = accounts.granted(request, &numbers, now)?;
        unanswered.answered();
        Some(granted)
    }

    /// Has the task tell others of an update.
    pub(super) fn push(&self, group: A::Group, update: A::Update) {
        self.pending.push(group, update);
        self.redis.wake();
    }

    /// Tells what is pending, as long as Redis responds.
    pub(super) async fn flush(&self, accounts: &Mutex<A>) {
        let _telling = self.telling.lock().await;
        while let Some(batch) = self.pending.next() {
            let Some(connected) = self.redis.connected() else {
                return;
            };
            let Batch { group, updates, .. } = &batch;
            if self
                .tell(accounts, &connected, group, updates)
                .await
                .is_err()
            {
                return;
            }
            batch.confirm();
        }
    }

    /// Renews what is held; tells `everything` to a Redis that may have lost all.
    pub(super) async fn renew(
        &self,
        accounts: &Mutex<A>,
        connected: &Connected,
        everything: bool,
    ) -> Result<(), String> {
        let _telling = self.telling.lock().await;
        let renewals = accounts.lock().renewals(everything, Instant::now());
        for (group, updates) in renewals {
            for updates in updates.chunks(1_024) {
                self.tell(accounts, connected, &group, updates).await?;
            }
        }
        Ok(())
    }

    async fn tell(
        &self,
        accounts: &Mutex<A>,
        connected: &Connected,
        group: &A::Group,
        updates: &[A::Update],
    ) -> Result<(), String> {
        let now = Instant::now();
        let call = accounts.lock().call(&self.redis, group, None, updates, now);
        let numbers = connected.run(&self.script, &call).await?;
        let mut accounts = accounts.lock();
        let observed = accounts.observe(group, &numbers, Instant::now());
        observed.ok_or_else(|| "unreadable response".to_owned())?;
        accounts.confirmed(group, updates);
        Ok(())
    }
}

impl<A: SharedAccounts> Unanswered<'_, A> {
    fn answered(mut self) {
        self.withdrawal = None;
    }
}

impl<A: SharedAccounts> Drop for Unanswered<'_, A> {
    fn drop(&mut self) {
        if let Some((group, update)) = self.withdrawal.take() {
            self.ledger.push(group, update);
        }
    }
}
