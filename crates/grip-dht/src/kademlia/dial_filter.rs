//! Filter of every dial.
//!
//! Addresses reach the transport from the routing table, from responses within a lookup, and from
//! callers. All of them pass this filter.

use std::{
    collections::HashSet,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use libp2p::{
    Multiaddr, Transport,
    core::transport::{DialOpts, ListenerId, TransportError, TransportEvent},
};

use super::{address, address::Policy, stats::Stats};

/// A transport that dials only what the policy allows or the operator named.
pub(super) struct DialFilter<T> {
    inner: T,
    policy: Policy,
    /// What the operator named, without names of peers; fixed at the start.
    named: HashSet<Multiaddr>,
    stats: Arc<Stats>,
}

impl<T> DialFilter<T> {
    pub(super) fn new(
        inner: T,
        policy: Policy,
        named: HashSet<Multiaddr>,
        stats: Arc<Stats>,
    ) -> Self {
        Self {
            inner,
            policy,
            named,
            stats,
        }
    }
}

impl<T: Transport + Unpin> Transport for DialFilter<T> {
    type Output = T::Output;
    type Error = T::Error;
    type ListenerUpgrade = T::ListenerUpgrade;
    type Dial = T::Dial;

    fn listen_on(
        &mut self,
        id: ListenerId,
        address: Multiaddr,
    ) -> Result<(), TransportError<T::Error>> {
        self.inner.listen_on(id, address)
    }

    fn remove_listener(&mut self, id: ListenerId) -> bool {
        self.inner.remove_listener(id)
    }

    fn dial(
        &mut self,
        address: Multiaddr,
        options: DialOpts,
    ) -> Result<T::Dial, TransportError<T::Error>> {
        if self.named.contains(&address::without_peer(&address)) || self.policy.allows(&address) {
            return self.inner.dial(address, options);
        }
        self.stats.refused_addresses(1);
        Err(TransportError::MultiaddrNotSupported(address))
    }

    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<TransportEvent<T::ListenerUpgrade, T::Error>> {
        Pin::new(&mut self.inner).poll(cx)
    }
}
