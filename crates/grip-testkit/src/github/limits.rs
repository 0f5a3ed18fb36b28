//! Budgets as GitHub keeps them, and the limits on bursts.

use std::{
    collections::VecDeque,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::time::Instant;

const MINUTE: Duration = Duration::from_secs(60);

/// How much callers may ask.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Calls of a token in a window: 5,000.
    pub per_token: u32,
    /// Points of a token for GraphQL in a window: 5,000.
    pub points: u32,
    /// Calls without a token in a window: 60.
    pub anonymous: u32,
    /// From the first call of a window to its end: an hour.
    pub window: Duration,
    /// More calls at once than this are refused as a secondary limit.
    pub concurrent: Option<usize>,
    /// More calls within a minute than this are refused as a secondary limit.
    pub per_minute: Option<usize>,
    /// Seconds for which a caller beyond a secondary limit is sent away: 60.
    pub retry_after: u64,
    /// Every call with a number that this divides is answered with 502.
    pub fail_every: Option<usize>,
    /// How long an answer takes: no time.
    pub latency: Duration,
    /// No rate limit headers at all and no budgets, as a GitHub Enterprise without limits.
    pub unmetered: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            per_token: 5_000,
            points: 5_000,
            anonymous: 60,
            window: Duration::from_secs(3_600),
            concurrent: None,
            per_minute: None,
            retry_after: 60,
            fail_every: None,
            latency: Duration::ZERO,
            unmetered: false,
        }
    }
}

/// What went against the rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Calls for which nothing was left of the budget.
    pub over_budget: usize,
    /// Calls refused for a limit on bursts.
    pub secondary: usize,
    /// Of these, calls that came while the caller was told to stay away. Those that were under
    /// way when it was told count too.
    pub too_early: usize,
    /// Calls with a token that is unknown or has expired.
    pub unauthorised: usize,
}

/// The state of all limits.
#[derive(Debug)]
pub(super) struct LimitState {
    pub(super) limits: Limits,
    pub(super) counts: Counts,
    tokens: Vec<Token>,
    anonymous: Window,
    calls: usize,
    recent: VecDeque<Instant>,
    away_until: Option<Instant>,
}

#[derive(Debug, Default)]
struct Token {
    text: String,
    calls_left: Option<u32>,
    window: Window,
    points: Window,
}

/// What a call is paid with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pays {
    Calls,
    Points,
}

#[derive(Debug, Default)]
struct Window {
    used: u32,
    ends: Option<(Instant, SystemTime)>,
}

/// What becomes of a call.
pub(super) enum Entry {
    Passed,
    BadGateway,
    Unauthorised,
    /// With the status that is answered.
    Secondary(u16),
    Exhausted,
    OutOfPoints,
}

impl LimitState {
    pub(super) fn new(limits: Limits, tokens: Vec<String>) -> Self {
        let token = |text| Token {
            text,
            ..Token::default()
        };
        Self {
            limits,
            counts: Counts::default(),
            tokens: tokens.into_iter().map(token).collect(),
            anonymous: Window::default(),
            calls: 0,
            recent: VecDeque::new(),
            away_until: None,
        }
    }

    /// The number of a token; none for one that is unknown.
    pub(super) fn token(&self, text: &str) -> Option<usize> {
        self.tokens.iter().position(|token| token.text == text)
    }

    /// Decides about a call and charges for it. `token`: none for a call without one, and an
    /// unknown one inside.
    pub(super) fn enter(
        &mut self,
        token: Option<Option<usize>>,
        in_flight: usize,
        pays: Pays,
    ) -> Entry {
        self.calls += 1;
        let known = token.flatten();
        // GraphQL answers nobody without a token.
        if (pays == Pays::Points && token.is_none())
            || token == Some(None)
            || known.is_some_and(|token| !self.is_valid(token))
        {
            self.counts.unauthorised += 1;
            return Entry::Unauthorised;
        }
        if let Some(status) = self.refuse_burst(in_flight) {
            self.counts.secondary += 1;
            return Entry::Secondary(status);
        }
        if !self.limits.unmetered && self.left(known, pays) == 0 {
            self.counts.over_budget += 1;
            return match pays {
                Pays::Calls => Entry::Exhausted,
                Pays::Points => Entry::OutOfPoints,
            };
        }
        self.charge(known, 1, pays);
        match self.limits.fail_every {
            Some(every) if self.calls.is_multiple_of(every) => Entry::BadGateway,
            _ => Entry::Passed,
        }
    }

