//! The accounts of hosts in Redis: keys and arguments of the script, and its response.
//!
//! A run touches only the keys of one host, which share a hash tag. Instances must have equal
//! settings: each applies its own.

use std::time::Duration;

use grip_types::Domain;
use tokio::time::Instant;

use super::{
    Held, HostPermit, HostRequest, Hosts, Outcome, StartName,
    host::{Hold, Observed, RECHECK},
};
use crate::{
    Advice, BreakerState, Lane, Mode, Reason, Refused, ScriptCall, SharedAccounts, SharedRedis,
    Verdict, Why,
};

/// A request with the name of its start.
pub struct NamedRequest {
    request: HostRequest,
    start: StartName,
}

/// A change at a host that other instances must learn.
#[derive(Clone, Debug)]
pub struct HostUpdate {
    kind: UpdateKind,
    lane: Lane,
    /// When it happened: advice ages while it waits.
    at: Instant,
    slot: Option<u64>,
    /// A start that Redis may not know of; of a slot that is free, one that goes back as well.
    start: Option<StartName>,
    verdict: Option<Verdict>,
    probe: Option<u64>,
    advice: Option<Advice>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UpdateKind {
    /// The slot is held still.
    Held,
    Started,
    /// The slot, if any, is free; the host may have given advice.
    Freed,
}

impl HostUpdate {
    fn new(kind: UpdateKind, lane: Lane, at: Instant) -> Self {
        Self {
            kind,
            lane,
            at,
            slot: None,
            start: None,
            verdict: None,
            probe: None,
            advice: None,
        }
    }
}

/// The numbers that the script responds with.
struct Response {
    granted: bool,
    probe: Option<u64>,
    refusal: Option<Hold>,
    observed: Observed,
}

impl SharedAccounts for Hosts {
    type Group = Domain;
    type Request = NamedRequest;
    type Update = HostUpdate;

    const SCRIPT: &'static str = include_str!("hosts.lua");

    fn group(request: &HostRequest) -> Domain {
        request.domain.clone()
    }

    fn request(&mut self, request: &HostRequest, now: Instant) -> Result<NamedRequest, Refused> {
        self.open(&request.domain, now)?;
        Ok(NamedRequest {
            request: request.clone(),
            start: self.next_start(request),
        })
    }

    fn call(
        &self,
        redis: &SharedRedis,
        domain: &Domain,
        request: Option<&NamedRequest>,
        updates: &[HostUpdate],
        now: Instant,
    ) -> ScriptCall {
        let names = Names(redis.instance());
        let mut arguments = self.settings(redis.lease(), domain);
        arguments.extend(names.request(request));
        for update in updates {
            arguments.extend(names.update(update, self.options.breaker.window, now));
        }
        let names = [
            "slots:git",
            "slots:api",
            "starts:git",
            "starts:api",
            "host",
            "answers",
            "failed",
            "probes",
        ];
        let prefix = redis.prefix();
        ScriptCall {
            keys: names
                .map(|name| format!("{prefix}:{{{domain}}}:{name}"))
                .into(),
            arguments,
        }
    }

    fn observe(&mut self, domain: &Domain, numbers: &[i64], now: Instant) -> Option<()> {
        let response = Response::read(numbers, now)?;
        // While it was asked about, it may have been forgotten to make room: then this one is
        // above the bound.
        self.insert(domain, now).observe(response.observed);
        Some(())
    }

    fn granted(
        &mut self,
        request: NamedRequest,
        numbers: &[i64],
        now: Instant,
    ) -> Option<Result<HostPermit, Refused>> {
        let response = Response::read(numbers, now)?;
        let NamedRequest { request, start } = request;
        let HostRequest {
            domain,
            lane,
            under,
        } = request;
        if !response.granted {
            let hold = response.refusal.unwrap_or_else(|| Hold::in_flight(now));
            return Some(Err(hold.refused(&domain)));
        }
        let probe = under.and_then(|under| under.local_probe());
        self.insert(&domain, now).granted(lane, start, probe, now);
        Some(Ok(HostPermit {
            domain,
            lane,
            held: Held {
                start,
                probe: response.probe,
                is_shared: true,
            },
        }))
    }

