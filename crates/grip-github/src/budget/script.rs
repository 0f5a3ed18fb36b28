//! The budgets in Redis: one hash per token, changed by one script.
//!
//! Invariants:
//! - A call in flight is a lease. What a killed instance had in flight counts, when the lease ends,
//!   as lost: the host may have counted it.
//! - A budget leaves Redis ten seconds after its window, and no sooner than after a minute. Keys
//!   name a token by a hash.
//! - While Redis is disconnected, each instance waits for the next response of the host and then
//!   spends no more than its part of what that response left; nothing is spent of a budget that
//!   was seen spent.
//! - A token that the host does not accept is set aside by each instance for itself. Calls without
//!   a token count as one budget, though a host may count them by address.

use std::time::Duration;

use grip_limits::{Mode, ScriptCall, SharedAccounts, SharedRedis};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use url::Url;

use super::{
    Denied, Outcome,
    tokens::{Call, SOON, TokenBudgets, TokenStatus, warn_low},
    window::{CallNumber, Known, State},
};
use crate::{
    options::Token,
    quota::{Quota, Resource},
};

/// After this time without a renewal, a call counts as lost. Longer than a host may take for the
/// head of its response.
const LEASE: Duration = Duration::from_secs(60);

/// Numbers that the script responds with of each budget.
const FACTS: usize = 9;

/// A call that is asked for.
pub(crate) struct CallRequest {
    resource: Resource,
    name: u64,
    tokens: Vec<TokenStatus>,
}

/// A change of a budget that other instances must learn.
#[derive(Clone, Debug)]
pub(crate) struct BudgetUpdate {
    resource: Resource,
    /// None where it is not known which token would have paid.
    account: Option<usize>,
    /// The call that it is about.
    name: u64,
    ticket: u64,
    what: What,
    /// When it happened.
    at: Instant,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// The call is in flight.
    InFlight,
    /// The call ended.
    Ended(Outcome),
    /// A budget as this process knows it, whatever call it is from.
    Known(Quota),
}

impl SharedAccounts for TokenBudgets {
    type Group = ();
    type Request = CallRequest;
    type Update = BudgetUpdate;

    const SCRIPT: &'static str = include_str!("budget.lua");

    fn group(_: &Resource) {}

    fn request(&mut self, resource: &Resource, now: Instant) -> Result<CallRequest, Denied> {
        let tokens: Vec<_> = (0..self.count())
            .map(|account| self.shared_status(account, now))
            .collect();
        let set_aside = tokens.iter().map(|status| match status {
            TokenStatus::SetAside(until) => Some(*until),
            TokenStatus::OnTrial | TokenStatus::Accepted => None,
        });
        let set_aside: Option<Vec<_>> = set_aside.collect();
        if let Some(until) = set_aside.and_then(|until| until.into_iter().min()) {
            return Err(Denied::SetAside(until));
        }
        Ok(CallRequest {
            resource: *resource,
            name: self.next_name(),
            tokens,
        })
    }

    fn call(
        &self,
        redis: &SharedRedis,
        (): &(),
        request: Option<&CallRequest>,
        updates: &[BudgetUpdate],
        now: Instant,
    ) -> ScriptCall {
        let name = |name: u64| format!("{}:{name}", redis.instance());
        let mut arguments = vec![
            millis(self.rules.margin),
            self.rules.reserve.to_string(),
            millis(LEASE),
            request.map_or("", |r| r.resource.name()).to_owned(),
            request.map_or_else(String::new, |r| name(r.name)),
        ];
        arguments.extend((0..self.count()).map(|account| {
            let status = request.map(|request| request.tokens[account]);
            let code = match status {
                None | Some(TokenStatus::SetAside(_)) => "0",
                Some(TokenStatus::Accepted) => "1",
                Some(TokenStatus::OnTrial) => "2",
            };
            code.to_owned()
        }));
        for update in updates {
            let account = update.account.map_or(0, |account| account + 1);
            arguments.extend([
                account.to_string(),
                update.resource.name().to_owned(),
                name(update.name),
                update.ticket.to_string(),
                update.what.word().to_owned(),
            ]);
            arguments.extend(update.quota_arguments(now));
        }
        let key = |key: &String| format!("{}:{key}", redis.prefix());
        ScriptCall {
            keys: self.keys.iter().map(key).collect(),
            arguments,
        }
    }

    fn observe(&mut self, (): &(), numbers: &[i64], now: Instant) -> Option<()> {
        let (_, rest) = numbers.split_first_chunk::<2>()?;
        let (budgets, []) = rest.as_chunks::<FACTS>() else {
            return None;
        };
        for [account, resource, facts @ ..] in budgets {
            let account = usize::try_from(*account).ok()?.checked_sub(1)?;
            let resource = usize::try_from(*resource).ok()?.checked_sub(1)?;
            let resource = *Resource::ALL.get(resource)?;
            if account >= self.count() {
                return None;
            }
            let (state, in_flight, lost) = read_budget(*facts, now);
            let window = self.window(account, resource);
            if let Some(known) = window.observe(state, in_flight, lost) {
                warn_low(account, known);
            }
        }
        Some(())
    }

