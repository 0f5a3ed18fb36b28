//! What is said to Redis about one kind of call, and how its answer reads.

use std::time::Duration;

use grip_limits::{Script, SharedRedis};
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;
use url::Url;

use super::untold::{Item, What};
use crate::{
    budget::{
        accounts::{Rules, Standing},
        window::{Known, State},
    },
    options::Token,
    quota::Resource,
};

/// After this time without an answer, a call counts as one that nobody answered. Longer than a
/// host may take for the head of its answer, so that this happens to killed instances only.
const LEASE: Duration = Duration::from_secs(60);

/// Numbers that are answered of each token.
const FACTS: usize = 7;

/// The script and the names of its keys.
pub(super) struct Scripts {
    pub(super) script: Script,
    instance: String,
    /// Begins the keys of each token.
    places: Vec<String>,
    rules: Rules,
}

/// One budget as the books in Redis have it.
pub(super) struct Seen {
    pub(super) state: State,
    pub(super) in_flight: u32,
    pub(super) lost: u32,
}

/// A script's answer.
pub(super) struct Reply {
    /// The token that pays and the call's ticket.
    pub(super) taken: Option<(usize, u64)>,
    /// In the order of the tokens.
    pub(super) seen: Vec<Seen>,
}

impl Scripts {
    pub(super) fn new(redis: &SharedRedis, base: &Url, tokens: &[&Token], rules: Rules) -> Self {
        let api = digest(&["api", base.as_str()]);
        let place = |token: &str| format!("{}:{{github:{api}}}:{token}", redis.prefix());
        let mut places: Vec<_> = tokens
            .iter()
            .map(|token| place(&digest(&["token", base.as_str(), token.text()])))
            .collect();
        if places.is_empty() {
            places.push(place("nobody"));
        }
        Self {
            script: Script::new(include_str!("budget.lua")),
            instance: redis.instance().to_owned(),
            places,
            rules,
        }
    }

    pub(super) fn keys(&self, resource: Resource) -> Vec<String> {
        let resource = resource.name();
        let each = self.places.iter().flat_map(|place| {
            let kinds = ["known", "flight", "lost"];
            kinds.map(|kind| format!("{place}:{resource}:{kind}"))
        });
        each.collect()
    }

    /// `take`: the name of the call to take.
    pub(super) fn arguments(
        &self,
        may: &[Standing],
        take: Option<u64>,
        items: &[Item],
        now: Instant,
    ) -> Vec<String> {
        let mut arguments = vec![
            millis(self.rules.margin),
            self.rules.reserve.to_string(),
            millis(LEASE),
            self.places.len().to_string(),
        ];
        arguments.extend(may.iter().map(|standing| {
            let code = match standing {
                Standing::Aside(_) => "0",
                Standing::Accepted => "1",
                Standing::OnTrial => "2",
            };
            code.to_owned()
        }));
        arguments.push(take.map(|name| self.name(name)).unwrap_or_default());
        for item in items {
            let account = item.account.map_or(0, |account| account + 1);
            arguments.extend([account.to_string(), self.name(item.name)]);
            arguments.extend([item.ticket.to_string(), item.what.word().to_owned()]);
            arguments.extend(match item.what {
                What::Quota(quota) | What::Learn(quota) => {
                    let age = now.saturating_duration_since(item.at);
                    [
                        quota.limit.to_string(),
                        quota.remaining.to_string(),
                        quota.reset.to_string(),
                        millis(quota.reset_in.saturating_sub(age)),
                    ]
                }
                _ => ["0", "0", "0", "0"].map(str::to_owned),
            });
        }
        arguments
    }

    fn name(&self, name: u64) -> String {
        format!("{}:{name}", self.instance)
    }
}

impl Reply {
    /// None if it is not what the script answers.
    pub(super) fn read(numbers: &[i64], tokens: usize, now: Instant) -> Option<Self> {
        let (&[taken, ticket], rest) = numbers.split_first_chunk()?;
        let (facts, []) = rest.as_chunks::<FACTS>() else {
            return None;
        };
        if facts.len() != tokens {
            return None;
        }
        let taken = usize::try_from(taken).ok()?.checked_sub(1);
        let taken = match taken {
            Some(number) if number < tokens => Some((number, u64::try_from(ticket).ok()?)),
            Some(_) => return None,
            None => None,
        };
        let seen = facts.iter().map(|facts| Seen::read(*facts, now)).collect();
        Some(Self { taken, seen })
    }
}

impl Seen {
    fn read([state, rest @ ..]: [i64; FACTS], now: Instant) -> Self {
        let [limit, remaining, reset, left, in_flight, lost] = rest;
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
        Self {
            state,
            in_flight: small(in_flight),
            lost: small(lost),
        }
    }
}

/// Short, and nothing of what went in can be found from it.
fn digest(parts: &[&str]) -> String {
    let mut hash = Sha256::new_with_prefix("gripfast github budget");
    for part in parts {
        hash.update([0]);
        hash.update(part);
    }
    let hash = hash.finalize();
    hash[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

fn small(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

fn millis(duration: Duration) -> String {
    duration.as_millis().to_string()
}
