//! One connection: its loops, and its end.
//!
//! Five loops run side by side in one task: reading messages, checking events, having them
//! written, working on requests, and sending. Between them are bounded queues; a full one stops the loop before it, and
//! in the end the reading, so that a client that sends too much is slowed down by TCP.

mod events;
mod reader;
mod requests;

use std::{net::IpAddr, sync::Arc, time::Duration};

use futures_util::{FutureExt as _, Sink, Stream, StreamExt as _, future::FusedFuture as _};
use grip_types::{ClientNetwork, EventSource, Origin};
use parking_lot::Mutex;
use tokio::{
    sync::mpsc,
    time::{Instant, interval_at, timeout},
};

use requests::Requests;

use crate::{
    Access, Frame, Peer, WritePolicy,
    access::{Lockout, Login},
    rate_limits::ConnectionRates,
    relay::Shared,
    reply,
    send_queue::SendQueue,
    stats::Raised,
};

/// Batches that may be checked while an earlier one is being written; they are written together.
const CHECKED_BATCHES: usize = 8;
/// How long a connection that ends may take to answer the events it has sent.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);
/// How long the other side may take to accept the closing frames.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// What the loops of a connection share.
struct Connection {
    shared: Arc<Shared>,
    policy: Arc<dyn WritePolicy>,
    send_queue: Arc<SendQueue>,
    requests: Requests,
    /// Set on a private relay.
    login: Option<Login>,
    rates: ConnectionRates,
    ip: IpAddr,
    /// Whose share it uses up; `None` if it is nobody's.
    network: Option<ClientNetwork>,
    /// Of the events that come over it.
    source: EventSource,
    /// Since when nothing has come in; `None` while a message is worked on, which is no silence
    /// of the client.
    silent_since: Mutex<Option<Instant>>,
}

/// Why a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    /// The other side closed it, or it broke.
    Gone,
    /// Nothing can be sent any more.
    Broken,
    Silent,
    SlowReader,
    TooLong,
    /// Half-received messages of its network take too much memory.
    Crowded,
    Stopping,
    /// A private relay was shown no member's key in time, or three invalid proofs.
    Unauthenticated,
    /// A private relay was shown the key of a stranger.
    Stranger,
    /// The key is no longer a member's.
    Revoked,
}

impl Ending {
    fn closing_frames(self) -> Vec<Frame> {
        let (text, code, reason) = match self {
            Self::Gone | Self::Broken => return Vec::new(),
            Self::Silent => ("error: the connection was idle for too long", 1001, "idle"),
            Self::SlowReader => (
                "error: events came faster than you read them; reconnect and ask for what you missed",
                1008,
                "slow reader",
            ),
            Self::TooLong => (
                "invalid: a message was longer than this relay takes (NIP-11: max_message_length)",
                1009,
                "message too long",
            ),
            Self::Crowded => (
                "rate-limited: half-received messages of your network take too much memory here; try again later",
                1013,
                "try again later",
            ),
            Self::Stopping => (
                "error: this relay is restarting; reconnect soon",
                1012,
                "restart",
            ),
            Self::Unauthenticated => (
                "auth-required: this relay is private; authenticate (NIP-42) within 30 seconds",
                1008,
                "auth required",
            ),
            Self::Stranger | Self::Revoked => (
                "restricted: this relay is for its members",
                1008,
                "restricted",
            ),
        };
        let close = Frame::Close(code, reason.into());
        vec![Frame::Text(reply::notice(text)), close]
    }
}

pub(crate) async fn serve<S, E>(
    shared: Arc<Shared>,
    policy: Arc<dyn WritePolicy>,
    access: Option<Access>,
    socket: S,
    peer: Peer,
) where
    S: Stream<Item = Result<Frame, E>> + Sink<Frame> + Send,
{
    let stats = Arc::clone(&shared.stats);
    let _open = Raised::new(&stats.connections);
    stats.connections_total.add(1);
    let limits = &shared.limits;
    let network = limits.networks.network(peer.ip);
    let counted = (!peer.exempt).then_some(network);
    let queued = shared.memory.holder(counted);
    let connection = Connection {
        send_queue: Arc::new(SendQueue::new(
            limits.outbound_bytes,
            queued,
            Arc::clone(&stats),
        )),
        requests: Requests::new(&shared, shared.memory.holder(counted)),
        login: access.map(Login::new),
        ip: peer.ip,
        network: counted,
        rates: ConnectionRates::new(limits.connection_rates, network),
        source: EventSource {
            network: counted,
            ..Origin::Submitted.into()
        },
        silent_since: Mutex::new(Some(Instant::now())),
        shared: Arc::clone(&shared),
        policy,
    };
    if let Some(login) = &connection.login {
        let challenge = reply::auth(&login.challenge);
        connection.send_queue.answer([challenge]);
    }
    let ending = run(&connection, socket).await;
    if ending == Ending::SlowReader {
        stats.slow_readers_cut.add(1);
    }
    tracing::debug!(connection = peer.connection, ip = %peer.ip, ?ending, "connection ended");
}

