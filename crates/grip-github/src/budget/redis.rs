//! Books that instances share through the throttle's Redis.
//!
//! Invariants:
//! - Asking and taking one call is one script by Redis's clock, so that all instances together
//!   never have more calls under way than are left.
//! - A call under way is a lease. What a killed instance had under way counts, when the lease
//!   ends, as calls that nobody answered: the host may have counted them.
//! - What is kept of a budget leaves Redis ten seconds after its window, and no sooner than after
//!   a minute. Keys name a token by a hash.
//! - With Redis away, each instance waits for the next answer of the host and then spends no more
//!   than its part of what that answer left; nothing is spent of a budget that was seen spent.
//! - A Redis that comes back is told what is under way, what is known, and how calls ended
//!   meanwhile.
//! - A token that the host does not accept is set aside by each instance for itself. Calls without
//!   a token count as one budget, though a host may count them by address.

mod alone;
mod said;
mod script;
mod untold;

use std::{
    collections::{BTreeMap, HashMap},
    time::SystemTime,
};

use grip_limits::{Connected, SharedRedis};
use parking_lot::Mutex;
use tokio::time::Instant;
use url::Url;

use self::{
    alone::Alone,
    said::Said,
    script::{Reply, Scripts},
    untold::Untold,
};
use super::{
    Asked, Budget, Denied, Ledger, Taken, Told,
    accounts::{Accounts, SOON, Standing, warn_low},
    window::Ticket,
};
use crate::{options::Token, quota::Resource};

pub(super) struct Joint {
    redis: SharedRedis,
    scripts: Scripts,
    state: Mutex<State>,
}

struct State {
    /// The budgets as they were seen last in Redis.
    seen: Accounts,
    /// The books while Redis is away.
    alone: Option<Alone>,
    /// Calls under way, by name. Bounded by the calls that this process makes at once.
    held: HashMap<u64, Held>,
    untold: Untold,
    /// The connections over which all that we know was told.
    told_over: BTreeMap<Resource, u64>,
    latest_name: u64,
}

/// A call under way.
struct Held {
    account: usize,
    resource: Resource,
    /// As Redis gave it, 0 where it did not.
    ticket: u64,
    /// As the books gave it that stand in for Redis.
    alone: Option<Ticket>,
}

impl Joint {
    pub(super) fn new(
        redis: SharedRedis,
        base: &Url,
        tokens: &[&Token],
        accounts: Accounts,
    ) -> Self {
        let scripts = Scripts::new(&redis, base, tokens, accounts.rules);
        Self {
            redis,
            scripts,
            state: Mutex::new(State {
                seen: accounts,
                alone: None,
                held: HashMap::new(),
                untold: Untold::default(),
                told_over: BTreeMap::new(),
                latest_name: 0,
            }),
        }
    }

    async fn take(&self, resource: Resource) -> Result<Taken, Denied> {
        let (name, may) = {
            let mut state = self.state.lock();
            let now = Instant::now();
            let may = state.may(now);
            if let Some(until) = all_aside(&may) {
                return Err(Denied::SetAside(until));
            }
            (state.next_name(), may)
        };
        if let Some(connected) = self.redis.connected()
            && let Some(reply) = self.exchange(connected, resource, &may, Some(name)).await
        {
            return self.state.lock().heard(resource, name, &reply);
        }
        let absence = self.redis.absence().unwrap_or_default();
        let percent = self.redis.fallback_percent();
        let mut state = self.state.lock();
        state.take_alone(resource, name, absence, percent)
    }

    /// Tells Redis what it does not know of one kind of call, and takes a call if `take` names one.
    async fn exchange(
        &self,
        connected: Connected,
        resource: Resource,
        may: &[Standing],
        take: Option<u64>,
    ) -> Option<Reply> {
        let generation = connected.generation();
        let now = Instant::now();
        let mut said = Said::begin(self, resource, take, generation, now);
        let keys = self.scripts.keys(resource);
        let arguments = self.scripts.arguments(may, take, &said.items, now);
        let answer = connected.run(&self.scripts.script, &keys, &arguments).await;
        let reply = Reply::read(&answer.ok()?, may.len(), Instant::now())?;
        said.heard();
        let mut state = self.state.lock();
        state.told_over.insert(resource, generation);
        state.see(resource, &reply);
        Some(reply)
    }