    fn granted(
        &mut self,
        request: CallRequest,
        numbers: &[i64],
        now: Instant,
    ) -> Option<Result<Call, Denied>> {
        let (&[taken, ticket], _) = numbers.split_first_chunk()?;
        let CallRequest { resource, name, .. } = request;
        let Some(account) = usize::try_from(taken).ok()?.checked_sub(1) else {
            let denied = self.choose(resource, now).err();
            let denied = denied.unwrap_or(Denied::Busy(now + SOON));
            self.log_denied(resource, denied, now);
            return Some(Err(denied));
        };
        if account >= self.count() {
            return None;
        }
        let ticket = u64::try_from(ticket).ok()?;
        Some(Ok(self.begin(
            account,
            resource,
            name,
            CallNumber::OLDEST,
            ticket,
        )))
    }

    fn withdraw(request: &CallRequest, at: Instant) -> Option<BudgetUpdate> {
        Some(BudgetUpdate {
            resource: request.resource,
            account: None,
            name: request.name,
            ticket: 0,
            what: What::Ended(Outcome::Unused),
            at,
        })
    }

    fn settled(call: &Call, outcome: Outcome, at: Instant) -> Vec<((), BudgetUpdate)> {
        let update = |resource, what| BudgetUpdate {
            resource,
            account: Some(call.account),
            name: call.name,
            ticket: call.shared_ticket,
            what,
            at,
        };
        match outcome.paid_elsewhere(call.resource) {
            Some((other, quota)) => vec![
                ((), update(call.resource, What::Ended(Outcome::Unused))),
                ((), update(other, What::Known(quota))),
            ],
            None => vec![((), update(call.resource, What::Ended(outcome)))],
        }
    }

    fn renewals(&mut self, everything: bool, now: Instant) -> Vec<((), Vec<BudgetUpdate>)> {
        let update = |account, resource, name, what| BudgetUpdate {
            resource,
            account: Some(account),
            name,
            ticket: 0,
            what,
            at: now,
        };
        let held = self.held.iter();
        let held = held
            .map(|(name, (account, resource))| update(*account, *resource, *name, What::InFlight));
        let known = self.windows().filter_map(|(account, resource, window)| {
            let State::Known(known) = window.state else {
                return None;
            };
            let quota = Quota {
                limit: known.limit,
                remaining: known.remaining,
                reset: known.reset,
                reset_in: known.ends?.checked_duration_since(now)?,
                resource: None,
            };
            Some(update(account, resource, 0, What::Known(quota)))
        });
        let known = known.filter(|_| everything);
        let updates: Vec<_> = held.chain(known).collect();
        if updates.is_empty() {
            Vec::new()
        } else {
            vec![((), updates)]
        }
    }

    fn confirmed(&mut self, (): &(), _: &[BudgetUpdate]) {}

    fn set_mode(&mut self, mode: Mode, now: Instant) {
        let Mode::Fallback { percent, outage } = mode else {
            self.rules.share = None;
            return;
        };
        if self.latest_outage.replace(outage) != Some(outage) {
            self.begin_fallback(now);
        }
        self.rules.share = Some(percent);
    }
}

impl TokenBudgets {
    /// Whether a token may be used. One on trial is tried by one call of this process at a time.
    fn shared_status(&self, account: usize, now: Instant) -> TokenStatus {
        let is_held = || self.held.values().any(|(of, _)| *of == account);
        match self.status(account, now) {
            TokenStatus::OnTrial if is_held() => TokenStatus::SetAside(now + SOON),
            status => status,
        }
    }
}

impl What {
    fn word(self) -> &'static str {
        match self {
            Self::InFlight => "flight",
            Self::Known(_) => "known",
            Self::Ended(Outcome::Unused) => "unused",
            Self::Ended(Outcome::Lost) => "lost",
            Self::Ended(Outcome::Unmetered) => "unmetered",
            Self::Ended(Outcome::Quota(_)) => "quota",
        }
    }
}

impl BudgetUpdate {
    fn quota_arguments(&self, now: Instant) -> [String; 4] {
        let (What::Known(quota) | What::Ended(Outcome::Quota(quota))) = self.what else {
            return ["0", "0", "0", "0"].map(str::to_owned);
        };
        let age = now.saturating_duration_since(self.at);
        [
            quota.limit.to_string(),
            quota.remaining.to_string(),
            quota.reset.to_string(),
            millis(quota.reset_in.saturating_sub(age)),
        ]
    }
}

/// The state of a budget, its calls in flight, and its lost calls.
fn read_budget(facts: [i64; FACTS - 2], now: Instant) -> (State, u32, u32) {
    let [state, limit, remaining, reset, left, in_flight, lost] = facts;
    let left = u64::try_from(left).ok();
    let state = match state {
        1 => State::Unmetered,
        2 => State::Known(Known {
            limit: small(limit),
            remaining: small(remaining),
            reset: u64::try_from(reset).unwrap_or_default(),
            ends: left.map(|ms| now + Duration::from_millis(ms)),
        }),
        _ => State::Unknown,
    };
    (state, small(in_flight), small(lost))
}

/// The keys of each token, without the prefix.
pub(super) fn ledger_keys(base: &Url, tokens: &[&Token]) -> Vec<String> {
    let api = digest(&["api", base.as_str()]);
    let key = |token: &str| format!("{{github:{api}}}:{token}:budgets");
    if tokens.is_empty() {
        return vec![key("nobody")];
    }
    let tokens = tokens.iter();
    tokens
        .map(|token| key(&digest(&["token", base.as_str(), token.text()])))
        .collect()
}

/// Short, and nothing of what went in can be found from it.
fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new_with_prefix("gripfast github budget");
    for part in parts {
        hash.update([0]);
        hash.update(part);
    }
    faster_hex::hex_string(&hash.finalize()[..16])
}

fn small(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

fn millis(duration: Duration) -> String {
    duration.as_millis().to_string()
}
