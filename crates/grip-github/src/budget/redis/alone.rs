//! The books while Redis is away: this process alone, with a part of every budget.
//!
//! They are opened anew for every absence, and begin with what needs no asking: a budget that was
//! seen spent, and our own calls under way.

use tokio::time::Instant;

use super::{Held, State};
use crate::{
    budget::{
        Denied, Taken,
        accounts::{Accounts, Rules},
        window::Ticket,
    },
    quota::Resource,
};

pub(super) struct Alone {
    /// The absence these books are for.
    absence: u64,
    pub(super) accounts: Accounts,
}

impl State {
    /// Takes a call without Redis.
    pub(super) fn take_alone(
        &mut self,
        resource: Resource,
        name: u64,
        absence: u64,
        percent: u32,
    ) -> Result<Taken, Denied> {
        let now = Instant::now();
        if self.alone.as_ref().map(|alone| alone.absence) != Some(absence) {
            let accounts = self.begin_alone(percent, now);
            self.alone = Some(Alone { absence, accounts });
        }
        let alone = self.alone.as_mut();
        let alone = alone.expect("because it was opened under the same lock");
        let (account, ticket) = alone.accounts.take(resource, now)?;
        let held = Held {
            account,
            resource,
            ticket: 0,
            alone: Some(ticket),
        };
        self.held.insert(name, held);
        Ok(Taken {
            account,
            resource,
            ticket: Ticket::OLDEST,
            name,
        })
    }

    fn begin_alone(&mut self, percent: u32, now: Instant) -> Accounts {
        let rules = Rules {
            share: Some(percent),
            ..self.seen.rules
        };
        let mut accounts = self.seen.blank(rules);
        for (number, resource, window) in self.seen.windows() {
            let begun = window.alone(&self.seen.rules, now);
            *accounts.window(number, resource) = begun;
        }
        for held in self.held.values_mut() {
            held.alone = None;
            accounts.window(held.account, held.resource).in_flight += 1;
        }
        accounts
    }
}
