//! EVENT messages of a connection: checked off the runtime in batches, decided in arrival order.

use bytes::Bytes;
use futures_util::{StreamExt as _, stream::FuturesOrdered};
use grip_nostr::{Event, Timestamp};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::Connection;
use crate::{
    Answer, Limits,
    event::{self, Checked},
    relay::Shared,
    reply,
};

/// So few small events are checked where they are: handing them over would cost as much.
const INLINE_EVENTS: usize = 1;
const INLINE_BYTES: usize = 16 << 10;
/// Fewer events are not worth a core of their own.
const SHARE_EVENTS: usize = 4;

/// An EVENT message as it came.
pub(super) struct Raw {
    pub(super) text: Bytes,
    /// It came too soon after others.
    pub(super) limited: bool,
    /// For its bytes in flight, of this connection and of all.
    pub(super) permits: Permits,
}

type Permits = [OwnedSemaphorePermit; 2];

/// Checked events with their permits, which are held until they are answered.
#[derive(Default)]
pub(super) struct Batch {
    events: Vec<Checked>,
    permits: Vec<Permits>,
}

impl Batch {
    fn extend(&mut self, more: Self) {
        self.events.extend(more.events);
        self.permits.extend(more.permits);
    }
}

/// Checks what is ready together as one batch.
pub(super) async fn check(
    connection: &Connection,
    mut raw: mpsc::Receiver<Raw>,
    checked: mpsc::Sender<Batch>,
) {
    let most = connection.shared.limits.in_flight_events;
    let mut ready = Vec::new();
    while raw.recv_many(&mut ready, most).await > 0 {
        let batch = check_all(&connection.shared, std::mem::take(&mut ready)).await;
        if checked.send(batch).await.is_err() {
            return;
        }
    }
}

async fn check_all(shared: &Shared, mut raw: Vec<Raw>) -> Batch {
    let limits = shared.limits;
    let bytes: usize = raw.iter().map(|raw| raw.text.len()).sum();
    if raw.len() <= INLINE_EVENTS && bytes <= INLINE_BYTES {
        return check_here(raw, &limits);
    }
    let each = raw
        .len()
        .div_ceil(shared.checkers.count())
        .max(SHARE_EVENTS);
    let mut parts = FuturesOrdered::new();
    while !raw.is_empty() {
        let part: Vec<Raw> = raw.drain(..each.min(raw.len())).collect();
        parts.push_back(shared.checkers.run(move || check_here(part, &limits)));
    }
    let mut whole = Batch::default();
    while let Some(part) = parts.next().await {
        whole.extend(part.expect("checking an event does not panic"));
    }
    whole
}

fn check_here(raw: Vec<Raw>, limits: &Limits) -> Batch {
    let now = Timestamp::now();
    let one = |raw: &Raw| {
        if raw.limited {
            let answer = "rate-limited: slow down and send it again";
            event::unreadable(&raw.text, answer.into())
        } else {
            event::check(&raw.text, limits, now)
        }
    };
    let events = raw.iter().map(one).collect();
    let permits = raw.into_iter().map(|raw| raw.permits).collect();
    Batch { events, permits }
}

/// Has checked events decided, in their order: runs of ordinary ones by the writer in one go,
/// deferred ones by the policy one after the other.
pub(super) async fn write(connection: &Connection, mut checked: mpsc::Receiver<Batch>) {
    while let Some(mut batch) = checked.recv().await {
        // What was checked during the last commit goes into the next.
        while let Ok(more) = checked.try_recv() {
            batch.extend(more);
        }
        let _until_answered = batch.permits;
        let mut run = Vec::new();
        for event in batch.events {
            match event {
                Checked::Event(event) if connection.policy.defers(&event) => {
                    judge(connection, std::mem::take(&mut run)).await;
                    settle(connection, event).await;
                }
                Checked::Event(event) => run.push(event),
                Checked::Refused { id, answer, event } => {
                    if let Some(event) = event {
                        connection.policy.noted(&event, &answer);
                    }
                    connection.shared.stats.answered(&answer);
                    let ok = reply::ok(&id, answer.accepted, &answer.message);
                    connection.send_queue.send([ok]).await;
                }
                Checked::Unreadable(text) => {
                    connection.send_queue.send([reply::notice(&text)]).await;
                }
            }
        }
        judge(connection, run).await;
    }
}

async fn judge(connection: &Connection, run: Vec<Event>) {
    if run.is_empty() {
        return;
    }
    let ids: Vec<String> = run.iter().map(|event| event.id.to_hex()).collect();
    let policy = Arc::clone(&connection.policy);
    let answers = match connection.shared.writer.judge(run, policy).await {
        Ok(answers) => answers,
        Err(error) => vec![Answer::refused(format!("error: {error}")); ids.len()],
    };
    let stats = &connection.shared.stats;
    let oks = ids.iter().zip(&answers).map(|(id, answer)| {
        stats.answered(answer);
        reply::ok(id, answer.accepted, &answer.message)
    });
    let oks: Vec<Bytes> = oks.collect();
    connection.send_queue.send(oks).await;
}

/// In a task of its own, because it must not be left half done when the client goes away.
async fn settle(connection: &Connection, event: Event) {
    let id = event.id.to_hex();
    let shared = &connection.shared;
    let turns = Arc::clone(&shared.settling);
    let turn = turns.acquire_owned().await.expect("never closed");
    let policy = Arc::clone(&connection.policy);
    let source = connection.source;
    let settled = shared.group.spawn("relay-settle", async move {
        let _turn = turn;
        policy.process_deferred(event, source).await
    });
    let answer = settled.await.unwrap_or_else(|_| {
        Answer::refused("error: this event could not be settled; try again later")
    });
    shared.stats.answered(&answer);
    let ok = reply::ok(&id, answer.accepted, &answer.message);
    connection.send_queue.send([ok]).await;
}