    fn withdraw(NamedRequest { request, start }: &NamedRequest, at: Instant) -> Option<HostUpdate> {
        // A further start under a slot stays counted: it may have been made.
        request.under.is_none().then_some(HostUpdate {
            slot: Some(start.token),
            start: Some(*start),
            ..HostUpdate::new(UpdateKind::Freed, request.lane, at)
        })
    }

    fn settled(slot: &HostPermit, outcome: Outcome, at: Instant) -> Vec<(Domain, HostUpdate)> {
        let (verdict, advice) = match outcome {
            Outcome::Done { verdict, advice } => (Some(verdict), advice),
            Outcome::Cancelled | Outcome::Unused => (None, None),
        };
        let start = slot.held.start;
        let update = HostUpdate {
            slot: Some(start.token),
            start: (outcome == Outcome::Unused).then_some(start),
            verdict,
            probe: slot.held.shared_probe(),
            advice,
            ..HostUpdate::new(UpdateKind::Freed, slot.lane, at)
        };
        vec![(slot.domain.clone(), update)]
    }

    fn renewals(&mut self, everything: bool, now: Instant) -> Vec<(Domain, Vec<HostUpdate>)> {
        let mut renewals = Vec::new();
        for (domain, host) in &mut self.hosts {
            let advice = host.advice(now).filter(|_| everything);
            let (held, starts) = host.own(now);
            let held = held.iter().map(|(token, lane)| HostUpdate {
                slot: Some(*token),
                ..HostUpdate::new(UpdateKind::Held, *lane, now)
            });
            let starts = starts.iter().filter(|start| everything || !start.is_shared);
            let starts = starts.map(|start| HostUpdate {
                start: Some(start.name),
                ..HostUpdate::new(UpdateKind::Started, start.lane, start.at)
            });
            let advice = advice.map(|advice| HostUpdate {
                advice: Some(advice),
                ..HostUpdate::new(UpdateKind::Freed, Lane::Git, now)
            });
            let updates: Vec<_> = held.chain(starts).chain(advice).collect();
            if !updates.is_empty() {
                renewals.push((domain.clone(), updates));
            }
        }
        renewals
    }

    fn confirmed(&mut self, domain: &Domain, updates: &[HostUpdate]) {
        let mut is_freed = false;
        if let Some(host) = self.hosts.get_mut(domain) {
            for update in updates {
                match (update.kind, update.start) {
                    (UpdateKind::Started, Some(start)) => host.confirm_start(start),
                    (UpdateKind::Freed, _) => is_freed |= update.slot.is_some(),
                    _ => {}
                }
            }
        }
        if is_freed {
            self.notifier.notify(domain);
        }
    }

    fn set_mode(&mut self, mode: Mode, _: Instant) {
        if std::mem::replace(&mut self.mode, mode) == mode {
            return;
        }
        for (domain, host) in &mut self.hosts {
            host.limits = self.options.limits_in(mode, domain);
        }
        self.notifier.notify_all();
    }
}

impl Hosts {
    fn settings(&self, lease: Duration, domain: &Domain) -> Vec<String> {
        let limits = self.options.limits_of(domain);
        let breaker = &self.options.breaker;
        let settings = [
            millis(lease),
            limits.slots().into(),
            limits.reserved_slots().into(),
            limits.starts().into(),
            limits.reserved_starts().into(),
            millis(limits.counted_for()),
            millis(breaker.window),
            breaker.trip_percent.into(),
            breaker.min_requests.into(),
            millis(breaker.cooldown),
            breaker.probes.max(1).into(),
            millis(self.options.forget_after).max(1),
            millis(RECHECK),
            breaker.max_outcomes as u64,
        ];
        settings.map(|setting| setting.to_string()).into()
    }
}

/// Names of slots and starts among all instances.
struct Names<'a>(&'a str);

