//! The books of all budgets: one per token and kind of call.
//!
//! A token that the host does not accept is set aside for a while ([`Options::set_aside`]); then
//! one call at a time tries it again, until one is accepted.
//!
//! [`Options::set_aside`]: crate::Options::set_aside

mod seat;
mod window;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use parking_lot::Mutex;
use tokio::time::Instant;

use self::window::{Room, State, Ticket, Window};
pub(crate) use self::{seat::Seat, window::Told};
use crate::{options::Options, quota::Resource};

/// When to look again if only calls under way are in the way.
const SOON: Duration = Duration::from_secs(1);

/// What is left of one budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Budget {
    /// The token's place in the options, without those named twice; none for calls without one.
    pub token: Option<usize>,
    /// `core`, `search`, `code_search` or `other`.
    pub resource: &'static str,
    /// None where the host keeps no budget, or has not told yet.
    pub limit: Option<u32>,
    /// Without calls whose answer was lost.
    pub remaining: Option<u32>,
    /// When the window ends.
    pub reset: Option<SystemTime>,
    /// Calls under way.
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

pub(crate) struct Books {
    reserve: u32,
    margin: Duration,
    set_aside: Duration,
    has_tokens: bool,
    accounts: Mutex<Vec<Account>>,
}

#[derive(Default)]
struct Account {
    /// At most as many as there are kinds.
    windows: BTreeMap<Resource, Window>,
    aside_until: Option<Instant>,
}

impl Books {
    /// Books of `tokens` tokens; of nobody's calls if there are none.
    pub(crate) fn new(options: &Options, tokens: usize) -> Self {
        let accounts = std::iter::repeat_with(Account::default);
        Self {
            reserve: options.reserve,
            margin: options.margin,
            set_aside: options.set_aside,
            has_tokens: tokens > 0,
            accounts: Mutex::new(accounts.take(tokens.max(1)).collect()),
        }
    }

    /// Takes the right to one call, from the budget with most left.
    pub(crate) fn take(self: &Arc<Self>, resource: Resource) -> Result<Seat, Denied> {
        let (account, ticket) = self.choose(resource, Instant::now())?;
        Ok(Seat::new(Arc::clone(self), account, resource, ticket))
    }

    fn choose(&self, resource: Resource, now: Instant) -> Result<(usize, Ticket), Denied> {
        let mut accounts = self.accounts.lock();
        let mut best = None;
        let mut denied = None;
        for (number, account) in accounts.iter_mut().enumerate() {
            match account.room(resource, self.reserve, self.margin, now) {
                Ok(calls) if best.is_none_or(|(most, _)| calls > most) => {
                    best = Some((calls, number));
                }
                Ok(_) => {}
                Err(why) => denied = Some(better(denied, why)),
            }
        }
        let Some((_, number)) = best else {
            let denied = denied.unwrap_or(Denied::Busy(now + SOON));
            if let Denied::Spent(until) = denied {
                let first = accounts
                    .iter_mut()
                    .map(|account| account.note_spent(resource));
                if first.fold(false, |any, first| any | first) {
                    let wait_s = (until - now).as_secs();
                    tracing::warn!(
                        resource = resource.name(),
                        wait_s,
                        "the budget of GitHub calls is spent"
                    );
                }
            }
            return Err(denied);
        };
        let window = accounts[number].windows.entry(resource).or_default();
        if std::mem::take(&mut window.is_spent) {
            tracing::info!(
                resource = resource.name(),
                "GitHub calls go on with a new budget"
            );
        }
        Ok((number, window.take()))
    }

