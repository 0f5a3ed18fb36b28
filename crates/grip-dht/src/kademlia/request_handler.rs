//! Server side of the request protocol: requests of other nodes, how many are served, and who hears "busy".
//!
//! Invariants:
//! - At most as many requests are served as there are permits, in all and for each peer; the next
//!   gets a "busy" response at once, and only some peers at a time do: the rest is simply closed.
//! - A stream without a request has no such permit: each peer may have a few unread requests, for a
//!   short time.
//! - Work ends when the requester leaves or stops reading the response, at the timeout, or when
//!   the node stops.

use std::{sync::Arc, time::Duration};

use grip_tasks::{Permit, Permits, TaskGroup};
use libp2p::{
    PeerId, Stream,
    futures::{AsyncRead, AsyncReadExt as _, AsyncWrite},
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot},
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
    permits: PeerPermits,
    unread_permits: PeerPermits,
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
            permits,
            unread_permits: PeerPermits::new(MAX_UNREAD, MAX_UNREAD_PER_PEER),
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
    async fn serve<S>(&self, peer: PeerId, stream: &mut S, unread: PeerPermit) -> bool
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
        #[cfg(any(test, feature = "testing"))]
        let asked = key.clone();
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
        #[cfg(any(test, feature = "testing"))]
        let found = super::misbehaviour::altered(&*self.local, &asked, found);
        WireResponse::Found(found)
    }
}

/// Permits for requests, bounded in all and for each peer.
pub(super) struct PeerPermits {
    total: Arc<Semaphore>,
    by_peer: Permits<PeerId>,
    per_peer: usize,
}

/// The right to one request.
pub(super) struct PeerPermit {
    _total: OwnedSemaphorePermit,
    _of_peer: Permit<PeerId>,
}

impl PeerPermits {
    pub(super) fn new(total: usize, per_peer: usize) -> Self {
        Self {
            total: Arc::new(Semaphore::new(total)),
            by_peer: Permits::new(),
            per_peer,
        }
    }

    pub(super) fn try_acquire(&self, peer: PeerId) -> Option<PeerPermit> {
        Some(PeerPermit {
            _total: Arc::clone(&self.total).try_acquire_owned().ok()?,
            _of_peer: self.by_peer.try_take(&peer, self.per_peer)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn permits_are_bounded_in_all_and_for_each_peer_and_are_released() {
        let permits = PeerPermits::new(3, 2);
        let (one, other) = (PeerId::random(), PeerId::random());
        let first = permits.try_acquire(one).unwrap();
        let _second = permits.try_acquire(one).unwrap();
        assert!(permits.try_acquire(one).is_none());
        let third = permits.try_acquire(other).unwrap();
        assert!(permits.try_acquire(other).is_none(), "three are out");
        drop(third);
        assert_eq!(permits.by_peer.held(&other), 0);
        drop(first);
        assert!(permits.try_acquire(one).is_some());
    }
}
