//! Asking one URL.

use std::sync::atomic::Ordering::Relaxed;

use grip_egress::Shown;
use grip_limits::Permit;
use grip_purgatory::SyncContext;
use grip_types::Identifier;
use tokio::time::Instant;

use super::Brought;
use crate::{
    engine::Engine,
    fetch::{Fetch, FetchError, Fetched, Job},
    plan::Target,
    slots::Slot,
};

/// Asks one URL for what the events that list it lack, and releases what has its data then.
///
/// Gives up when the node stops, but never in the middle of a release.
pub(crate) async fn sync_identifier_from_url<C: SyncContext, F: Fetch>(
    engine: &Engine<C, F>,
    identifier: &Identifier,
    target: &Target,
    permit: Permit,
    slot: &mut Slot,
) -> Brought {
    let job = Job {
        identifier,
        url: &target.url,
        wants: &target.wants,
        first: &target.states,
    };
    tracing::debug!(%identifier, url = %Shown(&target.url), wants = target.wants.len(), "asking");
    engine.board.counters.requests.fetch_add(1, Relaxed);
    let began = Instant::now();
    let fetch = engine
        .slots
        .patiently(slot, engine.fetch.fetch(job, permit));
    let Some(mut result) = engine.stop.run_until_cancelled(fetch).await else {
        return Brought {
            stopped: true,
            ..Brought::default()
        };
    };
    if let Ok(fetched) = &mut result {
        fetched.arrived.retain(|oid| target.wants.contains(oid));
        fetched.resume = engine
            .board
            .may_resume(identifier, &target.url, fetched.resume);
    }
    engine.note_result(identifier, &target.url, &result, began.elapsed());
    engine.pace(target, &result);
    match result {
        Ok(fetched) => arrived(engine, identifier, target, &fetched).await,
        Err(error) => {
            engine.board.counters.failures.fetch_add(1, Relaxed);
            engine.log_failure(identifier, target, &error);
            if let FetchError::Forbidden(forbidden) = &error {
                engine.forbid(identifier, &target.url, forbidden);
            }
            Brought::default()
        }
    }
}

async fn arrived<C: SyncContext, F: Fetch>(
    engine: &Engine<C, F>,
    identifier: &Identifier,
    target: &Target,
    fetched: &Fetched,
) -> Brought {
    let (url, oids) = (Shown(&target.url), fetched.arrived.len());
    if oids == 0 {
        tracing::debug!(%identifier, %url, note = fetched.note, "nothing came");
    } else {
        engine
            .board
            .counters
            .oids_fetched
            .fetch_add(oids as u64, Relaxed);
        let released = release(engine, identifier).await;
        tracing::info!(%identifier, %url, oids, released, "git data fetched");
    }
    Brought {
        oids,
        resume: fetched.resume,
        stopped: false,
    }
}

pub(super) async fn release<C: SyncContext, F: Fetch>(
    engine: &Engine<C, F>,
    identifier: &Identifier,
) -> usize {
    let released = engine.context.process_newly_available_git_data(identifier);
    let released = released.await;
    engine
        .board
        .counters
        .released
        .fetch_add(released as u64, Relaxed);
    released
}
