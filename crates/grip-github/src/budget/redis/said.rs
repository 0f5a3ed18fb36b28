//! One exchange with Redis: what is told, and what follows if nobody hears the answer.

use tokio::time::Instant;

use super::{
    Joint, State,
    untold::{Item, What},
};
use crate::{
    budget::window::State as Known,
    quota::{Quota, Resource},
};

/// What is being said to Redis, and may never be heard.
///
/// Dropped without [`Said::heard`], it puts everything back, and gives back whatever Redis may
/// have given out.
pub(super) struct Said<'a> {
    joint: &'a Joint,
    resource: Resource,
    take: Option<u64>,
    /// What was known anyway comes first and is not put back.
    known: usize,
    pub(super) items: Vec<Item>,
}

impl<'a> Said<'a> {
    pub(super) fn begin(
        joint: &'a Joint,
        resource: Resource,
        take: Option<u64>,
        generation: u64,
        now: Instant,
    ) -> Self {
        let mut state = joint.state.lock();
        let is_new = state.told_over.get(&resource) != Some(&generation);
        let mut items = match is_new {
            true => state.all_of(resource, now),
            false => Vec::new(),
        };
        let known = items.len();
        items.extend(state.untold.of(resource));
        Self {
            joint,
            resource,
            take,
            known,
            items,
        }
    }

    pub(super) fn heard(&mut self) {
        self.items.clear();
        self.known = 0;
        self.take = None;
    }
}

impl Drop for Said<'_> {
    fn drop(&mut self) {
        if self.items.is_empty() && self.take.is_none() {
            return;
        }
        let mut state = self.joint.state.lock();
        state.untold.put_back(self.items.split_off(self.known));
        if let Some(name) = self.take {
            state.untold.add(Item {
                resource: self.resource,
                account: None,
                name,
                ticket: 0,
                what: What::Unused,
                at: Instant::now(),
            });
        }
    }
}

impl State {
    /// What a Redis that may have lost everything must know: calls under way and budgets.
    fn all_of(&self, resource: Resource, now: Instant) -> Vec<Item> {
        let item = |account, name, ticket, what| Item {
            resource,
            account: Some(account),
            name,
            ticket,
            what,
            at: now,
        };
        let held = self
            .held
            .iter()
            .filter(|(_, held)| held.resource == resource);
        let flights = held.map(|(name, held)| item(held.account, *name, 0, What::Flight));
        let windows = self.seen.windows().filter(|(_, of, _)| *of == resource);
        let known = windows.filter_map(|(account, _, window)| match window.state {
            Known::Known(known) => {
                let left = known.ends?.checked_duration_since(now)?;
                let quota = Quota {
                    limit: known.limit,
                    remaining: known.remaining,
                    reset: known.reset,
                    reset_in: left,
                    resource: None,
                };
                Some(item(account, 0, 0, What::Learn(quota)))
            }
            Known::Unknown | Known::Unmetered => None,
        });
        flights.chain(known).collect()
    }
}
