//! The way of events: checked off the runtime in batches, decided in arrival order.

use bytes::Bytes;
use grip_nostr::{Event, Timestamp};
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::Connection;
use crate::{
    Answer, Limits, Source,
    event::{self, Checked},
    reply,
};

/// So few small events are checked where they are: handing them over would cost as much.
const INLINE_EVENTS: usize = 1;
const INLINE_BYTES: usize = 16 << 10;
/// From here on a batch is worth several cores.
const PARALLEL_EVENTS: usize = 4;

/// An EVENT message as it came.
pub(super) struct Raw {
    pub(super) text: Bytes,
    /// It came too soon after others.
    pub(super) limited: bool,
    /// Its share of the bytes in flight, of this connection and of all.
    pub(super) _room: [OwnedSemaphorePermit; 2],
}

/// Checked events with the room they take until they are answered.
pub(super) struct Batch {
    events: Vec<Checked>,
    _room: Vec<Raw>,
}

/// Checks what is ready together as one batch.
pub(super) async fn check(
    connection: &Connection,
    mut raw: mpsc::Receiver<Raw>,
    checked: mpsc::Sender<Batch>,
) {
    let limits = connection.shared.limits;
    let mut ready = Vec::new();
    while raw.recv_many(&mut ready, limits.in_flight_events).await > 0 {
        let batch = check_all(std::mem::take(&mut ready), limits).await;
        if checked.send(batch).await.is_err() {
            return;
        }
    }
}

async fn check_all(raw: Vec<Raw>, limits: Limits) -> Batch {
    let bytes: usize = raw.iter().map(|raw| raw.text.len()).sum();
    if raw.len() <= INLINE_EVENTS && bytes <= INLINE_BYTES {
        return check_here(raw, &limits);
    }
    let (reply, batch) = oneshot::channel();
    rayon::spawn(move || drop(reply.send(check_here(raw, &limits))));
    batch.await.expect("checking an event does not panic")
}

fn check_here(mut raw: Vec<Raw>, limits: &Limits) -> Batch {
    let now = Timestamp::now();
    let one = |raw: &Raw| match raw.limited {
        true => event::unreadable(
            &raw.text,
            "rate-limited: slow down and send it again".into(),
        ),
        false => event::check(&raw.text, limits, now),
    };
    let events = match raw.len() {
        PARALLEL_EVENTS.. => raw.par_iter().map(one).collect(),
        _ => raw.iter().map(one).collect(),
    };
    raw.iter_mut().for_each(|raw| raw.text = Bytes::new());
    Batch { events, _room: raw }
}

/// Has checked events decided, in their order: runs of ordinary ones by the writer in one go,
/// deferred ones by the policy one after the other.
pub(super) async fn write(connection: &Connection, mut checked: mpsc::Receiver<Batch>) {
    while let Some(batch) = checked.recv().await {
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
                    connection.outbox.send([ok]).await;
                }
                Checked::Unreadable(text) => {
                    connection.outbox.send([reply::notice(&text)]).await;
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
    connection.outbox.send(oks).await;
}

/// In a task of its own, because it must not be left half done when the client goes away.
async fn settle(connection: &Connection, event: Event) {
    let id = event.id.to_hex();
    let shared = &connection.shared;
    let turns = Arc::clone(&shared.settling);
    let turn = turns.acquire_owned().await.expect("never closed");
    let policy = Arc::clone(&connection.policy);
    let settled = shared.group.spawn("relay-settle", async move {
        let _turn = turn;
        policy.settle(event, Source::Submitted).await
    });
    let answer = settled.await.unwrap_or_else(|_| {
        Answer::refused("error: this event could not be settled; try again later")
    });
    shared.stats.answered(&answer);
    let ok = reply::ok(&id, answer.accepted, &answer.message);
    connection.outbox.send([ok]).await;
}
