//! Reading loop of a connection: frames parsed into messages, and messages handled.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt as _, stream::SplitStream};
use grip_nostr::{Event, Timestamp};
use tokio::{
    sync::{Semaphore, mpsc},
    time::Instant,
};

use super::{Connection, Ending, events::Raw, requests::Request};
use crate::{
    Frame, Limits,
    access::Proof,
    message::{self, Ended, Message, Refusal},
    quota::Held,
    rate_limits::Cost,
    reply,
};

/// What every connection may have received of a message, whatever its network has.
const OWN_BYTES: usize = 64 << 10;

/// Longer messages are parsed off the runtime.
const INLINE_BYTES: usize = 64 << 10;

/// Answers to those who have not proved a key to a private relay (G08-4).
const LOCKED: &str = "auth-required: this relay is private; authenticate first (NIP-42)";
const LOCKED_EVENT: &str = "auth-required: authenticate before publishing";

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
            Frame::Text(text) => {
                if let Some(ending) = reader.text(text).await {
                    return ending;
                }
            }
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

    async fn text(&mut self, text: Bytes) -> Option<Ending> {
        // Who does not read its answers is not read from.
        self.connection.send_queue.has_room().await;
        let label = message::label(&text);
        let stats = &self.connection.shared.stats;
        stats.message(label.unwrap_or_default());
        let allowed = self.allows(Cost::Message);
        let ending = if label == Some("EVENT") {
            self.event(text, allowed).await;
            None
        } else {
            self.other(text, allowed).await
        };
        self.received.resize(0);
        ending
    }

    async fn other(&mut self, text: Bytes, allowed: bool) -> Option<Ending> {
        let most = self.limits().message_bytes;
        if text.len() > most {
            let refusal = format!("invalid: a message has at most {most} bytes");
            self.notice(&refusal);
            return None;
        }
        match parse(self.connection, text.clone()).await {
            Ok(Message::Event) => self.event(text, allowed).await,
            Ok(message) if !allowed => self.too_many(message),
            Ok(Message::Auth { id, event }) => return self.auth(id, event.as_deref()),
            Ok(message) if self.is_locked() => self.refuse(message, LOCKED),
            Ok(message) => self.handle(message).await,
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
        None
    }

    /// Says whether the client of a private relay has still to prove its key.
    fn is_locked(&self) -> bool {
        let login = self.connection.login.as_ref();
        login.is_some_and(|login| login.member().is_none())
    }

    /// Queues an event for its checks; waits when too much is in flight.
    async fn event(&mut self, text: Bytes, allowed: bool) {
        if self.is_locked() {
            return match message::id_of_unreadable(&text) {
                Some(id) => self.send(reply::ok(&id, false, LOCKED_EVENT)),
                None => self.notice(LOCKED_EVENT),
            };
        }
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
            Message::Auth { .. } | Message::Event => unreachable!("handled before"),
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

    /// Refuses for the sake of the rate.
    fn too_many(&self, message: Message) {
        self.refuse(message, "rate-limited: too many messages; slow down");
    }

    /// Refuses in the way the message is answered; whatever frees something is done all the same.
    fn refuse(&self, message: Message, text: &str) {
        let requests = &self.connection.requests;
        match message {
            Message::Request { sub, .. } => {
                requests.close_subscription(&sub);
                self.send(reply::closed(&sub, text));
            }
            Message::Count { sub, .. } => self.send(reply::closed(&sub, text)),
            Message::ReconcileOpen { sub, .. } | Message::Reconcile { sub, .. } => {
                requests.close_exchange(&sub);
                self.send(reply::neg_err(&sub, text));
            }
            Message::ReconcileClose { sub } => requests.close_exchange(&sub),
            Message::Close { sub } => requests.close(&sub),
            Message::Auth { .. } | Message::Event => self.notice(text),
        }
    }

    /// Judges a proof (G08-5).
    fn auth(&self, id: Option<String>, event: Option<&Event>) -> Option<Ending> {
        let answer = |accepted, text: &str| match &id {
            Some(id) => self.send(reply::ok(id, accepted, text)),
            None => self.notice(text),
        };
        let Some(login) = &self.connection.login else {
            answer(false, "error: authentication (NIP-42) is not offered here");
            return None;
        };
        match login.prove(event, Timestamp::now()) {
            Proof::Member => {
                answer(true, "");
                None
            }
            Proof::Stranger => {
                answer(false, "restricted: authenticated pubkey is not whitelisted");
                Some(Ending::Stranger)
            }
            Proof::Invalid { why, is_last } => {
                answer(false, &format!("invalid: {why}"));
                is_last.then_some(Ending::Unauthenticated)
            }
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
