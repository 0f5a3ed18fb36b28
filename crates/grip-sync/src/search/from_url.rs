//! The request to one URL, and the release of what it brought.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use grip_egress::Shown;
use grip_limits::Permit;
use grip_purgatory::SyncContext;
use grip_types::Identifier;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::UrlOutcome;
use crate::{
    engine::Engine,
    fetch::{Fetch, FetchError, Fetched, Job},
    meter::Meter,
    plan::Target,
    task_permits::TaskPermit,
};

/// Asks one URL for what the events that list it lack, and releases what has its data then.
///
/// Gives up when the node stops, but never in the middle of a release.
pub(crate) async fn sync_identifier_from_url<C: SyncContext, F: Fetch>(
    engine: &Engine<C, F>,
    identifier: &Identifier,
    target: &Target,
    permit: Permit,
    task: &mut TaskPermit,
) -> UrlOutcome {
    let payers = target.payers();
    let payer = payers.first().copied().unwrap_or_default();
    let meter = Arc::new(Meter::new(payers, &engine.budget));
    let job = Job {
        identifier,
        url: &target.url,
        wants: &target.wants,
        first: &target.states,
        meter: &meter,
        disk_user: target.disk_user(),
    };
    tracing::debug!(%identifier, url = %Shown(&target.url), wants = target.wants.len(), "asking a URL");
    engine.memory.counters.requests.fetch_add(1, Relaxed);
    let began = Instant::now();
    let fetch = engine.fetch.fetch(job, permit);
    let fetch = engine.tasks.run(task, payer, &meter, fetch);
    let Some(result) = engine.stop.run_until_cancelled(fetch).await else {
        return UrlOutcome {
            stopped: true,
            ..UrlOutcome::default()
        };
    };
    let mut result = result.unwrap_or(Err(FetchError::GaveWay));
    if let Ok(fetched) = &mut result {
        fetched.arrived.retain(|oid| target.wants.contains(oid));
        fetched.resume = engine
            .memory
            .may_resume(identifier, &target.url, fetched.resume);
    }
    engine.note_result(identifier, &target.url, &result, began.elapsed());
    engine.pace(target, &result);
    match result {
        Ok(fetched) => arrived(engine, identifier, target, &fetched).await,
        Err(error) => {
            engine.memory.counters.failures.fetch_add(1, Relaxed);
            engine.log_failure(identifier, target, &error);
            if error.is_node_fault() {
                meter.give_back();
            }
            if let FetchError::Forbidden(forbidden) = &error {
                engine.forbid(identifier, &target.url, forbidden);
            }
            UrlOutcome {
                gave_way: matches!(error, FetchError::GaveWay),
                ..UrlOutcome::default()
            }
        }
    }
}

async fn arrived<C: SyncContext, F: Fetch>(
    engine: &Engine<C, F>,
    identifier: &Identifier,
    target: &Target,
    fetched: &Fetched,
) -> UrlOutcome {
    let (url, oids) = (Shown(&target.url), fetched.arrived.len());
    if oids == 0 {
        tracing::debug!(%identifier, %url, note = fetched.note, "remote returned none of the wanted objects");
    } else {
        engine
            .memory
            .counters
            .oids_fetched
            .fetch_add(oids as u64, Relaxed);
        let span = tracing::info_span!("fetched", from = %url);
        let released = release(engine, identifier).instrument(span).await;
        tracing::info!(%identifier, %url, oids, released, "fetched objects");
    }
    UrlOutcome {
        oids,
        resume: fetched.resume,
        ..UrlOutcome::default()
    }
}

pub(super) async fn release<C: SyncContext, F: Fetch>(
    engine: &Engine<C, F>,
    identifier: &Identifier,
) -> usize {
    let released = engine.context.process_newly_available_git_data(identifier);
    let released = released.await;
    engine
        .memory
        .counters
        .released
        .fetch_add(released as u64, Relaxed);
    released
}
