//! Where the requests of others are answered.
//!
//! Invariants:
//! - At most so many requests are at work as there are permits, in all and for each peer; the
//!   next is told "busy" at once, and of those who are told only some at a time: the rest is
//!   simply closed.
//! - Who opens a stream and asks nothing has no permit, and no other peer's room: each may have so
//!   many unheard requests, for a short time.
//! - Work ends when the requester goes away or takes nothing of its answer any more, at the timeout,
//!   or when the node stops.

use std::{collections::HashMap, sync::Arc, time::Duration};

use grip_tasks::TaskGroup;
use libp2p::{
    PeerId, Stream,
    futures::{AsyncRead, AsyncReadExt as _, AsyncWrite},
};
use parking_lot::Mutex;
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    time::timeout,
};

use super::{
    codec::{self, Found, WireResponse},
    stats::{Stats, count},
};
use crate::{LocalRecords, RecordKey, limits};

/// Requests that are not heard to the end yet, of all peers and of one; more are closed. Those of
/// one times the connections that a node has are those of all.
const MAX_UNREAD: usize = MAX_UNREAD_PER_PEER * 256;
const MAX_UNREAD_PER_PEER: usize = 32;

/// How long a peer may take to say its request, and how long to take the next piece of the
/// answer.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// How many peers can be told at the same time that we are busy, and how long that may take.
const MAX_BUSY_RESPONSES: usize = 64;
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// A request to the swarm task: what is stored under `key`.
pub(super) struct StoreQuery {
    pub key: RecordKey,
    pub requester: PeerId,
    pub found: oneshot::Sender<Found>,
}

pub(super) struct RequestHandler {
    pub(super) group: TaskGroup,
    pub(super) local: Arc<dyn LocalRecords>,
    /// Full means busy.
    pub(super) store_queries: mpsc::Sender<StoreQuery>,
    pub(super) stats: Arc<Stats>,
    pub(super) timeout: Duration,
    pub(super) permits: Arc<PeerPermits>,
    unread: Arc<PeerPermits>,
    busy_responses: Semaphore,
}

impl RequestHandler {
    pub(super) fn new(
        group: TaskGroup,
        local: Arc<dyn LocalRecords>,
        store_queries: mpsc::Sender<StoreQuery>,
        stats: Arc<Stats>,
        timeout: Duration,
        permits: PeerPermits,
    ) -> Self {
        Self {
            group,
            local,
            store_queries,
            stats,
            timeout,
            permits: Arc::new(permits),
            unread: Arc::new(PeerPermits::new(MAX_UNREAD, MAX_UNREAD_PER_PEER)),
            busy_responses: Semaphore::new(MAX_BUSY_RESPONSES),
        }
    }

    /// Takes in one request; never waits.
    pub(super) fn receive(self: &Arc<Self>, peer: PeerId, mut stream: Stream) {
        count(&self.stats.counts.requests);
        let Some(turn) = self.unread.try_acquire(peer) else {
            return count(&self.stats.counts.busy);
        };
        let handler = Arc::clone(self);
        let stop = self.group.token();
        let work = async move {
            let attended = handler.attend(peer, &mut stream, turn);
            if stop.run_until_cancelled(attended).await == Some(false) {
                count(&handler.stats.counts.broken);
            }
        };
        self.group.spawn("answer", work);
    }

    /// Hears a request and answers it or says that we are busy; false if it broke.
    async fn attend<S>(&self, peer: PeerId, stream: &mut S, turn: Permit) -> bool
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let heard = timeout(READ_TIMEOUT, codec::read_request(stream)).await;
        let Ok(Ok(key)) = heard else {
            return false;
        };
        drop(turn);
        let Some(_permit) = self.permits.try_acquire(peer) else {
            self.refuse(stream).await;
            return true;
        };
        let answered = timeout(self.timeout, self.answer(peer, key, stream)).await;
        answered.unwrap_or(false)
    }

    async fn refuse(&self, stream: &mut (impl AsyncWrite + Unpin)) {
        count(&self.stats.counts.busy);
        if let Ok(_permit) = self.busy_responses.try_acquire() {
            let busy_responses = codec::write_response(stream, &WireResponse::Busy, WRITE_TIMEOUT);
            // Who does not hear it finds the stream closed.
            let _ = timeout(BUSY_TIMEOUT, busy_responses).await;
        }
    }

    async fn answer<S>(&self, peer: PeerId, key: RecordKey, stream: &mut S) -> bool
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut more = [0];
        let answer = tokio::select! {
            biased;
            // The requester has nothing more to say: a byte is an error, and the end is his leave.
            _ = stream.read(&mut more) => return false,
            answer = self.find(key, peer) => answer,
        };
        let written = codec::write_response(stream, &answer, WRITE_TIMEOUT).await;
        written.is_ok()
    }

    async fn find(&self, key: RecordKey, requester: PeerId) -> WireResponse {
        let own = self.local.value(&key).await;
        let (found, receiver) = oneshot::channel();
        let query = StoreQuery {
            key,
            requester,
            found,
        };
        if self.store_queries.try_send(query).is_err() {
            count(&self.stats.counts.busy);
            return WireResponse::Busy;
        }
        let Ok(mut found) = receiver.await else {
            return WireResponse::Busy;
        };
        let fits = |value: &bytes::Bytes| value.len() <= limits::VALUE_BYTES;
        found.value = own.filter(fits).or(found.value);
        WireResponse::Found(found)
    }
}

/// The right to have requests under way, in all and for each peer.
pub(super) struct PeerPermits {
    total: usize,
    per_peer: usize,
    /// Bounded by `total`: who has no permit is not in it.
    held: Mutex<HashMap<PeerId, usize>>,
}

impl PeerPermits {
    pub(super) fn new(total: usize, per_peer: usize) -> Self {
        Self {
            total,
            per_peer,
            held: Mutex::default(),
        }
    }

    pub(super) fn try_acquire(self: &Arc<Self>, peer: PeerId) -> Option<Permit> {
        let mut held = self.held.lock();
        if held.values().sum::<usize>() >= self.total {
            return None;
        }
        let own = held.entry(peer).or_default();
        if *own >= self.per_peer {
            return None;
        }
        *own += 1;
        drop(held);
        Some(Permit {
            permits: Arc::clone(self),
            peer,
        })
    }
}

/// One request at work; given back on drop.
pub(super) struct Permit {
    permits: Arc<PeerPermits>,
    peer: PeerId,
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut held = self.permits.held.lock();
        if let Some(own) = held.get_mut(&self.peer) {
            *own -= 1;
            if *own == 0 {
                held.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_are_bounded_in_all_and_for_each_peer_and_come_back() {
        let permits = Arc::new(PeerPermits::new(3, 2));
        let (one, other) = (PeerId::random(), PeerId::random());
        let first = permits.try_acquire(one).unwrap();
        let _second = permits.try_acquire(one).unwrap();
        assert!(permits.try_acquire(one).is_none());
        let third = permits.try_acquire(other).unwrap();
        assert!(permits.try_acquire(other).is_none(), "three are out");
        drop(third);
        assert_eq!(permits.held.lock().len(), 1);
        drop(first);
        assert!(permits.try_acquire(one).is_some());
    }
}
