//! What is said to Redis.
//!
//! All scripts begin with `books.lua` and touch only the keys of one host, which share a hash
//! tag. Instances must have equal settings: each applies its own.

use std::time::Duration;

use grip_types::Domain;
use redis::{Script, ScriptInvocation};
use tokio::time::Instant;

use super::{RECHECK, RedisOptions, job::Settle};
use crate::{Lane, Options, Verdict, Why};

macro_rules! script {
    ($file:literal) => {
        Script::new(concat!(include_str!("books.lua"), include_str!($file)))
    };
}

pub(super) struct Scripts {
    acquire: Script,
    settle: Script,
    renew: Script,
    hello: Script,
    prefix: String,
    /// This process among all that share the Redis.
    instance: String,
    lease: Duration,
    options: Options,
}

/// One start under one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StartName {
    pub token: u64,
    /// Counts the starts under the slot from 1.
    pub number: u32,
}

/// What one instance still holds at one host in one lane.
#[derive(Debug)]
pub(super) struct Renewal {
    pub domain: Domain,
    pub lane: Lane,
    pub slots: Vec<u64>,
    pub starts: Vec<(StartName, Instant)>,
}

impl Scripts {
    pub fn new(options: &Options, redis: &RedisOptions) -> Self {
        Self {
            acquire: script!("acquire.lua"),
            settle: script!("settle.lua"),
            renew: script!("renew.lua"),
            hello: Script::new(include_str!("hello.lua")),
            prefix: redis.prefix.clone(),
            instance: format!("{:016x}", rand::random::<u64>()),
            lease: redis.lease,
            options: options.clone(),
        }
    }

    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    pub fn instance(&self) -> &str {
        &self.instance
    }

    /// Asks for a slot and its first start.
    pub fn acquire(&self, domain: &Domain, lane: Lane, token: u64) -> ScriptInvocation<'_> {
        let first = StartName { token, number: 1 };
        self.take(domain, lane, first, false, None)
    }

    /// Asks for one more start under a slot.
    pub fn again(
        &self,
        domain: &Domain,
        lane: Lane,
        start: StartName,
        probe: Option<u64>,
    ) -> ScriptInvocation<'_> {
        self.take(domain, lane, start, true, probe)
    }

    fn take(
        &self,
        domain: &Domain,
        lane: Lane,
        start: StartName,
        under_way: bool,
        probe: Option<u64>,
    ) -> ScriptInvocation<'_> {
        let mut call = self.call(&self.acquire, domain, lane);
        call.arg(self.slot(start.token))
            .arg(self.start(start))
            .arg(u8::from(under_way))
            .arg(probe.unwrap_or(0));
        call
    }

    /// Gives a slot back with all that was learned.
    pub fn settle(&self, job: &Settle, now: Instant) -> ScriptInvocation<'_> {
        let age = now.saturating_duration_since(job.at);
        let verdict = job.verdict.filter(|_| age < self.options.breaker.window);
        let advice = job.advice.map(|a| (a.wait.saturating_sub(age), a.why));
        let mut call = self.call(&self.settle, &job.domain, job.lane);
        call.arg(self.slot(job.token))
            .arg(job.unused.map_or(String::new(), |start| self.start(start)))
            .arg(match verdict {
                None => "",
                Some(Verdict::Success) => "success",
                Some(Verdict::Failure) => "failure",
                Some(Verdict::Neutral) => "neutral",
            })
            .arg(job.probe.unwrap_or(0))
            .arg(advice.map_or(0, |(wait, _)| millis(wait)))
            .arg(advice.map_or(0, |(_, why)| number_of(why)));
        call
    }

    /// Says what is still held, and what Redis may not know of.
    pub fn renew(&self, renewal: &Renewal, now: Instant) -> ScriptInvocation<'_> {
        let mut call = self.call(&self.renew, &renewal.domain, renewal.lane);
        call.arg(renewal.slots.len());
        for token in &renewal.slots {
            call.arg(self.slot(*token));
        }
        for (start, at) in &renewal.starts {
            let age = now.saturating_duration_since(*at);
            call.arg(self.start(*start)).arg(millis(age));
        }
        call
    }

    /// Shows that we live.
    pub fn hello(&self) -> ScriptInvocation<'_> {
        let mut call = self.hello.prepare_invoke();
        call.key(format!("{}:instance:{}", self.prefix, self.instance))
            .arg(millis(self.lease))
            .arg(std::process::id());
        call
    }

    fn call<'a>(&'a self, script: &'a Script, domain: &Domain, lane: Lane) -> ScriptInvocation<'a> {
        let mut call = script.prepare_invoke();
        let key = |what: &str| format!("{}:{{{domain}}}:{what}", self.prefix);
        let lanes = [lane, lane.other()].map(name_of);
        for what in ["slots", "starts"] {
            for lane in lanes {
                call.key(key(&format!("{what}:{lane}")));
            }
        }
        for what in ["host", "answers", "failed", "probes"] {
            call.key(key(what));
        }
        self.settings(&mut call, domain);
        call
    }

    fn settings(&self, call: &mut ScriptInvocation<'_>, domain: &Domain) {
        let limits = self.options.limits_of(domain);
        let breaker = &self.options.breaker;
        call.arg(millis(self.lease))
            .arg(limits.in_flight.max(1))
            .arg(limits.reserved_slots())
            .arg(limits.per_window.max(1))
            .arg(limits.reserved_starts())
            .arg(millis(limits.counted_for()))
            .arg(millis(breaker.window))
            .arg(breaker.trip_percent)
            .arg(breaker.min_requests)
            .arg(millis(breaker.cooldown))
            .arg(breaker.probes.max(1))
            .arg(millis(self.options.forget_after).max(1))
            .arg(millis(RECHECK));
    }

    fn slot(&self, token: u64) -> String {
        format!("{}:{token}", self.instance)
    }

    fn start(&self, start: StartName) -> String {
        format!("{}:{}:{}", self.instance, start.token, start.number)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn name_of(lane: Lane) -> &'static str {
    match lane {
        Lane::Git => "git",
        Lane::Api => "api",
    }
}

fn number_of(why: Why) -> u8 {
    match why {
        Why::RetryAfter => 0,
        Why::RateLimit => 1,
        Why::Unsaid => 2,
    }
}
