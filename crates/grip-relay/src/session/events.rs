//! EVENT messages of a connection: checked off the runtime in batches, decided in arrival order.

use bytes::Bytes;
use futures_util::{StreamExt as _, stream::FuturesOrdered};
use grip_nostr::{Event, Timestamp};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tracing::Instrument as _;

use super::Connection;
use crate::{
    Answer, Limits,
    access::Login,
    admit::{self, TakenBytes},
    event::{self, Checked},
    in_flight::InFlightPermit,
    reply,
};

/// So few small events are checked where they are: handing them over would cost as much.
const INLINE_EVENTS: usize = 1;
const INLINE_BYTES: usize = 16 << 10;
/// Most events that one connection has the writer decide at once, so that others have their turn.
const RUN_EVENTS: usize = 256;
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

type Permits = (OwnedSemaphorePermit, InFlightPermit);

/// Checked events with their permits, which are held until they are decided: whether their sender
/// reads the answers plays no part.
pub(super) type Batch = Vec<(Checked, Permits)>;

/// Checks what is ready together as one batch.
pub(super) async fn check(
    connection: &Connection,
    mut raw: mpsc::Receiver<Raw>,
    checked: mpsc::Sender<Batch>,
) {
    let most = connection.shared.limits.in_flight_events;
    let mut ready = Vec::new();
    while raw.recv_many(&mut ready, most).await > 0 {
        let batch = check_all(connection, std::mem::take(&mut ready)).await;
        if checked.send(batch).await.is_err() {
            return;
        }
    }
}

async fn check_all(connection: &Connection, mut raw: Vec<Raw>) -> Batch {
    let Connection {
        shared, network, ..
    } = connection;
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
        let check = move || check_here(part, &limits);
        parts.push_back(shared.checkers.run(*network, check));
    }
    let mut whole = Batch::new();
    while let Some(part) = parts.next().await {
        whole.extend(part.expect("checking an event does not panic"));
    }
    whole
}

fn check_here(raw: Vec<Raw>, limits: &Limits) -> Batch {
    let now = Timestamp::now();
    let one = |raw: Raw| {
        let checked = if raw.limited {
            let answer = "rate-limited: slow down and send it again";
            event::unreadable(&raw.text, answer.into())
        } else {
            event::check(&raw.text, limits, now)
        };
        (checked, raw.permits)
    };
    raw.into_iter().map(one).collect()
}

/// Has checked events decided, in their order: runs of ordinary ones by the writer in one go,
/// deferred ones by the policy one after the other.
pub(super) async fn write(connection: &Connection, mut checked: mpsc::Receiver<Batch>) {
    while let Some(mut batch) = checked.recv().await {
        // What was checked during the last commit goes into the next.
        while let Ok(more) = checked.try_recv() {
            batch.extend(more);
        }
        let mut run = Run::default();
        for (event, permits) in batch {
            let (event, taken) = within_share(connection, from_author(connection, event));
            match event {
                Checked::Event(event) if connection.policy.defers(&event) => {
                    judge(connection, std::mem::take(&mut run)).await;
                    settle(connection, event, taken).await;
                }
                Checked::Event(event) => {
                    run.events.push(event);
                    run.taken.push(taken);
                    run.permits.push(permits);
                }
                Checked::Refused { id, answer, event } => {
                    if let Some(event) = event {
                        connection.policy.noted(&event, &answer);
                    }
                    connection.shared.stats.answered(&answer);
                    let ok = reply::ok(&id, answer.accepted, &answer.message);
                    connection.send_queue.answer([ok]);
                }
                Checked::Unreadable(text) => connection.send_queue.answer([reply::notice(&text)]),
            }
            if run.events.len() == RUN_EVENTS {
                judge(connection, std::mem::take(&mut run)).await;
            }
        }
        judge(connection, run).await;
    }
}

/// Refuses a protected event (NIP-70, E-9) of anybody who has not shown its author's key.
fn from_author(connection: &Connection, checked: Checked) -> Checked {
    let event = match checked {
        Checked::Event(event) if event.is_protected() => event,
        other => return other,
    };
    let sender = connection.login.as_ref().and_then(Login::member);
    if sender == Some(event.pubkey) {
        return Checked::Event(event);
    }
    let text = "blocked: a protected event (NIP-70) is taken from its authenticated author alone";
    Checked::Refused {
        id: event.id.to_hex(),
        answer: Answer::refused(text),
        event: Some(Box::new(event)),
    }
}

/// Takes the bytes of an event of its network's; refuses it if they are too many of its kind of events.
fn within_share(connection: &Connection, checked: Checked) -> (Checked, Option<TakenBytes>) {
    let Checked::Event(event) = checked else {
        return (checked, None);
    };
    let Connection {
        shared,
        source,
        policy,
        ..
    } = connection;
    match admit::take_share(shared, policy.as_ref(), *source, &event) {
        Ok(taken) => (Checked::Event(event), taken),
        Err(answer) => {
            let refused = Checked::Refused {
                id: event.id.to_hex(),
                answer,
                event: Some(Box::new(event)),
            };
            (refused, None)
        }
    }
}

/// Events that go to the writer together.
#[derive(Default)]
struct Run {
    events: Vec<Event>,
    taken: Vec<Option<TakenBytes>>,
    permits: Vec<Permits>,
}

async fn judge(connection: &Connection, run: Run) {
    if run.events.is_empty() {
        return;
    }
    let ids: Vec<String> = run.events.iter().map(|event| event.id.to_hex()).collect();
    let (shared, policy) = (&connection.shared, &connection.policy);
    let answers = admit::judge(shared, policy, run.events, run.taken, connection.source).await;
    let oks = ids.iter().zip(&answers);
    let oks = oks.map(|(id, answer)| reply::ok(id, answer.accepted, &answer.message));
    connection.send_queue.answer(oks);
}

async fn settle(connection: &Connection, event: Event, taken: Option<TakenBytes>) {
    let id = event.id.to_hex();
    let (shared, policy) = (&connection.shared, &connection.policy);
    let settling = admit::settle(shared, policy, event, taken, connection.source);
    let span = tracing::info_span!("client", from = %connection.ip);
    let answer = settling.instrument(span).await;
    let ok = reply::ok(&id, answer.accepted, &answer.message);
    connection.send_queue.answer([ok]);
}
