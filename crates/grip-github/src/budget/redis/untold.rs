//! What Redis has not been told yet.

use std::collections::VecDeque;

use tokio::time::Instant;

use crate::{
    budget::{Taken, Told},
    quota::{Quota, Resource},
};

/// How many are kept for a Redis that is slow or away. Beyond, the oldest is forgotten: its call
/// counts as one that nobody answered, and what it taught is older than what the others did.
const BOUND: usize = 1_024;

/// How many are told in one step.
pub(super) const AT_ONCE: usize = 128;

/// One thing to tell. Telling it twice does no harm.
#[derive(Clone, Debug)]
pub(super) struct Item {
    pub(super) resource: Resource,
    /// None where it is not known which token would have paid.
    pub(super) account: Option<usize>,
    /// The call that it is about.
    pub(super) name: u64,
    pub(super) ticket: u64,
    pub(super) what: What,
    /// When it happened.
    pub(super) at: Instant,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    /// The call is under way.
    Flight,
    /// The call was not made.
    Unused,
    /// The call was made, and nobody answered, or not with a budget.
    Lost,
    /// The call was answered without a word of a budget.
    Unmetered,
    /// The call was answered.
    Quota(Quota),
    /// A budget as we know it, whatever call it is from.
    Learn(Quota),
}

impl What {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Flight => "flight",
            Self::Unused => "unused",
            Self::Lost => "lost",
            Self::Unmetered => "unmetered",
            Self::Quota(_) => "quota",
            Self::Learn(_) => "learn",
        }
    }
}

/// Bounded; the oldest first.
#[derive(Default)]
pub(super) struct Untold {
    items: VecDeque<Item>,
}

impl Untold {
    /// Adds how a call ended. `ticket`: as Redis gave it, 0 where it did not.
    pub(super) fn ended(&mut self, taken: &Taken, told: Told, ticket: u64, at: Instant) {
        let item = |resource, what| Item {
            resource,
            account: Some(taken.account),
            name: taken.name,
            ticket,
            what,
            at,
        };
        if let Some((other, quota)) = told.elsewhere(taken.resource) {
            self.add(item(taken.resource, What::Unused));
            return self.add(item(other, What::Learn(quota)));
        }
        let what = match told {
            Told::Unused => What::Unused,
            Told::Nothing => What::Lost,
            Told::Unmetered => What::Unmetered,
            Told::Quota(quota) => What::Quota(quota),
        };
        self.add(item(taken.resource, what));
    }

    pub(super) fn add(&mut self, item: Item) {
        if self.items.len() >= BOUND {
            self.items.pop_front();
        }
        self.items.push_back(item);
    }

    /// Takes the oldest out that are about one kind of call.
    pub(super) fn of(&mut self, resource: Resource) -> Vec<Item> {
        let mut found = Vec::new();
        self.items.retain(|item| {
            let is_of = item.resource == resource && found.len() < AT_ONCE;
            if is_of {
                found.push(item.clone());
            }
            !is_of
        });
        found
    }

    /// Puts back what could not be told.
    pub(super) fn put_back(&mut self, items: Vec<Item>) {
        let room = BOUND.saturating_sub(self.items.len());
        let skip = items.len().saturating_sub(room);
        for item in items.into_iter().skip(skip).rev() {
            self.items.push_front(item);
        }
    }

    /// A kind of call that something is to be told of.
    pub(super) fn next(&self) -> Option<Resource> {
        self.items.front().map(|item| item.resource)
    }
}
