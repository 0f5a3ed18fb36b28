//! The turn of an identifier that stood in line for a host.

use grip_limits::Turn;
use grip_purgatory::SyncContext;
use grip_types::Identifier;

use super::{Next, Progress, sync_identifier_from_url, sync_identifier_next_url};
use crate::{engine::Engine, fetch::Fetch, task_permits::TaskPermit};

/// One turn of an identifier that stood in line for a host: asks one URL there.
///
/// It leaves this line alone: an attempt may have put the identifier into others since the look
/// that found nothing to ask, and what is complete leaves them in its turns, at no cost.
pub(crate) async fn process_queued_identifier<C: SyncContext, F: Fetch>(
    engine: &Engine<C, F>,
    mut turn: Turn<Identifier>,
    mut task: TaskPermit,
) {
    let (identifier, domain) = (turn.key().clone(), turn.domain().clone());
    let mut progress = Progress::having_tried(turn.tried().clone());
    let next = sync_identifier_next_url(engine, &identifier, Some(&domain), &progress).await;
    let Some(permit) = turn.take_permit() else {
        return;
    };
    let Next::Ask(target) = next else {
        permit.unused();
        return turn.done();
    };
    let url = target.url.clone();
    let asking = sync_identifier_from_url(engine, &identifier, &target, permit, &mut task);
    let brought = asking.await;
    // Without a word the turn goes back in line with nothing marked as tried.
    if brought.stopped || brought.resume {
        return;
    }
    progress.add(target, brought);
    match sync_identifier_next_url(engine, &identifier, Some(&domain), &progress).await {
        Next::Ask(_) => turn.tried_url(url),
        _ => turn.done(),
    }
}
