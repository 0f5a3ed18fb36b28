//! The books of all budgets: one per token and kind of call.
//!
//! They are in this process's memory, or in the Redis that the throttle shares with other
//! instances; then all of them spend one budget. Both keep the rules of [`accounts`].

mod accounts;
mod memory;
mod redis;
mod seat;
mod window;

use std::{pin::Pin, sync::Arc, time::SystemTime};

use grip_limits::Throttle;
use tokio::time::Instant;
use url::Url;

use self::{
    accounts::{Accounts, Rules},
    memory::Memory,
    redis::Joint,
    seat::Taken,
};
pub(crate) use self::{seat::Seat, window::Told};
use crate::{
    options::{Options, Token},
    quota::Resource,
};

/// What is left of one budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The token's place in the options, without those named twice; none for calls without one.
    pub token: Option<usize>,
    /// `core`, `search`, `code_search` or `other`.
    pub resource: &'static str,
    /// None where the host keeps no budget, or has not told yet.
    pub limit: Option<u32>,
    /// Without calls whose answer was lost. Where instances share the budget: when this one
    /// asked last.
    pub remaining: Option<u32>,
    /// When the window ends.
    pub reset: Option<SystemTime>,
    /// Calls under way, of all instances that share the budget.
    pub in_flight: u32,
    /// Set where the host did not accept the token.
    pub set_aside_until: Option<SystemTime>,
}

/// Why no call may be made, and when to look again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Denied {
    Busy(Instant),
    Spent(Instant),
    SetAside(Instant),
}

/// What an asynchronous method answers with; boxed, so that the trait is object safe.
type Asked<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Keeps the books.
trait Ledger: Send + Sync {
    /// Takes the right to one call, from the budget with most left. Asking and taking is one
    /// step, and never waits for a budget.
    ///
    /// Cancel safe: a future that is dropped leaves nothing taken for good.
    fn take(&self, resource: Resource) -> Asked<'_, Result<Taken, Denied>>;

    /// Notes how a call ended. Waits for nothing, so that it can run while a seat is dropped.
    fn settle(&self, taken: Taken, told: Told);

    /// Tells the other instances what was noted.
    fn tell(&self) -> Asked<'_, ()>;

    /// Sets a token aside that the host did not accept.
    fn refuse(&self, account: usize);

    /// Notes that the host accepted a token.
    fn accept(&self, account: usize);

    fn list(&self) -> Vec<Budget>;
}

/// The books of one API's tokens; of nobody's calls if there are none.
#[derive(Clone)]
pub(crate) struct Books {
    ledger: Arc<dyn Ledger>,
}

impl Books {
    /// Opens the books beside those of the throttle.
    pub(crate) fn open(
        options: &Options,
        base: &Url,
        tokens: &[&Token],
        throttle: &Throttle,
    ) -> Self {
        let accounts = Accounts::new(Rules::of(options), tokens.len());
        let ledger: Arc<dyn Ledger> = match throttle.shared() {
            None => Arc::new(Memory::new(accounts)),
            Some(shared) => Arc::new(Joint::new(shared, base, tokens, accounts)),
        };
        Self { ledger }
    }

    /// Takes the right to one call, from the budget with most left.
    pub(crate) async fn take(&self, resource: Resource) -> Result<Seat, Denied> {
        let taken = self.ledger.take(resource).await?;
        Ok(Seat::new(Arc::clone(&self.ledger), taken))
    }

    pub(crate) fn list(&self) -> Vec<Budget> {
        self.ledger.list()
    }
}

#[cfg(test)]
mod tests;
