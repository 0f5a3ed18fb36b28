//! Server side of the request protocol.
//!
//! Invariants:
//! - At most as many requests are served as there are permits, in all and for each peer; the next
//!   gets a "busy" response at once, and only some peers at a time do: the rest is simply closed.
//! - A stream without a request has no such permit: each peer may have a few unread requests, for a
//!   short time.
//! - Work ends when the requester leaves or stops reading the response, at the timeout, or when
//!   the node stops.

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

/// Requests that are not read to the end yet, of all peers and of one; further ones are closed.
/// The bound for all is that of one peer times the connections of a node.
const MAX_UNREAD: usize = MAX_UNREAD_PER_PEER * 256;
const MAX_UNREAD_PER_PEER: usize = 32;

/// How long a peer may take to send its request, and to read the next piece of the response.
const READ_TIMEOUT: Duration = Duration::from_secs(2);
const WRITE_TIMEOUT: Duration = Duration::from_secs(2);

/// How many "busy" responses are written at once, and how long one may take.
const MAX_BUSY_RESPONSES: usize = 64;
const BUSY_TIMEOUT: Duration = Duration::from_secs(2);

/// A query to the swarm task: what is stored under `key`.
pub(super) struct StoreQuery {
    pub key: RecordKey,
    pub requester: PeerId,
    pub found: oneshot::Sender<Found>,
}

pub(super) struct RequestHandler {
    group: TaskGroup,
    local: Arc<dyn LocalRecords>,
    /// Full means busy.
    store_queries: mpsc::Sender<StoreQuery>,
    stats: Arc<Stats>,
    timeout: Duration,
    permits: Arc<PeerPermits>,
    unread_permits: Arc<PeerPermits>,
    busy_permits: Semaphore,
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
            unread_permits: Arc::new(PeerPermits::new(MAX_UNREAD, MAX_UNREAD_PER_PEER)),
            busy_permits: Semaphore::new(MAX_BUSY_RESPONSES),
        }
    }

    /// Serves one stream in a task of its own; never waits.
    pub(super) fn receive(self: &Arc<Self>, peer: PeerId, mut stream: Stream) {
        count(&self.stats.counts.questions_total);
        let Some(unread) = self.unread_permits.try_acquire(peer) else {
            return count(&self.stats.counts.busy_total);
        };
        let handler = Arc::clone(self);
        let stop = self.group.token();
        let work = async move {
            let served = handler.serve(peer, &mut stream, unread);
            if stop.run_until_cancelled(served).await == Some(false) {
                count(&handler.stats.counts.broken_total);
            }
        };
        self.group.spawn("answer", work);
    }

    /// Reads a request and responds to it; false if the stream broke.
    async fn serve<S>(&self, peer: PeerId, stream: &mut S, unread: Permit) -> bool
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let request = timeout(READ_TIMEOUT, codec::read_request(stream)).await;
        let Ok(Ok(key)) = request else {
            return false;
        };
        drop(unread);
        let Some(_permit) = self.permits.try_acquire(peer) else {
            self.refuse(stream).await;
            return true;
        };
        let responded = timeout(self.timeout, self.respond(peer, key, stream)).await;
        responded.unwrap_or(false)
    }

    async fn refuse(&self, stream: &mut (impl AsyncWrite + Unpin)) {
        count(&self.stats.counts.busy_total);
        if let Ok(_permit) = self.busy_permits.try_acquire() {
            let writing = codec::write_response(stream, &WireResponse::Busy, WRITE_TIMEOUT);
            // A peer that does not get it finds the stream closed.
            let _ = timeout(BUSY_TIMEOUT, writing).await;
        }
    }

    async fn respond<S>(&self, peer: PeerId, key: RecordKey, stream: &mut S) -> bool
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let mut more = [0];
        let response = tokio::select! {
            biased;
            // EOF means that the requester cancelled; a further byte is an error.
            _ = stream.read(&mut more) => return false,
            response = self.find(key, peer) => response,
        };
        let written = codec::write_response(stream, &response, WRITE_TIMEOUT).await;
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
            count(&self.stats.counts.busy_total);
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

/// Permits for requests, bounded in all and for each peer.
pub(super) struct PeerPermits {
    total: usize,
    per_peer: usize,
    /// Bounded by `total`: a peer without a permit is not in it.
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

/// The right to one request; released on drop.
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
