//! Reading loop of a connection: frames parsed into messages, and messages handled.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream::SplitStream};
use tokio::{
    sync::{Semaphore, mpsc},
    time::Instant,
};

use super::{Connection, Ending, events::Raw, requests::Request};
use crate::{
    Frame, Limits,
    message::{self, Ended, Message, Refusal},
    quota::Held,
    rate_limits::Cost,
    reply,
};

/// What every connection may have received of a message, whatever its network has.
const OWN_BYTES: usize = 64 << 10;

/// Longer messages are parsed off the runtime.
const INLINE_BYTES: usize = 64 << 10;

const BINARY: &str = "invalid: binary frames are not understood here; send text";

/// What only the reading loop knows of a connection.
struct Reader<'c> {
    connection: &'c Connection,
    events: mpsc::Sender<Raw>,
    /// Bytes of this connection's events in flight.
    in_flight: Arc<Semaphore>,
    /// Quota for the message that is being received.
    received: Held,
}

pub(super) async fn run<S, E>(
    connection: &Connection,
    mut stream: SplitStream<S>,
    events: mpsc::Sender<Raw>,
) -> Ending
where
    S: Stream<Item = Result<Frame, E>>,
{
    let memory = &connection.shared.memory;
    let mut reader = Reader {
        connection,
        events,
        in_flight: Arc::new(Semaphore::new(connection.shared.limits.in_flight_bytes)),
        received: memory.holder(connection.network),
    };
    while let Some(Ok(frame)) = stream.next().await {
        *connection.silent_since.lock() = None;
        match frame {
            Frame::Text(text) => reader.text(text).await,
            Frame::Binary => reader.binary().await,
            Frame::Partial(bytes) => {
                if !reader.received.resize(bytes.saturating_sub(OWN_BYTES)) {
                    return Ending::Crowded;
                }
            }
            Frame::Ping(_) | Frame::Pong(_) => {}
            Frame::TooLong => return Ending::TooLong,
            Frame::Close(..) => return Ending::Gone,
        }
        *connection.silent_since.lock() = Some(Instant::now());
    }
    Ending::Gone
}

impl Reader<'_> {
    fn limits(&self) -> &Limits {
        &self.connection.shared.limits
    }

    fn allows(&self, cost: Cost) -> bool {
        let Connection { shared, rates, .. } = self.connection;
        rates.allows(cost, &shared.rates)
    }

    fn send(&self, frame: Bytes) {
        self.connection.send_queue.answer([frame]);
    }

    fn notice(&self, text: &str) {
        self.send(reply::notice(text));
    }

    async fn binary(&mut self) {
        self.connection.send_queue.has_room().await;
        self.notice(BINARY);
        self.received.resize(0);
    }

    async fn text(&mut self, text: Bytes) {
        // Who does not read its answers is not read from.
        self.connection.send_queue.has_room().await;
        let label = message::label(&text);
        let stats = &self.connection.shared.stats;
        stats.message(label.unwrap_or_default());
        let allowed = self.allows(Cost::Message);
        if label == Some("EVENT") {
            self.event(text, allowed).await;
        } else {
            self.other(text, allowed).await;
        }
        self.received.resize(0);
    }

    async fn other(&mut self, text: Bytes, allowed: bool) {
        let most = self.limits().message_bytes;
        if text.len() > most {
            let refusal = format!("invalid: a message has at most {most} bytes");
            return self.notice(&refusal);
        }
        match parse(self.connection, text.clone()).await {
            Ok(Message::Event) => self.event(text, allowed).await,
            Ok(message) if allowed => self.handle(message).await,
            Ok(message) => self.too_many(message),
            Err(Refusal { frame, ends }) => {
                match ends {
                    Some(Ended::Subscription(sub)) => {
                        self.connection.requests.close_subscription(&sub);
                    }
                    Some(Ended::Exchange(sub)) => self.connection.requests.close_exchange(&sub),
                    None => {}
                }
                self.send(frame);
            }
        }
    }

    /// Queues an event for its checks; waits when too much is in flight.
    async fn event(&mut self, text: Bytes, allowed: bool) {
        let limited = !allowed || !self.allows(Cost::Event);
        // One that is larger than the bound takes all of it, and comes alone.
        let bytes = text.len().min(self.limits().in_flight_bytes);
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        let own = Arc::clone(&self.in_flight).acquire_many_owned(bytes).await;
        let in_flight = &self.connection.shared.in_flight;
        let of_all = in_flight.acquire(self.connection.network, text.len()).await;
        let raw = Raw {
            text,
            limited,
            permits: (own.expect("never closed"), of_all),
        };
        // The checking loop lives as long as this one.
        let _ = self.events.send(raw).await;
    }

    async fn handle(&mut self, message: Message) {
        let requests = &self.connection.requests;
        let request = match message {
            Message::ReconcileClose { sub } => return requests.close_exchange(&sub),
            Message::Close { sub } => return requests.close(&sub),
            Message::Auth { id } => return self.auth(id),
            Message::Event => unreachable!("events are checked elsewhere"),
            asked if !self.allows(Cost::Request) => return self.too_many(asked),
            Message::Request { sub, filters } => {
                let prepared = self.connection.shared.subscriptions.prepare(filters);
                Request::Subscribe { sub, prepared }
            }
            Message::Count { sub, filters } => Request::Count { sub, filters },
            Message::ReconcileOpen { sub, filter, first } => {
                Request::OpenExchange { sub, filter, first }
            }
            Message::Reconcile { sub, message } => Request::Exchange { sub, message },
        };
        let refused = request.refused();
        if let Err(text) = requests.submit(request).await {
            self.send(refused(&text));
        }
    }

    /// Refuses for the sake of the rate, in the way the message is answered; whatever frees
    /// something is done all the same.
    fn too_many(&self, message: Message) {
        const TEXT: &str = "rate-limited: too many messages; slow down";
        let requests = &self.connection.requests;
        match message {
            Message::Request { sub, .. } => {
                requests.close_subscription(&sub);
                self.send(reply::closed(&sub, TEXT));
            }
            Message::Count { sub, .. } => self.send(reply::closed(&sub, TEXT)),
            Message::ReconcileOpen { sub, .. } | Message::Reconcile { sub, .. } => {
                requests.close_exchange(&sub);
                self.send(reply::neg_err(&sub, TEXT));
            }
            Message::ReconcileClose { sub } => requests.close_exchange(&sub),
            Message::Close { sub } => requests.close(&sub),
            Message::Auth { .. } | Message::Event => self.notice(TEXT),
        }
    }

    fn auth(&self, id: Option<String>) {
        const TEXT: &str = "error: authentication (NIP-42) is not offered here";
        match id {
            Some(id) => self.send(reply::ok(&id, false, TEXT)),
            None => self.notice(TEXT),
        }
    }
}

async fn parse(connection: &Connection, text: Bytes) -> Result<Message, Refusal> {
    let limits = connection.shared.limits;
    if text.len() <= INLINE_BYTES {
        return message::parse(&text, &limits);
    }
    let parse = move || message::parse(&text, &limits);
    let parsed = connection.shared.checkers.run(connection.network, parse);
    parsed.await.expect("parsing does not panic")
}
