//! Room for hosts: those that are idle and owe nothing leave.

use std::{collections::HashSet, time::Duration};

use grip_types::Domain;
use tokio::time::Instant;

use super::State;
use crate::{Options, Reason, host::Hold};

/// Least time between two looks for hosts to forget.
const SWEEP_SPACING: Duration = Duration::from_secs(1);

impl State {
    /// Forgets idle hosts now and then; at the bound also those that are only just idle.
    pub(super) fn make_room(&mut self, options: &Options, now: Instant) -> Result<(), Hold> {
        let is_full = self.hosts.len() >= options.max_domains;
        let (spacing, idle) = match is_full {
            true => (SWEEP_SPACING, Duration::ZERO),
            false => (options.forget_after / 2, options.forget_after),
        };
        if self.is_due(spacing, now) {
            self.swept_at = Some(now);
            self.forget(idle, now);
        }
        if self.hosts.len() < options.max_domains {
            return Ok(());
        }
        let next_sweep = self.swept_at.unwrap_or(now) + SWEEP_SPACING;
        Err(Hold::new(Reason::TooManyHosts, next_sweep))
    }

    fn is_due(&self, spacing: Duration, now: Instant) -> bool {
        self.swept_at
            .is_none_or(|at| now.saturating_duration_since(at) >= spacing)
    }

    /// Forgets hosts that were idle for `idle` and of which nothing is out or due.
    pub(super) fn forget(&mut self, idle: Duration, now: Instant) {
        let held: HashSet<&Domain> = self.held.values().map(|held| &held.domain).collect();
        let fallback = &mut self.fallback;
        self.hosts.retain(|domain, known| {
            let is_idle = now.saturating_duration_since(known.used_at) >= idle
                && !held.contains(domain)
                && known.is_blank(now)
                && fallback.as_mut().is_none_or(|f| f.is_blank(domain, now));
            if let (true, Some(fallback)) = (is_idle, fallback.as_mut()) {
                fallback.forget(domain);
            }
            !is_idle
        });
    }
}
