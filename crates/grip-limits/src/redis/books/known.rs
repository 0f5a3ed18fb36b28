//! What is remembered of one host.

use std::collections::VecDeque;

use tokio::time::Instant;

use crate::{
    Advice, Lane, Limits, Reason, Verdict,
    host::Hold,
    redis::{RECHECK, reply::Seen, scripts::StartName},
};

/// One host.
pub(super) struct Known {
    pub limits: Limits,
    pub seen: Option<Seen>,
    /// Our own starts within the window, oldest first.
    pub starts: VecDeque<Start>,
    pub used_at: Instant,
    pub requests_total: u64,
    pub failures_total: u64,
}

pub(super) struct Start {
    pub name: StartName,
    pub lane: Lane,
    pub at: Instant,
    /// Whether Redis knows of it.
    pub told: bool,
}

impl Known {
    pub fn new(limits: Limits, now: Instant) -> Self {
        Self {
            limits,
            seen: None,
            starts: VecDeque::new(),
            used_at: now,
            requests_total: 0,
            failures_total: 0,
        }
    }

    /// Forgets starts that no longer count.
    pub fn expire(&mut self, now: Instant) {
        let window = self.limits.counted_for();
        while let Some(oldest) = self.starts.front()
            && now.saturating_duration_since(oldest.at) >= window
        {
            self.starts.pop_front();
        }
    }

    pub fn ended(
        &mut self,
        unused: Option<StartName>,
        verdict: Option<Verdict>,
        advice: Option<Advice>,
        now: Instant,
    ) {
        self.used_at = now;
        self.failures_total += u64::from(verdict == Some(Verdict::Failure));
        if unused.is_some() {
            self.starts.retain(|start| Some(start.name) != unused);
            self.requests_total = self.requests_total.saturating_sub(1);
        }
        if let (Some(seen), Some(advice)) = (&mut self.seen, advice) {
            let until = now + advice.wait.min(Advice::LONGEST);
            if seen.advised.is_none_or(|(known, _)| known < until) {
                seen.advised = Some((until, advice.why));
            }
        }
    }

    /// What keeps `lane` out by what was seen last. A full house is believed only for a moment:
    /// others leave it without our knowing.
    pub fn hold(&self, lane: Lane, now: Instant) -> Option<Hold> {
        let seen = self.seen.as_ref()?;
        let fresh = |hold: &Hold| match hold.reason {
            Reason::InFlight => seen.at + RECHECK > now,
            _ => hold.retry_at > now,
        };
        let hold = seen.holds[lane.index()].filter(fresh);
        hold.or_else(|| self.lasting_hold(now))
    }

    /// What keeps every lane out, with or without Redis.
    pub fn lasting_hold(&self, now: Instant) -> Option<Hold> {
        let seen = self.seen.as_ref()?;
        let advised = seen.advised.map(|(until, _)| (Reason::Advised, until));
        let shut = seen.shut_until.map(|until| (Reason::Shut, until));
        let holds = [advised, shut].into_iter().flatten();
        holds
            .filter(|(_, until)| *until > now)
            .max_by_key(|(_, until)| *until)
            .map(|(reason, until)| Hold::new(reason, until))
    }

    pub fn is_blank(&mut self, now: Instant) -> bool {
        self.expire(now);
        self.starts.is_empty() && self.lasting_hold(now).is_none()
    }
}
