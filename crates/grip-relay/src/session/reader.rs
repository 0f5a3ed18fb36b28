//! Reading loop of a connection: frames parsed into messages, and messages handled.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream::SplitStream};
use tokio::{
    sync::{Semaphore, mpsc},
    time::{Instant, sleep_until},
};

use super::{Connection, Ending, events::Raw, requests::Requests};
use crate::{
    Frame, Limits,
    message::{self, Ended, Message, Refusal},
    rate_limits::Cost,
    reconcile::{Exchanges, Failure, Snapshot},
    relay::Shared,
    reply,
};

/// Longer messages are parsed off the runtime.
const INLINE_BYTES: usize = 64 << 10;

const BINARY: &str = "invalid: binary frames are not understood here; send text";

/// What only the reading loop knows of a connection.
struct Reader<'c> {
    connection: &'c Connection,
    events: mpsc::Sender<Raw>,
    /// Bytes of this connection's events in flight.
    in_flight: Arc<Semaphore>,
    requests: Requests<'c>,
    exchanges: Exchanges,
}

pub(super) async fn run<S, E>(
    connection: &Connection,
    mut stream: SplitStream<S>,
    events: mpsc::Sender<Raw>,
) -> Ending
where
    S: Stream<Item = Result<Frame, E>>,
{
    let stats = Arc::clone(&connection.shared.stats);
    let mut reader = Reader {
        connection,
        events,
        in_flight: Arc::new(Semaphore::new(connection.shared.limits.in_flight_bytes)),
        requests: Requests::new(connection),
        exchanges: Exchanges::new(stats),
    };
    loop {
        let frame = tokio::select! {
            frame = stream.next() => frame,
            () = reader.exchange_rested() => {
                reader.close_rested_exchanges().await;
                continue;
            }
        };
        let Some(Ok(frame)) = frame else {
            return Ending::Gone;
        };
        *connection.silent_since.lock() = None;
        match frame {
            Frame::Text(text) => reader.text(text).await,
            Frame::Binary => reader.notice(BINARY).await,
            Frame::Ping(_) | Frame::Pong(_) => {}
            Frame::TooLong => return Ending::TooLong,
            Frame::Close(..) => return Ending::Gone,
        }
        *connection.silent_since.lock() = Some(Instant::now());
    }
}

