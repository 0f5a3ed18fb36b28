//! The right to one call.

use std::sync::Arc;

use super::{Books, Told, window::Ticket};
use crate::quota::Resource;

/// The right to one call from one budget.
///
/// Dropped before the call is made, it costs nothing; afterwards, a call that nobody answered.
pub(crate) struct Seat {
    books: Arc<Books>,
    account: usize,
    resource: Resource,
    ticket: Ticket,
    /// None once it is settled.
    told: Option<Told>,
}

impl Seat {
    pub(super) fn new(
        books: Arc<Books>,
        account: usize,
        resource: Resource,
        ticket: Ticket,
    ) -> Self {
        Self {
            books,
            account,
            resource,
            ticket,
            told: Some(Told::Unused),
        }
    }

    /// The place of the token that pays.
    pub(crate) fn account(&self) -> usize {
        self.account
    }

    /// From here on the host may count the call.
    pub(crate) fn sending(&mut self) {
        self.told = Some(Told::Nothing);
    }

    pub(crate) fn settle(mut self, told: Told) {
        self.told = Some(told);
    }

    /// Ends with the host's word that it does not know the token.
    pub(crate) fn refused(self) {
        self.books.refuse(self.account);
        self.settle(Told::Unused);
    }

    /// Notes that the host knows the token.
    pub(crate) fn accepted(&self) {
        self.books.accept(self.account);
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(told) = self.told.take() {
            let (account, resource) = (self.account, self.resource);
            self.books.settle(account, resource, self.ticket, told);
        }
    }
}
