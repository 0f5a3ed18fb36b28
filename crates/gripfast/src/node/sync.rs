//! The search for missing git data, wired over the service.

mod report;

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context as _;
use grip_egress::Egress;
use grip_git::Repositories;
use grip_grasp::Grasp;
use grip_limits::Throttle;
use grip_resolve::Resolver;
use grip_sync::{GitFetch, GitOptions, Sync};
use grip_tasks::TaskGroup;
use grip_types::Service;
use grip_web::SyncHandle;

use self::report::Report;
use super::egress::egress_options;
use crate::config::Settings;

/// What sync stands on.
pub(super) struct Base<'a> {
    pub(super) grasp: &'a Grasp,
    /// Finds further hosts that may have what is missing.
    pub(super) resolver: &'a Resolver,
    pub(super) repositories: &'a Repositories,
    pub(super) service: &'a Service,
    /// Where we listen.
    pub(super) address: SocketAddr,
    /// Owns the search; it stops when no new work is taken on, and fetches under way are given up.
    pub(super) search: TaskGroup,
    pub(super) throttle: &'a Throttle,
}

/// Starts to look for what waits, unless that is switched off.
pub(super) fn start(settings: &Settings, base: Base<'_>) -> anyhow::Result<SyncHandle> {
    let sync = &settings.sync;
    if !sync.sync_enabled {
        tracing::info!("sync is switched off: nothing is fetched from elsewhere");
        return Ok(SyncHandle::off());
    }
    let throttle = base.throttle;
    let egress = Egress::new(
        egress_options(settings, base.service, base.address),
        throttle.clone(),
    )
    .context("cannot set up requests to other hosts")?;
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
        providers: Arc::new(base.resolver.clone()),
        fetch,
        throttle: throttle.clone(),
        options: grip_sync::Options {
            loop_interval: sync.sync_loop_interval_ms,
            max_tasks: sync.sync_max_tasks,
            ..grip_sync::Options::default()
        },
        group: base.search.clone(),
    });
    Ok(SyncHandle::new(Report::new(running, throttle.clone())))
}