impl Reader<'_> {
    fn limits(&self) -> &Limits {
        &self.connection.shared.limits
    }

    fn allows(&self, cost: Cost) -> bool {
        let Connection { shared, rates, .. } = self.connection;
        rates.allows(cost, &shared.rates)
    }

    async fn send(&self, frame: Bytes) {
        self.connection.send_queue.send([frame]).await;
    }

    async fn notice(&self, text: &str) {
        self.send(reply::notice(text)).await;
    }

    async fn text(&mut self, text: Bytes) {
        let label = message::label(&text);
        self.connection
            .shared
            .stats
            .message(label.unwrap_or_default());
        let allowed = self.allows(Cost::Message);
        if label == Some("EVENT") {
            return self.event(text, allowed).await;
        }
        let most = self.limits().message_bytes;
        if text.len() > most {
            let refusal = format!("invalid: a message has at most {most} bytes");
            return self.notice(&refusal).await;
        }
        match parse(&self.connection.shared, text.clone()).await {
            Ok(Message::Event) => self.event(text, allowed).await,
            Ok(message) if allowed => self.handle(message).await,
            Ok(message) => self.too_many(message).await,
            Err(Refusal { frame, ends }) => {
                match ends {
                    Some(Ended::Subscription(sub)) => self.requests.close(&sub),
                    Some(Ended::Exchange(sub)) => self.exchanges.remove(&sub),
                    None => {}
                }
                self.send(frame).await;
            }
        }
    }

    /// Queues an event for its checks; waits when too much is in flight.
    async fn event(&mut self, text: Bytes, allowed: bool) {
        let limited = !allowed || !self.allows(Cost::Event);
        // One that is larger than the bound takes all of it, and comes alone.
        let Limits {
            in_flight_bytes,
            in_flight_bytes_total,
            ..
        } = *self.limits();
        let bytes = text.len().min(in_flight_bytes).min(in_flight_bytes_total);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let take = |bytes_left: &Arc<Semaphore>| Arc::clone(bytes_left).acquire_many_owned(bytes);
        let own = take(&self.in_flight).await.expect("never closed");
        let of_all = take(&self.connection.shared.in_flight).await;
        let raw = Raw {
            text,
            limited,
            permits: [own, of_all.expect("never closed")],
        };
        // The checking loop lives as long as this one.
        let _ = self.events.send(raw).await;
    }

    async fn handle(&mut self, message: Message) {
        match message {
            Message::Request { sub, filters } if self.allows(Cost::Request) => {
                self.requests.open(sub, filters).await;
            }
            Message::Count { sub, filters } if self.allows(Cost::Request) => {
                self.requests.count(sub, filters).await;
            }
            Message::ReconcileOpen { sub, filter, first } if self.allows(Cost::Request) => {
                self.exchanges.remove(&sub);
                let opened = self.open_exchange(&sub, filter, first).await;
                self.exchanged(sub, opened).await;
            }
            Message::Reconcile { sub, message } => {
                let answer = match self.exchanges.touch(&sub) {
                    Ok(snapshot) => self.answer(snapshot, message).await,
                    Err(unknown) => Err(unknown),
                };
                self.exchanged(sub, answer).await;
            }
            Message::ReconcileClose { sub } => self.exchanges.remove(&sub),
            Message::Close { sub } => self.requests.close(&sub),
            Message::Auth { id } => self.auth(id).await,
            Message::Request { .. } | Message::Count { .. } | Message::ReconcileOpen { .. } => {
                self.too_many(message).await;
            }
            Message::Event => unreachable!("events are checked elsewhere"),
        }
    }

    /// Refuses for the sake of the rate, in the way the message is answered; whatever frees
    /// something is done all the same.
    async fn too_many(&mut self, message: Message) {
        const TEXT: &str = "rate-limited: too many messages; slow down";
        match message {
            Message::Request { sub, .. } => {
                self.requests.close(&sub);
                self.send(reply::closed(&sub, TEXT)).await;
            }
            Message::Count { sub, .. } => self.send(reply::closed(&sub, TEXT)).await,
            Message::ReconcileOpen { sub, .. } | Message::Reconcile { sub, .. } => {
                self.exchanges.remove(&sub);
                self.send(reply::neg_err(&sub, TEXT)).await;
            }
            Message::ReconcileClose { sub } => self.exchanges.remove(&sub),
            Message::Close { sub } => self.requests.close(&sub),
            Message::Auth { .. } | Message::Event => self.notice(TEXT).await,
        }
    }

    async fn auth(&self, id: Option<String>) {
        const TEXT: &str = "error: authentication (NIP-42) is not offered here";
        match id {
            Some(id) => self.send(reply::ok(&id, false, TEXT)).await,
            None => self.notice(TEXT).await,
        }
    }

    async fn open_exchange(
        &mut self,
        sub: &str,
        filter: grip_nostr::Filter,
        first: Vec<u8>,
    ) -> Result<Vec<u8>, Failure> {
        if self.exchanges.len() >= self.limits().reconciliations {
            return Err(Failure::Busy);
        }
        let shared = Arc::clone(&self.connection.shared);
        let read = move || {
            let Shared { store, limits, .. } = &*shared;
            let snapshot = Snapshot::read(store, &filter, limits, &shared.reconciliations)?;
            let answer = snapshot.answer(&first, limits)?;
            Ok::<_, Failure>((Arc::new(snapshot), answer))
        };
        let done = self.connection.shared.scan(read).await;
        let (snapshot, answer) = done.ok_or(Failure::Failed)??;
        self.exchanges.insert(sub.to_owned(), snapshot);
        Ok(answer)
    }

    async fn answer(&self, snapshot: Arc<Snapshot>, message: Vec<u8>) -> Result<Vec<u8>, Failure> {
        let limits = *self.limits();
        let work = move || snapshot.answer(&message, &limits);
        let done = self.connection.shared.scan(work).await;
        done.ok_or(Failure::Failed)?
    }

    /// Sends the answer of an exchange, or its end.
    async fn exchanged(&mut self, sub: String, answer: Result<Vec<u8>, Failure>) {
        match answer {
            Ok(message) => self.send(reply::neg_msg(&sub, &message)).await,
            Err(failure) => {
                self.exchanges.remove(&sub);
                self.send(reply::neg_err(&sub, &failure.to_string())).await;
            }
        }
    }

    /// Waits until an exchange has rested for too long; for ever if there is none.
    async fn exchange_rested(&self) {
        match self.exchanges.next_idle(self.limits()) {
            Some(at) => sleep_until(at).await,
            None => std::future::pending().await,
        }
    }

    async fn close_rested_exchanges(&mut self) {
        let limits = *self.limits();
        for sub in self.exchanges.close_idle(&limits) {
            self.send(reply::neg_err(
                &sub,
                "closed: the exchange was idle for too long",
            ))
            .await;
        }
    }
}

async fn parse(shared: &Shared, text: Bytes) -> Result<Message, Refusal> {
    let limits = shared.limits;
    if text.len() <= INLINE_BYTES {
        return message::parse(&text, &limits);
    }
    let parsed = shared.checkers.run(move || message::parse(&text, &limits));
    parsed.await.expect("parsing does not panic")
}