    fn is_valid(&mut self, token: usize) -> bool {
        match &mut self.tokens[token].calls_left {
            None => true,
            Some(0) => false,
            Some(left) => {
                *left -= 1;
                true
            }
        }
    }

    fn refuse_burst(&mut self, in_flight: usize) -> Option<u16> {
        let now = Instant::now();
        if self.away_until.is_some_and(|until| now < until) {
            self.counts.too_early += 1;
            return Some(403);
        }
        while self.recent.front().is_some_and(|at| *at + MINUTE <= now) {
            self.recent.pop_front();
        }
        let too_many = |limit: Option<usize>, count| limit.is_some_and(|limit| count > limit);
        let status = match () {
            () if too_many(self.limits.concurrent, in_flight) => 403,
            () if too_many(self.limits.per_minute, self.recent.len() + 1) => 429,
            () => {
                self.recent.push_back(now);
                return None;
            }
        };
        self.away_until = Some(now + Duration::from_secs(self.limits.retry_after));
        Some(status)
    }

    /// Takes back the charge of a call that found nothing changed.
    pub(super) fn refund(&mut self, token: Option<usize>) {
        let window = self.window(token, Pays::Calls);
        window.used = window.used.saturating_sub(1);
    }

    pub(super) fn use_up(&mut self, token: Option<usize>, calls: u32) {
        self.charge(token, calls, Pays::Calls);
    }

    fn charge(&mut self, token: Option<usize>, calls: u32, pays: Pays) {
        let span = self.limits.window;
        let window = self.window(token, pays);
        window.used += calls;
        window
            .ends
            .get_or_insert_with(|| (Instant::now() + span, SystemTime::now() + span));
    }

    pub(super) fn remaining(&mut self, token: Option<usize>) -> u32 {
        self.left(token, Pays::Calls)
    }

    fn left(&mut self, token: Option<usize>, pays: Pays) -> u32 {
        let limit = self.limit(token, pays);
        limit.saturating_sub(self.window(token, pays).used)
    }

    fn limit(&self, token: Option<usize>, pays: Pays) -> u32 {
        match (token, pays) {
            (Some(_), Pays::Calls) => self.limits.per_token,
            (Some(_), Pays::Points) => self.limits.points,
            (None, _) => self.limits.anonymous,
        }
    }

    fn window(&mut self, token: Option<usize>, pays: Pays) -> &mut Window {
        let window = match (token, pays) {
            (Some(token), Pays::Calls) => &mut self.tokens[token].window,
            (Some(token), Pays::Points) => &mut self.tokens[token].points,
            (None, _) => &mut self.anonymous,
        };
        if window.ends.is_some_and(|(end, _)| end <= Instant::now()) {
            *window = Window::default();
        }
        window
    }

    pub(super) fn renew(&mut self) {
        self.anonymous = Window::default();
        for token in &mut self.tokens {
            (token.window, token.points) = (Window::default(), Window::default());
        }
        self.away_until = None;
        self.recent.clear();
    }

    pub(super) fn expire_after(&mut self, token: usize, calls: Option<u32>) {
        self.tokens[token].calls_left = calls;
    }

    /// What every answer says about the budget.
    pub(super) fn headers(&mut self, token: Option<usize>, pays: Pays) -> Vec<(String, String)> {
        if self.limits.unmetered {
            return Vec::new();
        }
        let limit = self.limit(token, pays);
        let span = self.limits.window;
        let window = self.window(token, pays);
        let reset = window
            .ends
            .map_or_else(|| SystemTime::now() + span, |(_, end)| end);
        let reset = reset.duration_since(UNIX_EPOCH).unwrap_or_default();
        // Rounded up, so that the window has ended when the caller's clock says so.
        let reset = reset.as_millis().div_ceil(1_000);
        let used = window.used.min(limit);
        let resource = match pays {
            Pays::Calls => "core",
            Pays::Points => "graphql",
        };
        [
            ("x-ratelimit-limit", limit.to_string()),
            ("x-ratelimit-remaining", (limit - used).to_string()),
            ("x-ratelimit-reset", reset.to_string()),
            ("x-ratelimit-used", used.to_string()),
            ("x-ratelimit-resource", resource.to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }
}
