//! The attempt of an identifier that is due.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use grip_limits::Lane;
use grip_purgatory::SyncContext;
use grip_types::Identifier;
use tokio::time::Instant;

use super::{
    Next, Progress, SearchOutcome, ThrottledDomain, from_url::release, next_url::look_further,
    sync_identifier_from_url, sync_identifier_next_url,
};
use crate::{engine::Engine, fetch::Fetch, task_permits::TaskPermit};

/// How long an attempt may go on while others wait for their own: with a thousand URLs that each
/// take a moment it would last for hours.
const SLICE: Duration = Duration::from_secs(10);

/// One attempt: asks every URL whose host has capacity until nothing is missing, and puts the
/// identifier in line for the hosts that have none. One that takes long gives way to others that
/// are due, and goes on after them where it was.
///
/// A URL whose response says how to ask it better is asked again in the same attempt, each time
/// with a permit of its own; without one the identifier stands in line for it like any other.
pub(crate) async fn sync_identifier<C: SyncContext, F: Fetch>(
    engine: &Engine<C, F>,
    identifier: &Identifier,
    task: &mut TaskPermit,
) -> SearchOutcome {
    engine.memory.counters.attempts.fetch_add(1, Relaxed);
    let mut progress = Progress::continuing(engine.memory.take_paused(identifier));
    let began = Instant::now();
    // A new event brings an attempt forward as well, but resets the count.
    progress.insists = engine.memory.is_brought_forward(identifier, began)
        && engine.context.attempt_count(identifier) > 0;
    while !engine.stop.is_cancelled() {
        let target = match sync_identifier_next_url(engine, identifier, None, &progress).await {
            Next::Ask(_) if must_give_way(engine, began) => {
                return pause(engine, identifier, progress);
            }
            Next::Ask(target) => target,
            Next::Complete => return complete(engine, identifier, &progress).await,
            Next::Nobody { throttled } => {
                // Before anything else is waited for: a host may have capacity by now.
                join_lines(engine, identifier, throttled);
                if progress.may_look_further() && look_further(engine, identifier).await {
                    continue;
                }
                return SearchOutcome::Incomplete;
            }
        };
        match engine.throttle.acquire(&target.domain, Lane::Git).await {
            Ok(permit) => {
                // On the heap, so that the many attempts that ask nobody stay small.
                let asking = sync_identifier_from_url(engine, identifier, &target, permit, task);
                let brought = Box::pin(asking).await;
                if brought.gave_way {
                    return SearchOutcome::Incomplete;
                }
                progress.add(target, brought);
            }
            Err(refused) => {
                tracing::debug!(%identifier, %refused, "the host is at its limits");
                progress.refused.insert(target.domain);
            }
        }
    }
    SearchOutcome::Stopped
}

async fn complete<C: SyncContext, F: Fetch>(
    engine: &Engine<C, F>,
    identifier: &Identifier,
    progress: &Progress,
) -> SearchOutcome {
    engine.queues.remove(identifier);
    // The data can be here while its event still waits: the node may have died between the two.
    if progress.fetched == 0 && engine.context.has_pending_events(identifier) {
        release(engine, identifier).await;
    }
    if progress.fetched > 0 {
        tracing::info!(%identifier, oids = progress.fetched, "fetched all missing objects");
    } else {
        tracing::debug!(%identifier, "no object is missing");
    }
    SearchOutcome::Complete
}

/// Puts the identifier in line for hosts that were skipped.
fn join_lines<C: SyncContext, F: Fetch>(
    engine: &Engine<C, F>,
    identifier: &Identifier,
    throttled: Vec<ThrottledDomain>,
) {
    for ThrottledDomain {
        domain,
        tried,
        owners,
    } in throttled
    {
        let queued = engine
            .queues
            .enqueue(&domain, identifier.clone(), &owners, tried);
        match queued {
            Ok(()) => tracing::debug!(%identifier, %domain, "queued for a host at its limits"),
            // It comes back with the next attempt.
            Err(full) => {
                tracing::debug!(%identifier, %domain, %full, "the queue of the host is full");
            }
        }
    }
}

fn must_give_way<C: SyncContext, F: Fetch>(engine: &Engine<C, F>, began: Instant) -> bool {
    let is_due = || {
        let due = engine.context.next_sync();
        due.is_some_and(|due| due <= engine.context.now())
    };
    began.elapsed() >= SLICE && engine.tasks.is_full() && is_due()
}

fn pause<C: SyncContext, F: Fetch>(
    engine: &Engine<C, F>,
    identifier: &Identifier,
    progress: Progress,
) -> SearchOutcome {
    engine
        .memory
        .pause_attempt(identifier, progress.into_requested());
    SearchOutcome::Resume
}
