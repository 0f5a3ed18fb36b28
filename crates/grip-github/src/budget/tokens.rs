//! The budgets of all tokens, and the choice of the token that pays.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, SystemTime},
};

use grip_limits::Accounts;
use tokio::time::Instant;
use url::Url;

use super::{
    Budget, Denied, Outcome,
    script::ledger_keys,
    window::{Available, CallNumber, Known, State, Window},
};
use crate::{
    options::{Options, Token},
    quota::Resource,
};

/// When to look again if only calls in flight are in the way.
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

/// The budgets of all tokens; of calls without a token if there are none.
pub(crate) struct TokenBudgets {
    pub(super) rules: Rules,
    has_tokens: bool,
    each: Vec<TokenBudget>,
    /// Own calls in flight. Bounded by the calls that this process makes at once.
    pub(super) held: HashMap<u64, (usize, Resource)>,
    pub(super) latest_name: u64,
    /// The keys of each token in Redis, without the prefix.
    pub(super) keys: Vec<String>,
    /// The latest outage of Redis in which a fallback began.
    pub(super) latest_outage: Option<u64>,
}

#[derive(Default)]
struct TokenBudget {
    /// At most as many as there are kinds.
    windows: BTreeMap<Resource, Window>,
    aside_until: Option<Instant>,
}

/// Whether a token may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenStatus {
    SetAside(Instant),
    /// By one call at a time, and only after the others.
    OnTrial,
    Accepted,
}

/// One call that was taken from a budget.
#[derive(Debug)]
pub(crate) struct Call {
    /// The place of the token that pays.
    pub(crate) account: usize,
    pub(super) resource: Resource,
    /// The call among all of this process.
    pub(super) name: u64,
    pub(super) ticket: CallNumber,
    /// As Redis gave it, 0 where it did not.
    pub(super) shared_ticket: u64,
    /// From here on the host may count the call.
    pub(crate) is_sent: bool,
}

impl Accounts for TokenBudgets {
    type Key = Resource;
    type Grant = Call;
    type Outcome = Outcome;
    type Refusal = Denied;

    /// Takes from the budget with most left.
    fn take(&mut self, resource: &Resource, now: Instant) -> Result<Call, Denied> {
        match self.choose(*resource, now) {
            Ok(account) => {
                let ticket = self.window(account, *resource).take();
                let name = self.next_name();
                Ok(self.begin(account, *resource, name, ticket, 0))
            }
            Err(denied) => {
                self.log_denied(*resource, denied, now);
                Err(denied)
            }
        }
    }

    fn settle(&mut self, call: &Call, outcome: Outcome, now: Instant) {
        self.held.remove(&call.name);
        let (account, resource) = (call.account, call.resource);
        let low = match outcome.paid_elsewhere(resource) {
            Some((other, quota)) => {
                let window = self.window(account, resource);
                window.settle(call.ticket, Outcome::Unused, now);
                self.window(account, other).learn(quota, now)
            }
            None => self
                .window(account, resource)
                .settle(call.ticket, outcome, now),
        };
        if let Some(known) = low {
            warn_low(account, known);
        }
    }

    fn dropped(call: &Call, _: Instant) -> Outcome {
        if call.is_sent {
            Outcome::Lost
        } else {
            Outcome::Unused
        }
    }
}

impl TokenBudgets {
    pub(super) fn new(rules: Rules, base: &Url, tokens: &[&Token]) -> Self {
        let each = std::iter::repeat_with(TokenBudget::default);
        Self {
            rules,
            has_tokens: !tokens.is_empty(),
            each: each.take(tokens.len().max(1)).collect(),
            held: HashMap::new(),
            latest_name: 0,
            keys: ledger_keys(base, tokens),
            latest_outage: None,
        }
    }

    pub(super) fn count(&self) -> usize {
        self.each.len()
    }

    pub(super) fn next_name(&mut self) -> u64 {
        self.latest_name += 1;
        self.latest_name
    }

    /// Notes a call that begins.
    pub(super) fn begin(
        &mut self,
        account: usize,
        resource: Resource,
        name: u64,
        ticket: CallNumber,
        shared_ticket: u64,
    ) -> Call {
        self.log_resumed(account, resource);
        self.held.insert(name, (account, resource));
        Call {
            account,
            resource,
            name,
            ticket,
            shared_ticket,
            is_sent: false,
        }
    }

