//! The network as one node sees it while it looks for one key.

use std::{collections::HashSet, future::pending, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use grip_dht::{
    Counters, Dht, DhtError, Peer, PeerName, PublishFuture, Reachability, RecordKey, RequestError,
    RequestFuture, Response, Status,
};
use parking_lot::Mutex;
use tokio::time::sleep;

use super::{
    hash::fraction,
    placement::Placement,
    world::{Lie, World},
};

/// Share of the peers in its own table with which a node has a connection.
const CONNECTED: f64 = 0.3;
/// What a lost packet costs: the first of a connection is sent again after a second.
const SYN_RETRY: Duration = Duration::from_secs(1);
const DATA_RETRY: Duration = Duration::from_millis(300);

/// Bytes of a handshake, of a request, and of a named peer with an address, headers of packets
/// included.
pub(super) const HANDSHAKE: u64 = 1_400;
pub(super) const REQUEST: u64 = 200;
pub(super) const NAMED_PEER: u64 = 64;

/// What a lookup cost.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Traffic {
    pub requests: u64,
    pub bytes: u64,
}

pub(super) struct View {
    world: Arc<World>,
    placement: Arc<Placement>,
    own: usize,
    lookup: u64,
    connected: Mutex<HashSet<usize>>,
    traffic: Mutex<Traffic>,
}

impl View {
    pub fn new(world: Arc<World>, placement: Arc<Placement>, own: usize, lookup: u64) -> Self {
        Self {
            world,
            placement,
            own,
            lookup,
            connected: Mutex::default(),
            traffic: Mutex::default(),
        }
    }

    pub fn traffic(&self) -> Traffic {
        *self.traffic.lock()
    }

    fn peers(&self, nodes: Vec<usize>) -> Vec<Peer> {
        let peer = |n: usize| Peer {
            id: self.world.nodes[n].name.clone(),
            addresses: vec![format!("/ip4/192.0.2.1/tcp/{}", n % 60_000 + 1)],
        };
        nodes.into_iter().map(peer).collect()
    }

    fn chance(&self, what: u64, peer: usize) -> f64 {
        let requests = self.traffic.lock().requests;
        let drawn = self
            .world
            .draw([30, self.lookup, what, peer as u64, requests]);
        fraction(drawn)
    }

    async fn send(&self, peer: &PeerName) -> Result<Response, RequestError> {
        let n = self.world.index(peer).ok_or(RequestError::NoRoute)?;
        let is_cold = !self.connected.lock().contains(&n);
        {
            let mut traffic = self.traffic.lock();
            traffic.requests += 1;
            traffic.bytes += REQUEST + if is_cold { HANDSHAKE } else { 0 };
        }
        if !self.world.is_reachable(n) {
            // Half of the machines are there and refuse, half are not.
            if self.chance(0, n) < 0.5 {
                return pending().await;
            }
            sleep(Duration::from_secs_f64(
                self.world.round_trip_ms(self.own, n) / 1e3,
            ))
            .await;
            return Err(RequestError::NoRoute);
        }
        let trips = if is_cold {
            self.world.conditions.cold_trips
        } else {
            1
        };
        for trip in 0..trips {
            let one = self.world.round_trip_ms(self.own, n) * (1.0 + 0.3 * self.chance(1, n));
            sleep(Duration::from_secs_f64(one / 1e3)).await;
            if self.chance(2 + u64::from(trip), n) < 2.0 * self.world.conditions.loss {
                let retry = if is_cold && trip == 0 {
                    SYN_RETRY
                } else {
                    DATA_RETRY
                };
                sleep(retry).await;
            }
        }
        self.connected.lock().insert(n);
        let lie = self.world.nodes[n].lie;
        if lie == Some(Lie::Silent) {
            return pending().await;
        }
        sleep(Duration::from_secs_f64(
            (1.0 + 4.0 * self.chance(9, n)) / 1e3,
        ))
        .await;
        let response = match lie {
            Some(lie) => self.lie(lie, n),
            None => self.honest(n),
        };
        let named = (response.closer.len() + response.providers.len()) as u64;
        let value = response.value.as_ref().map_or(0, Bytes::len) as u64;
        self.traffic.lock().bytes += named * NAMED_PEER + value;
        Ok(response)
    }

    fn honest(&self, n: usize) -> Response {
        let placement = &self.placement;
        let providers = if placement.is_holder(n) {
            vec![placement.publisher]
        } else {
            vec![]
        };
        Response {
            value: placement.value(n),
            providers: self.peers(providers),
            closer: self.peers(self.world.closest_known(n, placement.place)),
        }
    }

    fn lie(&self, lie: Lie, n: usize) -> Response {
        let placement = &self.placement;
        let liars = || self.peers(self.world.liars_near(placement.place));
        let known = || self.peers(self.world.closest_known(n, placement.place));
        match lie {
            Lie::Garbage | Lie::Silent => Response {
                value: Some(Bytes::from_static(b"no manifest at all")),
                providers: liars(),
                closer: liars(),
            },
            Lie::Outdated => Response {
                value: Some(placement.before.clone()),
                providers: liars(),
                closer: liars(),
            },
            Lie::Eclipse => Response {
                value: None,
                providers: vec![],
                closer: liars(),
            },
            Lie::Providers => Response {
                value: None,
                providers: liars(),
                closer: known(),
            },
        }
    }
}

impl Dht for View {
    fn local_response<'a>(&'a self, _: &'a RecordKey) -> BoxFuture<'a, Response> {
        let near = self.world.closest_known(self.own, self.placement.place);
        for n in &near {
            if fraction(self.world.draw([31, self.own as u64, *n as u64])) < CONNECTED {
                self.connected.lock().insert(*n);
            }
        }
        let closer = self.peers(near);
        Box::pin(async {
            Response {
                closer,
                ..Response::default()
            }
        })
    }

    fn request<'a>(&'a self, peer: &'a Peer, _: &'a RecordKey) -> RequestFuture<'a> {
        Box::pin(self.send(&peer.id))
    }

    fn is_connected(&self, peer: &PeerName) -> bool {
        let n = self.world.index(peer);
        n.is_some_and(|n| self.connected.lock().contains(&n))
    }

    fn publish(&self, _: RecordKey, _: Option<Bytes>) -> PublishFuture<'_> {
        Box::pin(async { Err(DhtError::Closed) })
    }

    fn withdraw<'a>(&'a self, _: &'a RecordKey) -> BoxFuture<'a, ()> {
        Box::pin(async {})
    }

    fn status(&self) -> Status {
        Status {
            peer: self.world.nodes[self.own].name.clone(),
            listening: vec![],
            external: vec![],
            reachability: Reachability::Unknown,
            connected_peers: 0,
            known_peers: 0,
            records: 0,
            provided_keys: 0,
            published_keys: 0,
            max_published: usize::MAX,
            counters: Counters::default(),
        }
    }
}
