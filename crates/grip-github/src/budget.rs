//! Budgets of calls: one per token and kind of call.
//!
//! Their ledger is in this process's memory, or in the Redis that the throttle shares with other
//! instances; then all of them spend one budget. A token that the host does not accept is set
//! aside for a while ([`Options::set_aside`]); then one call at a time tries it again, until one
//! is accepted.

mod script;
mod tokens;
mod window;

use std::{sync::Arc, time::SystemTime};

use grip_limits::{Ledger, Permit, Throttle, ledger};
use tokio::time::Instant;
use url::Url;

use self::tokens::{Rules, TokenBudgets};
pub(crate) use self::window::Outcome;
use crate::{
    options::{Options, Token},
    quota::Resource,
};

/// What is left of one budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The token's place in the options, without those named twice; none for calls without one.
    pub token: Option<usize>,
    /// `core`, `search`, `code_search`, `graphql` or `other`.
    pub resource: &'static str,
    /// None where the host keeps no budget, or has not told yet.
    pub limit: Option<u32>,
    /// Without calls whose response was lost. Where instances share the budget: when this one
    /// asked last.
    pub remaining: Option<u32>,
    /// When the window ends.
    pub reset: Option<SystemTime>,
    /// Calls in flight, of all instances that share the budget.
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

/// The right to one call from one budget.
///
/// Dropped before the call is sent, it costs nothing; afterwards, a call without a response.
pub(crate) type CallPermit = Permit<TokenBudgets>;

/// The budgets of one API's tokens; of calls without a token if there are none.
#[derive(Clone)]
pub(crate) struct Budgets {
    ledger: Arc<dyn Ledger<TokenBudgets>>,
}

impl Budgets {
    /// Opens the ledger beside that of the throttle.
    pub(crate) fn open(
        options: &Options,
        base: &Url,
        tokens: &[&Token],
        throttle: &Throttle,
    ) -> Self {
        let budgets = TokenBudgets::new(Rules::of(options), base, tokens);
        let ledger = ledger::open(budgets, throttle.shared());
        Self { ledger }
    }

    /// Takes the right to one call, from the budget with most left. Cancel safe.
    pub(crate) async fn take(&self, resource: Resource) -> Result<CallPermit, Denied> {
        // Calls that were given up count as lost only before calls that begin later.
        self.ledger.flush().await;
        CallPermit::take(&self.ledger, &resource).await
    }

    /// Ends a call with what it taught. That is noted at once; telling others may be given up.
    pub(crate) async fn settle(&self, permit: CallPermit, outcome: Outcome) {
        permit.settle(outcome);
        self.ledger.flush().await;
    }

    /// Ends a call whose token the host did not accept.
    pub(crate) async fn refuse(&self, permit: CallPermit) {
        let account = permit.grant().account;
        self.ledger.lock().refuse(account, Instant::now());
        self.settle(permit, Outcome::Unused).await;
    }

    /// Notes that the host accepted the token of a call.
    pub(crate) fn accept(&self, permit: &CallPermit) {
        self.ledger.lock().accept(permit.grant().account);
    }

    pub(crate) fn list(&self) -> Vec<Budget> {
        let budgets = self.ledger.lock();
        budgets.list(Instant::now(), SystemTime::now())
    }
}

#[cfg(test)]
mod tests;
