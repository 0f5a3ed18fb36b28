//! The condition of the node: what is served, waits and fails, and how full it is.

use std::collections::BTreeSet;

use grip_git::Disk;
use grip_index::Reader;
use grip_limits::BreakerState;
use http::StatusCode;

use super::{
    json,
    types::{DiskStatus, Failing, JobTotals, NodeStatus, StoreStatus, SyncSummary},
};
use crate::{
    RelayHealth,
    app::App,
    error::WebError,
    probes::Condition,
    request_context::{HttpResult, RequestContext},
    restricted,
};

/// Recent attempts that are looked through for those that failed.
const ATTEMPTS_LOOKED_AT: usize = 200;
/// Hosts and relays that are named each.
const MAX_NAMED: usize = 3;

/// The state of the node, on one screen.
pub(crate) async fn status(cx: &RequestContext<'_>) -> HttpResult {
    let (app, web) = (cx.app, &cx.app.web);
    // The figures of the pages: both count what lists show.
    let catalog = app.catalog.get(app).await?;
    // How large the machine is, is nobody else's business.
    let (disks, store) = if cx.is_operator() {
        let (disks, store) = places(app).await?;
        (disks, Some(store))
    } else {
        (Vec::new(), None)
    };
    let stats = web.grasp.stats();
    let held = stats.purgatory;
    let condition = Condition::of(&web.readiness, &web.sync, &web.grasp);
    let status = NodeStatus {
        version: web.build.version.to_owned(),
        commit: web.build.commit.map(str::to_owned),
        url: cx.settings.service.http_url(),
        uptime_seconds: app.started.elapsed().as_secs(),
        ready: condition.missing.is_empty(),
        missing: condition.missing,
        degraded: condition.degraded,
        repositories: catalog.len() as u64,
        events: catalog.events,
        relay_clients: web.relay.stats().connections.get(),
        pushes: stats.pushes as u64,
        waiting: (held.announcements + held.states + held.prs) as u64,
        wanted: held.wanted as u64,
        oldest_wait_seconds: stats.oldest_wait.map(|wait| wait.as_secs()),
        sync: sync(app, cx.is_operator()),
        jobs: jobs(app, restricted::reader(cx)).await,
        refused: stats
            .refused
            .into_iter()
            .map(|(cause, n)| (cause.to_owned(), n))
            .collect(),
        disks,
        store,
    };
    json(StatusCode::OK, &status)
}

async fn places(app: &App) -> Result<(Vec<DiskStatus>, StoreStatus), WebError> {
    let (repositories, store) = (app.web.repositories.clone(), app.web.store.clone());
    let look = move || (repositories.disks(), store.stats());
    let (disks, stats) = app.blocking("status", look).await?;
    let stats = stats.map_err(|e| WebError::internal("the event store cannot be read", e))?;
    let floor = app.web.repositories.options().min_free_bytes;
    let disk = |disk: Disk| DiskStatus {
        holds: disk.holds,
        free_bytes: disk.free_bytes,
        total_bytes: disk.total_bytes,
        floor_bytes: floor,
    };
    let store = StoreStatus {
        used_bytes: stats.used_bytes,
        limit_bytes: stats.map_bytes,
    };
    Ok((disks.into_iter().map(disk).collect(), store))
}

fn sync(app: &App, is_operator: bool) -> SyncSummary {
    let sync = &app.web.sync;
    let (relays, hosts) = (sync.relays(), sync.hosts());
    let is_failing = |health: RelayHealth| health != RelayHealth::Healthy;
    let fetches = failed_fetches(app);
    let fetches_failing = fetches.len() as u64;
    let failing = if is_operator {
        let relays = relays.iter().filter_map(|relay| {
            Some(Failing {
                url: relay.relay.to_string(),
                reason: relay.last_error.clone()?,
                next_step: relay.next_step.clone(),
            })
        });
        let fetches = fetches.into_iter().take(MAX_NAMED);
        fetches.chain(relays.take(MAX_NAMED)).collect()
    } else {
        Vec::new()
    };
    SyncSummary {
        fetches_failing,
        failing,
        enabled: sync.get().is_some(),
        queue_length: app.web.grasp.sync_queue_len() as u64,
        running: sync
            .get()
            .map_or(0, |report| report.totals().running as u64),
        relays: relays.len() as u64,
        relays_failing: relays.iter().filter(|r| is_failing(r.health)).count() as u64,
        hosts: hosts.len() as u64,
        hosts_failing: hosts
            .iter()
            .filter(|h| h.breaker != BreakerState::Closed)
            .count() as u64,
    }
}

/// The newest attempt for each repository that is waited for, where it failed.
fn failed_fetches(app: &App) -> Vec<Failing> {
    let sync = app.web.sync.get();
    let recent = sync.map(|report| report.recent(ATTEMPTS_LOOKED_AT));
    let mut seen = BTreeSet::new();
    let mut failed = Vec::new();
    for attempt in recent.unwrap_or_default() {
        // That a URL is left alone is a consequence, and has no next step.
        let is_attempt = attempt.is_success || !attempt.next_step.is_empty();
        if !is_attempt || !seen.insert(attempt.identifier.clone()) || attempt.is_success {
            continue;
        }
        if app.web.grasp.sync_entry(&attempt.identifier).is_some() {
            failed.push(Failing {
                url: attempt.url,
                reason: attempt.outcome,
                next_step: attempt.next_step,
            });
        }
    }
    failed
}

async fn jobs(app: &App, reader: Reader) -> JobTotals {
    app.samples.scraped().await;
    let sample = app.samples.look().for_reader(reader);
    JobTotals {
        due: sample.due().map(|(_, n)| n).sum(),
        dead: sample.dead().map(|(_, n)| n).sum(),
    }
}
