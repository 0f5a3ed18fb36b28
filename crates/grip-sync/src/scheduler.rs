//! The two loops: identifiers that are due, and identifiers whose host has capacity again.
//!
//! Invariant: nothing is polled. The first sleeps until the earliest identifier is due or the
//! queue changes, however many wait; the second until a host has capacity for somebody.

use std::{future::pending, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures_util::FutureExt;
use grip_purgatory::{AttemptEnd, NextSync, SyncContext};
use grip_tasks::{TaskGroup, fault};
use grip_types::Identifier;
use tokio::{
    select,
    sync::watch,
    time::{Instant, sleep},
};

use crate::{
    engine::Engine,
    fetch::Fetch,
    search::{SearchOutcome, process_queued_identifier, sync_identifier},
    search_memory::Gauge,
    task_permits::TaskPermit,
};

/// From so many intervals before the earliest is due, no sleep is longer than the interval: the
/// clock of the wall may be set meanwhile.
const NEAR: u32 = 10;
/// Longest sleep while anything waits, for the same reason.
const LONGEST: Duration = Duration::from_secs(60);

/// Starts attempts as identifiers become due, until the group stops.
pub(crate) async fn start_attempts<C: SyncContext, F: Fetch>(
    engine: Arc<Engine<C, F>>,
    group: TaskGroup,
) {
    let stop = engine.stop.clone();
    let starting = async {
        let mut changes = engine.context.sync_changes();
        loop {
            let task = engine.tasks.attempt().await;
            if fault::fails("sync.attempts") {
                pending::<()>().await;
            }
            // Before looking, so that no change falls in between.
            changes.borrow_and_update();
            let rest = match engine.context.begin_sync() {
                NextSync::Due(identifier) => {
                    group.spawn("attempt", attempt(Arc::clone(&engine), identifier, task));
                    continue;
                }
                NextSync::In(left) => Some(sleep_for(left, engine.options.loop_interval)),
                NextSync::Nothing => None,
            };
            drop(task);
            nap(&mut changes, rest).await;
        }
    };
    stop.run_until_cancelled(starting).await;
}

/// Starts turns as hosts have capacity for those who stand in line, until the group stops.
pub(crate) async fn start_turns<C: SyncContext, F: Fetch>(
    engine: Arc<Engine<C, F>>,
    group: TaskGroup,
) {
    let stop = engine.stop.clone();
    let starting = async {
        loop {
            let task = engine.tasks.turn().await;
            let turn = engine.queues.next().await;
            let engine = Arc::clone(&engine);
            group.spawn("turn", async move {
                let _running = Gauge::up(&engine.memory.counters.running);
                process_queued_identifier(&engine, turn, task).await;
            });
        }
    };
    stop.run_until_cancelled(starting).await;
}

/// Makes an attempt and says how it ended, even if it panics: an identifier that nobody ends
/// would never be tried again.
async fn attempt<C: SyncContext, F: Fetch>(
    engine: Arc<Engine<C, F>>,
    identifier: Identifier,
    mut task: TaskPermit,
) {
    let _running = Gauge::up(&engine.memory.counters.running);
    let trying = AssertUnwindSafe(sync_identifier(&engine, &identifier, &mut task));
    let ended = trying.catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!(%identifier, "an attempt panicked");
        SearchOutcome::Incomplete
    });
    let after = match ended {
        SearchOutcome::Complete => AttemptEnd::Complete,
        SearchOutcome::Resume | SearchOutcome::Stopped => AttemptEnd::Resume(Duration::ZERO),
        SearchOutcome::Incomplete => {
            let count = engine.context.attempt_count(&identifier).saturating_add(1);
            let delay = engine.options.backoff.delay(count);
            engine
                .memory
                .will_be_due(&identifier, Instant::now() + delay);
            AttemptEnd::Retry(delay)
        }
    };
    tracing::debug!(%identifier, ?after, "an attempt ended");
    // Still in its task: the journal is not to be flooded by attempts that end in a moment.
    engine.context.finish_sync(&identifier, after).await;
    drop(task);
}

/// Sleeps that long, or for ever, or until something changes.
async fn nap(changes: &mut watch::Receiver<u64>, rest: Option<Duration>) {
    let changed = async {
        if changes.changed().await.is_err() {
            pending::<()>().await;
        }
    };
    let slept = async {
        match rest {
            Some(rest) => sleep(rest).await,
            None => pending().await,
        }
    };
    select! {
        () = changed => {}
        () = slept => {}
    }
}

fn sleep_for(left: Duration, interval: Duration) -> Duration {
    let interval = interval.max(Duration::from_millis(1));
    let near = interval.saturating_mul(NEAR);
    match left.checked_sub(near) {
        None | Some(Duration::ZERO) => left.min(interval),
        Some(far) => far.min(LONGEST),
    }
}

#[cfg(test)]
mod tests;
