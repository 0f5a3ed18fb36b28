//! Circuit breakers of peers, and of the routes to them.
//!
//! Invariant: a peer answers for what it says, never for where others say that it is. A dial that
//! fails counts against the route, which is the peer at the addresses that were known; with another
//! address it is another route.

use grip_dht::{Peer, PeerName, RequestError};
use grip_limits::{BreakerOptions, BreakerState, Breakers, KeyedBreakers, Permit, Verdict};
use tokio::time::Instant;

/// Peers, and routes, whose breakers are remembered.
const MAX_KEYS: usize = 4_096;

/// A peer, and the digest of its addresses.
type Route = (PeerName, [u8; 32]);

/// The breakers that every request passes.
pub(crate) struct PeerBreakers {
    peers: Breakers<PeerName>,
    routes: Breakers<Route>,
}

/// A breaker that lets no request through, and when to ask again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Open {
    Peer(Instant),
    Route(Instant),
}

/// The right to send one request to one peer. Dropped, the request was given up, which says nothing
/// about the peer: its answer may have been on its way.
#[must_use = "the outcome of the request is unknown unless the permit is told"]
pub(crate) struct RequestPermit {
    peer: Permit<KeyedBreakers<PeerName>>,
    route: Permit<KeyedBreakers<Route>>,
}

impl PeerBreakers {
    pub fn new(options: BreakerOptions) -> Self {
        Self {
            peers: Breakers::new(options, MAX_KEYS),
            routes: Breakers::new(options, MAX_KEYS),
        }
    }

    /// The right to one request to `peer`; else which breaker is open.
    pub fn acquire(&self, peer: &Peer) -> Result<RequestPermit, Open> {
        Ok(RequestPermit {
            peer: self.peers.acquire(&peer.id).map_err(Open::Peer)?,
            route: self.routes.acquire(&route(peer)).map_err(Open::Route)?,
        })
    }

    pub fn is_open(&self, peer: &Peer) -> bool {
        let peer_until = self.peers.open_until(&peer.id);
        peer_until.is_some() || self.routes.open_until(&route(peer)).is_some()
    }

    /// The peers whose own breaker is not closed, ordered by name.
    pub fn states(&self) -> Vec<(PeerName, BreakerState)> {
        self.peers.states()
    }
}

impl RequestPermit {
    /// Ends a request that the peer answered, well or badly.
    pub fn answered(self, verdict: Verdict) {
        self.settle(Some(verdict), Some(Verdict::Success));
    }

    /// Ends a request that failed.
    pub fn failed(self, error: RequestError) {
        match error {
            RequestError::NoRoute => self.settle(None, Some(Verdict::Failure)),
            RequestError::Refused => self.settle(None, Some(Verdict::Success)),
            RequestError::Overloaded | RequestError::Closed => self.settle(None, None),
            _ => self.answered(Verdict::Failure),
        }
    }

    fn settle(self, peer: Option<Verdict>, route: Option<Verdict>) {
        self.peer.settle(peer);
        self.route.settle(route);
    }
}

fn route(peer: &Peer) -> Route {
    let mut addresses: Vec<&str> = peer.addresses.iter().map(String::as_str).collect();
    addresses.sort_unstable();
    let digest = blake3::hash(addresses.join("\n").as_bytes());
    (peer.id.clone(), digest.into())
}
