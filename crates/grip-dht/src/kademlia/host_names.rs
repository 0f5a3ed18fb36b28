//! Transport that resolves the host names of addresses.
//!
//! The system is asked, as for every other connection of the node; lists of peers in DNS
//! (`/dnsaddr`) are not read.

use std::{
    io, iter,
    net::IpAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::future::BoxFuture;
use grip_egress::{Lookup, SystemLookup};
use libp2p::{
    Multiaddr, Transport,
    core::transport::{DialOpts, ListenerId, TransportError, TransportEvent},
    multiaddr::Protocol,
};
use parking_lot::Mutex;

/// Addresses of one name that are tried.
const MAX_ADDRESSES: usize = 8;

/// A transport that dials the addresses of a name, one after the other, until one answers.
pub(super) struct HostNames<T> {
    inner: Arc<Mutex<T>>,
    lookup: Arc<dyn Lookup>,
    /// For all addresses of a name together.
    connect_timeout: Duration,
}

impl<T> HostNames<T> {
    pub(super) fn new(inner: T, connect_timeout: Duration) -> Self {
        Self {
            inner: Arc::new(Mutex::new(inner)),
            lookup: Arc::new(SystemLookup::default()),
            connect_timeout,
        }
    }
}

impl<T> Transport for HostNames<T>
where
    T: Transport<Error = io::Error> + Send + Unpin + 'static,
    T::Dial: Send + 'static,
{
    type Output = T::Output;
    type Error = io::Error;
    type ListenerUpgrade = T::ListenerUpgrade;
    type Dial = BoxFuture<'static, io::Result<T::Output>>;

    fn listen_on(
        &mut self,
        id: ListenerId,
        address: Multiaddr,
    ) -> Result<(), TransportError<io::Error>> {
        self.inner.lock().listen_on(id, address)
    }

    fn remove_listener(&mut self, id: ListenerId) -> bool {
        self.inner.lock().remove_listener(id)
    }

    fn dial(
        &mut self,
        address: Multiaddr,
        options: DialOpts,
    ) -> Result<Self::Dial, TransportError<io::Error>> {
        let Some((name, wanted)) = host_name(&address) else {
            return Ok(Box::pin(self.inner.lock().dial(address, options)?));
        };
        let (inner, lookup) = (Arc::clone(&self.inner), Arc::clone(&self.lookup));
        let connect_timeout = self.connect_timeout;
        Ok(Box::pin(async move {
            let mut found = lookup.lookup(&name).await?;
            found.retain(wanted);
            found.truncate(MAX_ADDRESSES);
            // One that never answers leaves time for the others.
            let share = connect_timeout / (found.len() as u32 + 1);
            let mut last = io::Error::new(
                io::ErrorKind::NotFound,
                format!("{name} has no address of this kind"),
            );
            for ip in found {
                let rest = address.iter().skip(1);
                let address = iter::once(Protocol::from(ip)).chain(rest).collect();
                let dialled = inner.lock().dial(address, options);
                last = match dialled {
                    Ok(dial) => match tokio::time::timeout(share, dial).await {
                        Ok(Ok(connection)) => return Ok(connection),
                        Ok(Err(error)) => error,
                        Err(_) => io::ErrorKind::TimedOut.into(),
                    },
                    Err(TransportError::Other(error)) => error,
                    Err(TransportError::MultiaddrNotSupported(address)) => {
                        io::Error::other(format!("{name} leads to {address}, which is refused"))
                    }
                };
            }
            Err(last)
        }))
    }

    fn poll(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<TransportEvent<T::ListenerUpgrade, io::Error>> {
        Pin::new(&mut *self.inner.lock()).poll(cx)
    }
}

/// Which addresses of a name are meant.
type Wanted = fn(&IpAddr) -> bool;

/// The name that `address` begins with.
fn host_name(address: &Multiaddr) -> Option<(String, Wanted)> {
    match address.iter().next()? {
        Protocol::Dns(name) => Some((name.into_owned(), |_| true)),
        Protocol::Dns4(name) => Some((name.into_owned(), IpAddr::is_ipv4)),
        Protocol::Dns6(name) => Some((name.into_owned(), IpAddr::is_ipv6)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