    /// Tells Redis all that it does not know. Ends early where Redis is away.
    async fn tell_all(&self) {
        loop {
            let (resource, may) = {
                let state = self.state.lock();
                let Some(resource) = state.untold.next() else {
                    return;
                };
                (resource, vec![Standing::Accepted; state.seen.count()])
            };
            let Some(connected) = self.redis.connected() else {
                return;
            };
            if self
                .exchange(connected, resource, &may, None)
                .await
                .is_none()
            {
                return;
            }
        }
    }
}

impl Ledger for Joint {
    fn take(&self, resource: Resource) -> Asked<'_, Result<Taken, Denied>> {
        Box::pin(self.take(resource))
    }

    fn settle(&self, taken: Taken, told: Told) {
        let mut state = self.state.lock();
        let now = Instant::now();
        let Some(held) = state.held.remove(&taken.name) else {
            return;
        };
        state.untold.ended(&taken, told, held.ticket, now);
        // Until Redis says how it really stands.
        let (account, resource) = (taken.account, taken.resource);
        let oldest = Ticket::OLDEST;
        state.seen.settle(account, resource, oldest, told, now);
        if let Some(alone) = &mut state.alone {
            let ticket = held.alone.unwrap_or(oldest);
            alone.accounts.settle(account, resource, ticket, told, now);
        }
    }

    fn tell(&self) -> Asked<'_, ()> {
        Box::pin(self.tell_all())
    }

    fn refuse(&self, account: usize) {
        let mut state = self.state.lock();
        let now = Instant::now();
        state.seen.refuse(account, now);
        if let Some(alone) = &mut state.alone {
            alone.accounts.put_aside(account, now);
        }
    }

    fn accept(&self, account: usize) {
        let mut state = self.state.lock();
        state.seen.accept(account);
        if let Some(alone) = &mut state.alone {
            alone.accounts.take_in(account);
        }
    }

    fn list(&self) -> Vec<Budget> {
        let state = self.state.lock();
        let accounts = state.alone.as_ref().map(|alone| &alone.accounts);
        let accounts = accounts.unwrap_or(&state.seen);
        accounts.list(Instant::now(), SystemTime::now())
    }
}

impl State {
    fn next_name(&mut self) -> u64 {
        self.latest_name += 1;
        self.latest_name
    }

    /// Which tokens may be used. One on trial is tried by one call of ours at a time.
    fn may(&self, now: Instant) -> Vec<Standing> {
        let standing = |number| match self.seen.standing(number, now) {
            Standing::OnTrial if self.held.values().any(|held| held.account == number) => {
                Standing::Aside(now + SOON)
            }
            standing => standing,
        };
        (0..self.seen.count()).map(standing).collect()
    }

    /// Notes the budgets as they are in Redis.
    fn see(&mut self, resource: Resource, reply: &Reply) {
        self.alone = None;
        for (number, seen) in reply.seen.iter().enumerate() {
            let window = self.seen.window(number, resource);
            if let Some(known) = window.see(seen.state, seen.in_flight, seen.lost) {
                warn_low(number, known);
            }
        }
    }

    /// Notes what became of asking for a call.
    fn heard(&mut self, resource: Resource, name: u64, reply: &Reply) -> Result<Taken, Denied> {
        let now = Instant::now();
        let Some((account, ticket)) = reply.taken else {
            let denied = self.seen.look(resource, now).err();
            let denied = denied.unwrap_or(Denied::Busy(now + SOON));
            self.seen.denies(resource, denied, now);
            return Err(denied);
        };
        self.seen.goes_on(account, resource);
        let held = Held {
            account,
            resource,
            ticket,
            alone: None,
        };
        self.held.insert(name, held);
        Ok(Taken {
            account,
            resource,
            ticket: Ticket(ticket),
            name,
        })
    }
}

/// When the first token is tried again, if all are set aside.
fn all_aside(may: &[Standing]) -> Option<Instant> {
    let until = may.iter().map(|standing| match standing {
        Standing::Aside(until) => Some(*until),
        Standing::OnTrial | Standing::Accepted => None,
    });
    until.collect::<Option<Vec<_>>>()?.into_iter().min()
}