    /// Begins to spend only a part of each budget, without Redis.
    pub(super) fn begin_fallback(&mut self, now: Instant) {
        let rules = self.rules;
        for (account, budget) in self.each.iter_mut().enumerate() {
            for (resource, window) in &mut budget.windows {
                let of_this = |held: &&(usize, Resource)| **held == (account, *resource);
                let in_flight = self.held.values().filter(of_this).count();
                window.begin_fallback(&rules, u32::try_from(in_flight).unwrap_or(u32::MAX), now);
            }
        }
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

    pub(super) fn status(&self, number: usize, now: Instant) -> TokenStatus {
        match self.each[number].aside_until {
            Some(until) if now < until => TokenStatus::SetAside(until),
            Some(_) => TokenStatus::OnTrial,
            None => TokenStatus::Accepted,
        }
    }

    /// Finds the budget with most left, or why none has any.
    pub(super) fn choose(&mut self, resource: Resource, now: Instant) -> Result<usize, Denied> {
        let mut best = None;
        let mut denied = None;
        for number in 0..self.each.len() {
            match self.available(number, resource, now) {
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

    fn available(
        &mut self,
        number: usize,
        resource: Resource,
        now: Instant,
    ) -> Result<u64, Denied> {
        let on_trial = match self.status(number, now) {
            TokenStatus::SetAside(until) => return Err(Denied::SetAside(until)),
            status => status == TokenStatus::OnTrial,
        };
        let rules = self.rules;
        let account = &mut self.each[number];
        let in_flight: u32 = account
            .windows
            .values()
            .map(|window| window.in_flight)
            .sum();
        let window = account.windows.entry(resource).or_default();
        window.roll(&rules, now);
        let available = window.available(&rules, now);
        window.log(resource, now);
        match available {
            Available::Calls(_) if on_trial && in_flight > 0 => Err(Denied::Busy(now + SOON)),
            // The last choice, but one.
            Available::Calls(_) if on_trial => Ok(1),
            Available::Calls(calls) => Ok(calls),
            Available::Busy => Err(Denied::Busy(now + SOON)),
            Available::SpentUntil(until) => Err(Denied::Spent(until)),
        }
    }

    /// Logs that calls of a budget are made again, if they were not.
    fn log_resumed(&mut self, number: usize, resource: Resource) {
        let window = self.window(number, resource);
        if std::mem::take(&mut window.is_spent) {
            let resource = resource.name();
            tracing::info!(resource, "resuming GitHub calls with a new budget");
        }
    }

    /// Logs that all budgets are spent, once.
    pub(super) fn log_denied(&mut self, resource: Resource, denied: Denied, now: Instant) {
        let Denied::Spent(until) = denied else {
            return;
        };
        let windows = self.each.iter_mut();
        let windows = windows.filter_map(|account| account.windows.get_mut(&resource));
        let first = windows.map(|window| !std::mem::replace(&mut window.is_spent, true));
        if first.fold(false, |any, first| any | first) {
            let wait_s = until.saturating_duration_since(now).as_secs();
            let resource = resource.name();
            tracing::warn!(resource, wait_s, "GitHub budget is spent");
        }
    }

    pub(super) fn refuse(&mut self, number: usize, now: Instant) {
        let until = now + self.rules.set_aside;
        let before = self.each[number].aside_until.replace(until);
        if before.is_some() {
            tracing::debug!(token = number, "GitHub still rejects a token");
        } else if self.has_tokens {
            let wait_s = self.rules.set_aside.as_secs();
            tracing::warn!(
                token = number,
                wait_s,
                "GitHub rejected a token; setting it aside"
            );
        } else {
            tracing::warn!("GitHub requires a token, and none is configured");
        }
    }

    pub(super) fn accept(&mut self, number: usize) {
        if self.each[number].aside_until.take().is_some() {
            tracing::info!(token = number, "GitHub accepts a token again");
        }
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
    tracing::warn!(token = number, remaining, limit, "GitHub budget is low");
}

/// The better of two reasons: the wait for a call in flight is the shortest.
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
