//! Books of this process alone.

use std::time::SystemTime;

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Asked, Budget, Denied, Ledger, Taken, Told, accounts::Accounts};
use crate::quota::Resource;

pub(super) struct Memory {
    accounts: Mutex<Accounts>,
}

impl Memory {
    pub(super) fn new(accounts: Accounts) -> Self {
        Self {
            accounts: Mutex::new(accounts),
        }
    }
}

impl Ledger for Memory {
    fn take(&self, resource: Resource) -> Asked<'_, Result<Taken, Denied>> {
        let taken = self.accounts.lock().take(resource, Instant::now());
        let taken = taken.map(|(account, ticket)| Taken {
            account,
            resource,
            ticket,
            name: 0,
        });
        Box::pin(std::future::ready(taken))
    }

    fn settle(&self, taken: Taken, told: Told) {
        let mut accounts = self.accounts.lock();
        let (account, resource) = (taken.account, taken.resource);
        accounts.settle(account, resource, taken.ticket, told, Instant::now());
    }

    fn tell(&self) -> Asked<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn refuse(&self, account: usize) {
        self.accounts.lock().refuse(account, Instant::now());
    }

    fn accept(&self, account: usize) {
        self.accounts.lock().accept(account);
    }

    fn list(&self) -> Vec<Budget> {
        let accounts = self.accounts.lock();
        accounts.list(Instant::now(), SystemTime::now())
    }
}