async fn run<S, E>(connection: &Connection, socket: S) -> Ending
where
    S: Stream<Item = Result<Frame, E>> + Sink<Frame> + Send,
{
    let (sink, stream) = socket.split();
    let (raw, to_check) = mpsc::channel(connection.shared.limits.in_flight_events.max(1));
    let (checked, to_write) = mpsc::channel(CHECKED_BATCHES);

    let mut reading = Box::pin(reader::run(connection, stream, raw));
    // Fused: which of them has ended by itself decides what is waited for in the end.
    let sending = connection.send_queue.run(sink).fuse();
    let checking = events::check(connection, to_check, checked);
    let writing = events::write(connection, to_write);
    tokio::pin!(sending);
    let events = async { tokio::join!(checking, writing) }.fuse();
    tokio::pin!(events);
    let mut requests = Box::pin(requests::run(connection));

    let ending = tokio::select! {
        // In the order of a message's way, so that its answer leaves in the same round.
        biased;
        ending = &mut reading => ending,
        _ = &mut events => Ending::Gone,
        () = &mut requests => Ending::Gone,
        ending = watch(connection) => ending,
        () = &mut sending => Ending::Broken,
    };
    // Takes the queue of raw events with it: the event loops end after what is in it.
    drop(reading);
    // Nobody waits for what was asked any more.
    drop(requests);
    let send_queue = &connection.send_queue;
    match ending {
        Ending::Broken => {
            send_queue.close([], true);
            // Out of time or not, nobody reads the answers.
            let _ = timeout(DRAIN_TIMEOUT, events).await;
        }
        Ending::SlowReader | Ending::Revoked => {
            send_queue.close(ending.closing_frames(), true);
            let _ = timeout(CLOSE_TIMEOUT, sending).await;
        }
        Ending::Gone
        | Ending::Silent
        | Ending::TooLong
        | Ending::Crowded
        | Ending::Stopping
        | Ending::Unauthenticated
        | Ending::Stranger => {
            if !events.is_terminated() {
                let drained = async {
                    // Ends the race when nobody can be answered any more.
                    tokio::select! { _ = &mut events => {}, () = &mut sending => {} }
                };
                let _ = timeout(DRAIN_TIMEOUT, drained).await;
            }
            send_queue.close(ending.closing_frames(), false);
            if !sending.is_terminated() {
                let _ = timeout(CLOSE_TIMEOUT, sending).await;
            }
        }
    }
    ending
}

/// Pings, and notices when the connection should end for a reason of ours.
async fn watch(connection: &Connection) -> Ending {
    let Shared { limits, group, .. } = &*connection.shared;
    let stop = group.token();
    let mut tick = interval_at(Instant::now() + limits.ping_every, limits.ping_every);
    let mut before = connection.send_queue.progress();
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ending::Stopping,
            () = connection.send_queue.overflowed() => return Ending::SlowReader,
            lockout = locked_out(connection) => return match lockout {
                Lockout::TooLate => Ending::Unauthenticated,
                Lockout::Revoked => Ending::Revoked,
            },
            _ = tick.tick() => {}
        }
        let now = connection.send_queue.progress();
        if before.1 && now.1 && before.0 == now.0 {
            return Ending::SlowReader;
        }
        before = now;
        let silent_since = *connection.silent_since.lock();
        if silent_since.is_some_and(|since| since.elapsed() >= limits.idle) {
            return Ending::Silent;
        }
        connection
            .send_queue
            .control(Frame::Ping(bytes::Bytes::new()));
    }
}

async fn locked_out(connection: &Connection) -> Lockout {
    match &connection.login {
        Some(login) => login.locked_out().await,
        None => std::future::pending().await,
    }
}
