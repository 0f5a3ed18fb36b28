//! The ledger of a limit: what was taken of it, in this process or by all instances together.
//!
//! The rules of a limit are its [`Accounts`]; who keeps them is a [`Ledger`]: [`LocalLedger`] in
//! this process's memory, or `RedisLedger`, which goes on with a part of every limit while Redis is
//! disconnected.
//!
//! Invariants of every ledger:
//! - Asking and taking is one step: two callers never get the same permit.
//! - What was taken is settled exactly once, through [`Ledger::settle`], which waits for nothing,
//!   so that it can run while a permit is dropped, also during a panic and outside a runtime.

use std::{pin::Pin, sync::Arc};

use parking_lot::{Mutex, MutexGuard};
use tokio::time::Instant;

use crate::SharedRedis;

mod redis;

use redis::RedisLedger;

/// A boxed future, so that traits stay object safe.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The rules of one kind of limit, and what is taken at present. Pure: time is an argument.
pub trait Accounts: Send + 'static {
    /// What a permit is asked for.
    type Key: Send + Sync;
    /// What was taken. Not `Clone`: it is settled once.
    type Grant: Send + Sync;
    /// How the use of a grant ended.
    type Outcome: Copy + Send;
    /// Why nothing may be taken, and until when.
    type Refusal: Send;

    fn take(&mut self, key: &Self::Key, now: Instant) -> Result<Self::Grant, Self::Refusal>;

    fn settle(&mut self, grant: &Self::Grant, outcome: Self::Outcome, now: Instant);

    /// The outcome of a permit that is dropped.
    fn dropped(grant: &Self::Grant, now: Instant) -> Self::Outcome;
}

/// Accounts that instances share through a script in Redis.
///
/// A process keeps its own part of them: what it holds, and what it saw last of the whole.
pub trait SharedAccounts: Accounts {
    /// What one run of the script is about: accounts whose keys share a hash tag.
    type Group: Clone + PartialEq + Send + Sync;
    /// A take that has its name: others must not take under the same.
    type Request: Send + Sync;
    /// A change that other instances must learn. Applying it twice does no harm.
    type Update: Clone + Send + Sync;

    /// Applies updates, then takes if asked to; answers with whole numbers.
    const SCRIPT: &'static str;

    fn group(key: &Self::Key) -> Self::Group;

    fn request(&mut self, key: &Self::Key, now: Instant) -> Result<Self::Request, Self::Refusal>;

    /// Keys and arguments of the script.
    fn call(
        &self,
        redis: &SharedRedis,
        group: &Self::Group,
        request: Option<&Self::Request>,
        updates: &[Self::Update],
        now: Instant,
    ) -> ScriptCall;

    /// Notes the response to a run of the script. None if it cannot be read.
    fn observe(&mut self, group: &Self::Group, numbers: &[i64], now: Instant) -> Option<()>;

    /// What became of `request`, after [`SharedAccounts::observe`]. None if it cannot be read.
    fn granted(
        &mut self,
        request: Self::Request,
        numbers: &[i64],
        now: Instant,
    ) -> Option<Result<Self::Grant, Self::Refusal>>;

    /// Undoes a request of which it is not known whether it was granted.
    fn withdraw(request: &Self::Request, now: Instant) -> Option<Self::Update>;

    /// What others must learn from the end of a grant.
    fn settled(
        grant: &Self::Grant,
        outcome: Self::Outcome,
        now: Instant,
    ) -> Vec<(Self::Group, Self::Update)>;

    /// What this process holds, to renew its leases, and what Redis was not told of; `everything`
    /// where Redis may have lost all.
    fn renewals(&mut self, everything: bool, now: Instant)
    -> Vec<(Self::Group, Vec<Self::Update>)>;

    /// Notes that Redis knows these updates.
    fn confirmed(&mut self, group: &Self::Group, updates: &[Self::Update]);

    /// Changes who keeps the whole.
    fn set_mode(&mut self, mode: Mode, now: Instant);
}

/// Who keeps the whole of the accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// This process alone, with all of every limit.
    #[default]
    Local,
    /// Redis, for all instances.
    Shared,
    /// This process alone, with a part of every limit, while Redis is disconnected.
    Fallback { percent: u32, outage: u64 },
}

/// Keys and arguments of one run of a script.
#[derive(Debug, Default)]
pub struct ScriptCall {
    pub keys: Vec<String>,
    pub arguments: Vec<String>,
}

/// Keeps accounts.
pub trait Ledger<A: Accounts>: Send + Sync {
    /// The accounts as this process knows them.
    fn lock(&self) -> MutexGuard<'_, A>;

    /// Takes, or says why not; never waits for capacity.
    ///
    /// Cancel safe: a future that is dropped leaves nothing taken for good.
    fn take<'a>(&'a self, key: &'a A::Key) -> BoxFuture<'a, Result<A::Grant, A::Refusal>> {
        Box::pin(async move { self.lock().take(key, Instant::now()) })
    }

    /// Ends the use of a grant. Never blocks, never waits, never panics.
    fn settle(&self, grant: A::Grant, outcome: A::Outcome) {
        // Read under the lock, so that times in the accounts never go back.
        let mut accounts = self.lock();
        accounts.settle(&grant, outcome, Instant::now());
    }

    /// Tells the other instances what was settled here; ends early where Redis is disconnected.
    ///
    /// Cancel safe: it is done without a caller too, a little later.
    fn flush(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// The Redis that instances share; none where this process is alone.
    fn redis(&self) -> Option<&SharedRedis> {
        None
    }
}

/// Opens a ledger: shared through `redis` where there is one, else of this process alone.
pub fn open<A: SharedAccounts>(accounts: A, redis: Option<&SharedRedis>) -> Arc<dyn Ledger<A>> {
    match redis {
        None => Arc::new(LocalLedger::new(accounts)),
        Some(redis) => RedisLedger::attach(accounts, redis),
    }
}

/// Accounts in the memory of this process.
pub struct LocalLedger<A>(Mutex<A>);

impl<A: Accounts> LocalLedger<A> {
    pub(crate) fn new(accounts: A) -> Self {
        Self(Mutex::new(accounts))
    }
}

impl<A: Accounts> Ledger<A> for LocalLedger<A> {
    fn lock(&self) -> MutexGuard<'_, A> {
        self.0.lock()
    }
}

/// A ledger as the task sees it that serves Redis for all ledgers. Only that task calls it.
pub(crate) trait Member: Send + Sync {
    /// Tells Redis what was settled here, as long as it responds.
    fn tell_pending(&self) -> BoxFuture<'_, ()>;

    /// Renews leases over a connection; `everything` where Redis may have lost all.
    fn renew<'a>(
        &'a self,
        connected: &'a crate::redis::Connected,
        everything: bool,
    ) -> BoxFuture<'a, Result<(), String>>;

    /// Notes that Redis is in use again.
    fn reconnected(&self);
}
