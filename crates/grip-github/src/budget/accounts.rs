//! The rules of the books, wherever they are kept.
//!
//! A token that the host does not accept is set aside for a while ([`Options::set_aside`]); then
//! one call at a time tries it again, until one is accepted.
//!
//! [`Options::set_aside`]: crate::Options::set_aside

use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};

use tokio::time::Instant;

use super::{
    Budget, Denied, Told,
    window::{Known, Room, State, Ticket, Window},
};
use crate::{options::Options, quota::Resource};

/// When to look again if only calls under way are in the way.
pub(super) const SOON: Duration = Duration::from_secs(1);

/// How carefully budgets are spent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) reserve: u32,
    pub(super) margin: Duration,
    pub(super) set_aside: Duration,
    /// The part of each budget that may be spent, in percent; all of it where none is set.
    pub(super) share: Option<u32>,
}

impl Rules {
    pub(super) fn of(options: &Options) -> Self {
        Self {
            reserve: options.reserve,
            margin: options.margin,
            set_aside: options.set_aside,
            share: None,
        }
    }
}

/// The budgets of all tokens; of nobody's calls if there are none.
pub(super) struct Accounts {
    pub(super) rules: Rules,
    has_tokens: bool,
    each: Vec<Account>,
}

#[derive(Default)]
struct Account {
    /// At most as many as there are kinds.
    windows: BTreeMap<Resource, Window>,
    aside_until: Option<Instant>,
}

/// Whether a token may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    Aside(Instant),
    /// By one call at a time, and only after the others.
    OnTrial,
    Accepted,
}

impl Accounts {
    pub(super) fn new(rules: Rules, tokens: usize) -> Self {
        let each = std::iter::repeat_with(Account::default);
        Self {
            rules,
            has_tokens: tokens > 0,
            each: each.take(tokens.max(1)).collect(),
        }
    }

    /// The same tokens, of whose budgets nothing is known, by other rules.
    pub(super) fn blank(&self, rules: Rules) -> Self {
        let each = self.each.iter().map(|account| Account {
            windows: BTreeMap::new(),
            aside_until: account.aside_until,
        });
        Self {
            rules,
            has_tokens: self.has_tokens,
            each: each.collect(),
        }
    }

    pub(super) fn count(&self) -> usize {
        self.each.len()
    }

    pub(super) fn window(&mut self, number: usize, resource: Resource) -> &mut Window {
        self.each[number].windows.entry(resource).or_default()
    }

    pub(super) fn windows(&self) -> impl Iterator<Item = (usize, Resource, &Window)> {
        let each = self.each.iter().enumerate();
        each.flat_map(|(number, account)| {
            let windows = account.windows.iter();
            windows.map(move |(resource, window)| (number, *resource, window))
        })
    }

    pub(super) fn standing(&self, number: usize, now: Instant) -> Standing {
        match self.each[number].aside_until {
            Some(until) if now < until => Standing::Aside(until),
            Some(_) => Standing::OnTrial,
            None => Standing::Accepted,
        }
    }

    /// Takes the right to one call, from the budget with most left.
    pub(super) fn take(
        &mut self,
        resource: Resource,
        now: Instant,
    ) -> Result<(usize, Ticket), Denied> {
        match self.look(resource, now) {
            Ok(number) => {
                self.goes_on(number, resource);
                Ok((number, self.window(number, resource).take()))
            }
            Err(denied) => {
                self.denies(resource, denied, now);
                Err(denied)
            }
        }
    }

    /// Finds the budget with most left, or why none has any.
    pub(super) fn look(&mut self, resource: Resource, now: Instant) -> Result<usize, Denied> {
        let mut best = None;
        let mut denied = None;
        for number in 0..self.each.len() {
            match self.room(number, resource, now) {
                Ok(calls) if best.is_none_or(|(most, _)| calls > most) => {
                    best = Some((calls, number));
                }
                Ok(_) => {}
                Err(why) => denied = Some(better(denied, why)),
            }
        }
        match best {
            Some((_, number)) => Ok(number),
            None => Err(denied.unwrap_or(Denied::Busy(now + SOON))),
        }
    }