impl Names<'_> {
    fn slot(&self, token: u64) -> String {
        format!("{}:{token}", self.0)
    }

    fn start(&self, start: StartName) -> String {
        format!("{}:{}:{}", self.0, start.token, start.number)
    }

    /// Lane (0 = nothing is asked for), slot, start, whether the slot is held, its probe.
    fn request(&self, request: Option<&NamedRequest>) -> [String; 5] {
        let Some(NamedRequest { request, start }) = request else {
            return ["0", "", "", "0", "0"].map(str::to_owned);
        };
        let probe = request.under.and_then(|under| under.shared_probe());
        [
            lane_number(request.lane).to_string(),
            self.slot(start.token),
            self.start(*start),
            u8::from(request.under.is_some()).to_string(),
            probe.unwrap_or(0).to_string(),
        ]
    }

    /// What, lane, slot, start, verdict, probe, milliseconds, why.
    fn update(&self, update: &HostUpdate, window: Duration, now: Instant) -> [String; 8] {
        let age = now.saturating_duration_since(update.at);
        let advice = update.advice;
        let (what, ms) = match update.kind {
            UpdateKind::Held => ("held", Duration::ZERO),
            UpdateKind::Started => ("started", age),
            UpdateKind::Freed => {
                let wait = advice.map(|advice| advice.wait.saturating_sub(age));
                ("freed", wait.unwrap_or_default())
            }
        };
        let verdict = match update.verdict.filter(|_| age < window) {
            None => "",
            Some(Verdict::Success) => "success",
            Some(Verdict::Failure) => "failure",
            Some(Verdict::Neutral) => "neutral",
        };
        let why = advice.map_or(0, |advice| number_of(advice.why));
        [
            what.to_owned(),
            lane_number(update.lane).to_string(),
            update.slot.map_or_else(String::new, |slot| self.slot(slot)),
            update
                .start
                .map_or_else(String::new, |start| self.start(start)),
            verdict.to_owned(),
            update.probe.unwrap_or(0).to_string(),
            millis(ms).to_string(),
            why.to_string(),
        ]
    }
}

impl Response {
    /// None if it is not what the script responds with.
    fn read(numbers: &[i64], now: Instant) -> Option<Self> {
        let numbers: [i64; 15] = numbers.try_into().ok()?;
        let [
            granted,
            probe,
            reason,
            wait,
            git,
            git_wait,
            api,
            api_wait,
            rest @ ..,
        ] = numbers;
        let [in_flight, started, state, open, advised, why, failures] = rest;
        let until = |wait: i64| (wait > 0).then(|| later(now, wait));
        let observed = Observed {
            holds: [hold(git, git_wait, now), hold(api, api_wait, now)],
            in_flight: count(in_flight),
            started: count(started),
            breaker: match state {
                1 => BreakerState::Open,
                2 => BreakerState::HalfOpen,
                _ => BreakerState::Closed,
            },
            open_until: until(open),
            advised: until(advised).map(|until| (until, why_of(why))),
            failures: count(failures),
            at: now,
        };
        Some(Self {
            granted: granted == 1,
            probe: u64::try_from(probe).ok().filter(|round| *round > 0),
            refusal: hold(reason, wait, now),
            observed,
        })
    }
}

fn hold(reason: i64, wait: i64, now: Instant) -> Option<Hold> {
    use Reason::{Advised, BreakerOpen, InFlight, Window};
    let reasons = [InFlight, Window, BreakerOpen, Advised];
    let reason = reasons.get(usize::try_from(reason).ok()?.checked_sub(1)?)?;
    Some(Hold::new(*reason, later(now, wait)))
}

fn later(now: Instant, wait_ms: i64) -> Instant {
    now + Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0))
}

fn count(number: i64) -> u32 {
    u32::try_from(number.max(0)).unwrap_or(u32::MAX)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// From 1: 0 is none.
fn lane_number(lane: Lane) -> usize {
    lane.index() + 1
}

fn number_of(why: Why) -> u8 {
    match why {
        Why::RetryAfter => 0,
        Why::RateLimit => 1,
        Why::Unspecified => 2,
    }
}

fn why_of(number: i64) -> Why {
    match number {
        0 => Why::RetryAfter,
        1 => Why::RateLimit,
        _ => Why::Unspecified,
    }
}
