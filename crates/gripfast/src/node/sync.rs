//! The search for missing git data, wired over the service.

use std::{sync::Arc, time::Duration};

use anyhow::Context as _;
use grip_limits::Throttle;
use grip_resolve::Resolver;
use grip_sync::{GitFetch, GitOptions, Sync};
use grip_types::Identifier;
use grip_web::{Backend, HostBudget, SyncHandle, SyncReport, SyncTotals, UrlAttempt};

use super::base::Base;

/// Starts to look for what waits, unless that is switched off. The resolver finds further hosts that
/// may have what is missing.
pub(super) fn start(base: &Base<'_>, resolver: &Resolver) -> anyhow::Result<SyncHandle> {
    let (sync, throttle) = (&base.settings.sync, base.throttle);
    if !sync.sync_enabled {
        tracing::info!("sync is switched off: nothing is fetched from elsewhere");
        return Ok(SyncHandle::off());
    }
    let egress = base.egress(Vec::new());
    let egress = egress.context("cannot set up requests to other hosts")?;
    let fetch = GitFetch::new(
        egress,
        base.repositories.clone(),
        GitOptions {
            max_pack_bytes: sync.sync_max_pack_bytes,
            min_free_bytes: sync.sync_min_free_bytes,
            // The silence of a host is noticed below first, which knows whose it is.
            stall: sync.sync_idle_timeout.saturating_mul(2),
            ..GitOptions::default()
        },
    );
    let running = Sync::start(grip_sync::Parts {
        context: base.grasp.clone(),
        providers: Arc::new(resolver.clone()),
        fetch,
        throttle: throttle.clone(),
        options: grip_sync::Options {
            loop_interval: Duration::from_millis(sync.sync_loop_interval_ms),
            max_tasks: sync.sync_max_tasks,
            ..grip_sync::Options::default()
        },
        group: base.front.child("sync"),
    });
    Ok(SyncHandle::new(Report {
        sync: running,
        throttle: throttle.clone(),
    }))
}

/// The running sync, as the edge sees it.
struct Report {
    sync: Sync,
    throttle: Throttle,
}

impl SyncReport for Report {
    fn totals(&self) -> SyncTotals {
        let status = self.sync.status();
        SyncTotals {
            running: status.running,
            attempts_total: status.attempts_total,
            requests_total: status.requests_total,
            oids_fetched_total: status.oids_fetched_total,
        }
    }

    fn tried(&self, identifier: &Identifier) -> Vec<UrlAttempt> {
        self.sync.attempts_of(identifier)
    }

    fn recent(&self, limit: usize) -> Vec<UrlAttempt> {
        self.sync.recent_attempts(limit)
    }

    fn hosts(&self) -> Vec<HostBudget> {
        let hosts = self.throttle.hosts().into_iter();
        hosts.map(HostBudget::from).collect()
    }

    fn backend(&self) -> Backend {
        self.throttle.backend().into()
    }
}
