//! The right to one call.

use std::sync::Arc;

use super::{Ledger, Told, window::Ticket};
use crate::quota::Resource;

/// One call that was taken from a budget. Not `Clone`: it is settled once.
#[derive(Debug)]
pub(super) struct Taken {
    /// The place of the token that pays.
    pub(super) account: usize,
    pub(super) resource: Resource,
    pub(super) ticket: Ticket,
    /// The ledger's own name for the call; 0 where it needs none.
    pub(super) name: u64,
}

/// The right to one call from one budget.
///
/// Dropped before the call is made, it costs nothing; afterwards, a call that nobody answered.
pub(crate) struct Seat {
    ledger: Arc<dyn Ledger>,
    /// None once it is settled.
    taken: Option<Taken>,
    account: usize,
    is_sent: bool,
}

impl Seat {
    pub(super) fn new(ledger: Arc<dyn Ledger>, taken: Taken) -> Self {
        Self {
            ledger,
            account: taken.account,
            taken: Some(taken),
            is_sent: false,
        }
    }

    /// The place of the token that pays.
    pub(crate) fn account(&self) -> usize {
        self.account
    }

    /// From here on the host may count the call.
    pub(crate) fn sending(&mut self) {
        self.is_sent = true;
    }

    /// Ends with what the call taught. It is noted at once; telling others may be given up.
    pub(crate) async fn settle(mut self, told: Told) {
        self.note(told);
        self.ledger.tell().await;
    }

    /// Ends with the host's word that it does not know the token.
    pub(crate) async fn refused(self) {
        self.ledger.refuse(self.account);
        self.settle(Told::Unused).await;
    }

    /// Notes that the host knows the token.
    pub(crate) fn accepted(&self) {
        self.ledger.accept(self.account);
    }

    fn note(&mut self, told: Told) {
        if let Some(taken) = self.taken.take() {
            self.ledger.settle(taken, told);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.note(match self.is_sent {
            true => Told::Nothing,
            false => Told::Unused,
        });
    }
}