    fn settle(&self, number: usize, resource: Resource, ticket: Ticket, told: Told) {
        let now = Instant::now();
        let mut accounts = self.accounts.lock();
        let account = &mut accounts[number];
        let low = match told {
            // Paid from another budget than was thought.
            Told::Quota(quota) if quota.resource.is_some_and(|other| other != resource) => {
                let window = account.windows.entry(resource).or_default();
                window.settle(ticket, Told::Unused, now);
                let other = quota.resource.unwrap_or(resource);
                account.windows.entry(other).or_default().learn(quota, now)
            }
            told => account
                .windows
                .entry(resource)
                .or_default()
                .settle(ticket, told, now),
        };
        if let Some(known) = low {
            let (remaining, limit) = (known.remaining, known.limit);
            tracing::warn!(
                token = number,
                remaining,
                limit,
                "little is left of a budget of GitHub calls"
            );
        }
    }

    /// Sets a token aside that the host did not accept.
    fn refuse(&self, number: usize) {
        let until = Instant::now() + self.set_aside;
        let before = self.accounts.lock()[number].aside_until.replace(until);
        if before.is_some() {
            tracing::debug!(token = number, "the host still does not accept a token");
        } else if self.has_tokens {
            let wait_s = self.set_aside.as_secs();
            tracing::warn!(
                token = number,
                wait_s,
                "the host does not accept a token; it is set aside"
            );
        } else {
            tracing::warn!("the host wants a token for its API, and none is configured");
        }
    }

    /// Notes that the host accepted a token.
    fn accept(&self, number: usize) {
        if self.accounts.lock()[number].aside_until.take().is_some() {
            tracing::info!(token = number, "the host accepts a token again");
        }
    }

    pub(crate) fn list(&self) -> Vec<Budget> {
        let (now, clock) = (Instant::now(), SystemTime::now());
        let moment = |at: Instant| clock + at.saturating_duration_since(now);
        let accounts = self.accounts.lock();
        let each = accounts.iter().enumerate().flat_map(|(number, account)| {
            let windows = account.windows.iter();
            windows.map(move |(resource, window)| (number, account, resource, window))
        });
        each.map(|(number, account, resource, window)| {
            let known = match window.state {
                State::Known(known) => Some(known),
                State::Unknown | State::Unmetered => None,
            };
            Budget {
                token: self.has_tokens.then_some(number),
                resource: resource.name(),
                limit: known.map(|known| known.limit),
                remaining: known.map(|known| window.certain(known)),
                reset: known.and_then(|known| known.ends).map(moment),
                in_flight: window.in_flight,
                set_aside_until: account.aside_until.map(moment),
            }
        })
        .collect()
    }
}

/// The better of two reasons: who waits for a call under way waits least.
fn better(one: Option<Denied>, other: Denied) -> Denied {
    let rank = |denied: &Denied| match *denied {
        Denied::Busy(at) => (0, at),
        Denied::Spent(at) => (1, at),
        Denied::SetAside(at) => (2, at),
    };
    one.into_iter()
        .chain([other])
        .min_by_key(rank)
        .unwrap_or(other)
}

impl Account {
    fn room(
        &mut self,
        resource: Resource,
        reserve: u32,
        margin: Duration,
        now: Instant,
    ) -> Result<u64, Denied> {
        let on_trial = match self.aside_until {
            Some(until) if now < until => return Err(Denied::SetAside(until)),
            aside => aside.is_some(),
        };
        let under_way: u32 = self.windows.values().map(|window| window.in_flight).sum();
        let window = self.windows.entry(resource).or_default();
        window.roll(margin, now);
        let room = window.room(reserve, margin, now);
        window.log(resource, now);
        match room {
            Room::Calls(_) if on_trial && under_way > 0 => Err(Denied::Busy(now + SOON)),
            // The last choice, but one.
            Room::Calls(_) if on_trial => Ok(1),
            Room::Calls(calls) => Ok(calls),
            Room::Busy => Err(Denied::Busy(now + SOON)),
            Room::SpentUntil(until) => Err(Denied::Spent(until)),
        }
    }

    /// Remembers that a budget is spent; says whether that is new.
    fn note_spent(&mut self, resource: Resource) -> bool {
        match self.windows.get_mut(&resource) {
            Some(window) => !std::mem::replace(&mut window.is_spent, true),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests;