    fn room(&mut self, number: usize, resource: Resource, now: Instant) -> Result<u64, Denied> {
        let on_trial = match self.standing(number, now) {
            Standing::Aside(until) => return Err(Denied::SetAside(until)),
            standing => standing == Standing::OnTrial,
        };
        let rules = self.rules;
        let account = &mut self.each[number];
        let under_way: u32 = account
            .windows
            .values()
            .map(|window| window.in_flight)
            .sum();
        let window = account.windows.entry(resource).or_default();
        window.roll(&rules, now);
        let room = window.room(&rules, now);
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

    /// Tells the log that calls of a budget are made again, if that is news.
    pub(super) fn goes_on(&mut self, number: usize, resource: Resource) {
        let window = self.window(number, resource);
        if std::mem::take(&mut window.is_spent) {
            let resource = resource.name();
            tracing::info!(resource, "GitHub calls go on with a new budget");
        }
    }

    /// Tells the log that all budgets are spent, if that is news.
    pub(super) fn denies(&mut self, resource: Resource, denied: Denied, now: Instant) {
        let Denied::Spent(until) = denied else {
            return;
        };
        let windows = self.each.iter_mut();
        let windows = windows.filter_map(|account| account.windows.get_mut(&resource));
        let first = windows.map(|window| !std::mem::replace(&mut window.is_spent, true));
        if first.fold(false, |any, first| any | first) {
            let wait_s = until.saturating_duration_since(now).as_secs();
            let resource = resource.name();
            tracing::warn!(resource, wait_s, "the budget of GitHub calls is spent");
        }
    }

    pub(super) fn settle(
        &mut self,
        number: usize,
        resource: Resource,
        ticket: Ticket,
        told: Told,
        now: Instant,
    ) {
        let low = match told.elsewhere(resource) {
            Some((other, quota)) => {
                let window = self.window(number, resource);
                window.settle(ticket, Told::Unused, now);
                self.window(number, other).learn(quota, now)
            }
            None => self.window(number, resource).settle(ticket, told, now),
        };
        if let Some(known) = low {
            warn_low(number, known);
        }
    }

    pub(super) fn refuse(&mut self, number: usize, now: Instant) {
        let until = now + self.rules.set_aside;
        let before = self.each[number].aside_until.replace(until);
        if before.is_some() {
            tracing::debug!(token = number, "the host still does not accept a token");
        } else if self.has_tokens {
            let wait_s = self.rules.set_aside.as_secs();
            tracing::warn!(
                token = number,
                wait_s,
                "the host does not accept a token; it is set aside"
            );
        } else {
            tracing::warn!("the host wants a token for its API, and none is configured");
        }
    }

    pub(super) fn accept(&mut self, number: usize) {
        if self.each[number].aside_until.take().is_some() {
            tracing::info!(token = number, "the host accepts a token again");
        }
    }

    /// Like [`Accounts::refuse`], where the log has been told.
    pub(super) fn put_aside(&mut self, number: usize, now: Instant) {
        self.each[number].aside_until = Some(now + self.rules.set_aside);
    }

    /// Like [`Accounts::accept`], where the log has been told.
    pub(super) fn take_in(&mut self, number: usize) {
        self.each[number].aside_until = None;
    }

    pub(super) fn list(&self, now: Instant, clock: SystemTime) -> Vec<Budget> {
        let moment = |at: Instant| clock + at.saturating_duration_since(now);
        let windows = self.windows();
        let each = windows.map(|(number, resource, window)| {
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
                set_aside_until: self.each[number].aside_until.map(moment),
            }
        });
        each.collect()
    }
}

pub(super) fn warn_low(number: usize, known: Known) {
    let (remaining, limit) = (known.remaining, known.limit);
    tracing::warn!(
        token = number,
        remaining,
        limit,
        "little is left of a budget of GitHub calls"
    );
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
