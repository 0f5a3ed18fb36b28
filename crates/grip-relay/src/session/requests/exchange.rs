//! Exchanges of NIP-77: opened over what is stored, and answered message by message.

use std::sync::Arc;

use grip_nostr::Filter;
use grip_store::Query;

use super::{Connection, Scan, ScanError};
use crate::{
    reconcile::{Collected, Failure, Snapshot},
    reply,
};

/// Quotes, brackets and the label of a message, and an id of the longest sort.
const FRAME_BYTES: usize = 2 << 10;

impl From<ScanError> for Failure {
    fn from(error: ScanError) -> Self {
        match error {
            ScanError::TooLong => Self::TooLong,
            ScanError::Store(error) => Self::Store(error),
        }
    }
}

pub(super) async fn open(
    connection: &Connection,
    sub: &str,
    filter: Filter,
    first: Vec<u8>,
) -> Result<(), Failure> {
    let Connection {
        shared, requests, ..
    } = connection;
    let limits = &shared.limits;
    let open = { requests.state.lock().exchanges.len() };
    if open >= limits.reconciliations {
        return Err(Failure::Busy);
    }
    let mut scan = Scan::new(connection, Query::of_set(filter));
    let mut collected = Collected::new(shared.records.holder(connection.network));
    loop {
        let (so_far, is_done) = scan
            .slice(collected, |collected, found| {
                collected.push(found.item());
                Ok(true)
            })
            .await?;
        collected = so_far;
        collected.hold(limits)?;
        if is_done {
            break;
        }
    }
    let sealing = shared.readers.run(connection.network, || collected.seal());
    let snapshot = Arc::new(sealing.await.ok_or(Failure::Failed)?);
    requests.opened(sub, Arc::clone(&snapshot));
    answer(connection, sub, snapshot, first).await
}

pub(super) async fn answer(
    connection: &Connection,
    sub: &str,
    snapshot: Arc<Snapshot>,
    message: Vec<u8>,
) -> Result<(), Failure> {
    let Connection {
        shared, send_queue, ..
    } = connection;
    let most = shared.limits.reconciliation_frame_bytes;
    // Two hex digits a byte. An answer may be cut anywhere, so it is as long as there is room.
    let room = send_queue.reserve(2 * most + FRAME_BYTES).await;
    let frame_bytes = most.min((room.bytes() - FRAME_BYTES) / 2);
    let work = move || snapshot.answer(&message, frame_bytes);
    let answer = shared.readers.run(connection.network, work).await;
    room.send([reply::neg_msg(sub, &answer.ok_or(Failure::Failed)??)]);
    Ok(())
}
