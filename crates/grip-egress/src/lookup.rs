//! Names to addresses, and only to those that may be connected to.
//!
//! Invariant: a connection goes to an address that was judged in the very lookup that made it.
//! There is no second lookup in which a name could change its mind.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    sync::{Arc, Weak},
};

use futures_util::future::BoxFuture;
use grip_types::Domain;
use parking_lot::Mutex;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use tokio::sync::Semaphore;

use crate::{
    address::{Rules, Special},
    guard::Forbidden,
};

/// Addresses of one name that are tried; more only serve to keep us busy.
const MAX_ADDRESSES: usize = 8;

/// Lookups under way at the operating system.
const MAX_LOOKUPS: usize = 128;
/// Those of names with the same last labels, by their number: who has a domain can make up any number
/// of names below it, and domains of different people may have the last two labels in common.
const MAX_LOOKUPS_BELOW: [(usize, usize); 2] = [(2, 16), (3, 4)];

/// Where addresses of names come from.
pub trait Lookup: Send + Sync {
    /// Gives the addresses of `host`, best first.
    fn lookup<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// Asks the operating system.
///
/// Whose share is used up: a name server that never answers keeps a thread for half a minute, and
/// the question goes on when nobody waits for it any more. So lookups have places of their own, and
/// names below one domain a few of them; a lookup that finds none waits until its own deadline.
#[derive(Clone)]
pub struct SystemLookup {
    places: Arc<Semaphore>,
    zones: Arc<Mutex<HashMap<String, Weak<Semaphore>>>>,
    ask: Ask,
}

/// Asks for the addresses of a name. Blocking.
type Ask = fn(&str) -> io::Result<Vec<IpAddr>>;

impl SystemLookup {
    fn asking(ask: Ask) -> Self {
        Self {
            places: Arc::new(Semaphore::new(MAX_LOOKUPS)),
            zones: Arc::default(),
            ask,
        }
    }

    /// The places of names that end like this one.
    fn zone(&self, host: &str, labels: usize, most: usize) -> Arc<Semaphore> {
        let zone = format!("{labels}.{}", last_labels(host, labels));
        let mut zones = self.zones.lock();
        if let Some(places) = zones.get(&zone).and_then(Weak::upgrade) {
            return places;
        }
        // As many are alive as there are callers.
        zones.retain(|_, places| places.strong_count() > 0);
        let places = Arc::new(Semaphore::new(most));
        zones.insert(zone, Arc::downgrade(&places));
        places
    }
}

impl Default for SystemLookup {
    fn default() -> Self {
        Self::asking(|host| {
            let found = (host, 0).to_socket_addrs()?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

impl Lookup for SystemLookup {
    fn lookup<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let closed = |_| io::Error::other("lookups have ended");
            let mut held = Vec::new();
            for (labels, most) in MAX_LOOKUPS_BELOW.into_iter().rev() {
                let zone = self.zone(host, labels, most);
                held.push(zone.acquire_owned().await.map_err(closed)?);
            }
            let places = Arc::clone(&self.places);
            held.push(places.acquire_owned().await.map_err(closed)?);
            let (host, ask) = (host.to_owned(), self.ask);
            let asking = tokio::task::spawn_blocking(move || {
                // Held until the system has answered, even if the caller has timed out.
                let _held = held;
                ask(&host)
            });
            asking.await.map_err(io::Error::other)?
        })
    }
}

/// So many of the last labels of a name.
fn last_labels(host: &str, count: usize) -> &str {
    let host = host.trim_end_matches('.');
    let mut dots = host.rmatch_indices('.').map(|(at, _)| at);
    dots.nth(count - 1).map_or(host, |at| &host[at + 1..])
}

/// Hands the client the addresses of a name that the rules let through.
#[derive(Clone)]
pub(crate) struct Resolver {
    pub(crate) lookup: Arc<dyn Lookup>,
    pub(crate) rules: Rules,
    /// Refuses names with a public address.
    pub(crate) only_inside: bool,
    pub(crate) pins: Pins,
}

/// Addresses that requests under way have looked up already, by the name as it is asked for: the
/// client connects to those and to no others.
#[derive(Clone, Default)]
pub(crate) struct Pins(Arc<Mutex<HashMap<String, Pinned>>>);

struct Pinned {
    addresses: Vec<IpAddr>,
    requests: usize,
}

/// Keeps the addresses of a name pinned.
pub(crate) struct Pin {
    pins: Pins,
    name: String,
}

impl Pins {
    /// Pins what was looked up last.
    pub(crate) fn pin(&self, name: &str, addresses: Vec<IpAddr>) -> Pin {
        let mut pins = self.0.lock();
        let requests = pins.get(name).map_or(0, |pinned| pinned.requests) + 1;
        let pinned = Pinned {
            addresses,
            requests,
        };
        pins.insert(name.to_owned(), pinned);
        Pin {
            pins: self.clone(),
            name: name.to_owned(),
        }
    }

    fn get(&self, name: &str) -> Option<Vec<IpAddr>> {
        let pins = self.0.lock();
        pins.get(name).map(|pinned| pinned.addresses.clone())
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let mut pins = self.pins.0.lock();
        if let Some(pinned) = pins.get_mut(&self.name) {
            pinned.requests -= 1;
            if pinned.requests == 0 {
                pins.remove(&self.name);
            }
        }
    }
}

/// Why a name leads nowhere.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LookupError {
    #[error(transparent)]
    Forbidden(#[from] Forbidden),
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Resolver {
    /// The addresses of a name that may be connected to; never none.
    pub(crate) async fn addresses(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        let domain = Domain::parse(name).map_err(|_| Forbidden::NoHost)?;
        let found = self.lookup.lookup(name).await?;
        if self.only_inside && found.iter().any(|address| self.rules.is_public(*address)) {
            return Err(Forbidden::PlainCredential(domain).into());
        }
        let allowed = sift(&self.rules, &domain, found)
            .map_err(|special| Forbidden::Name { domain, special })?;
        if allowed.is_empty() {
            let nothing = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
            return Err(nothing.into());
        }
        Ok(allowed)
    }
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let resolver = self.clone();
        Box::pin(async move {
            let pinned = resolver.pins.get(name.as_str());
            let allowed = match pinned {
                Some(pinned) => pinned,
                None => match resolver.addresses(name.as_str()).await {
                    Ok(allowed) => allowed,
                    Err(LookupError::Forbidden(forbidden)) => return Err(forbidden.into()),
                    Err(LookupError::Io(error)) => return Err(error.into()),
                },
            };
            // The client fills in the port of the URL.
            let allowed = allowed
                .into_iter()
                .map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(allowed) as Addrs)
        })
    }
}

/// The addresses of a name whose answers may all be connected to (G02-53). One that may not refuses the
/// name: an address inside beside a public one is there to find out which is taken.
fn sift(rules: &Rules, host: &Domain, mut found: Vec<IpAddr>) -> Result<Vec<IpAddr>, Special> {
    let refused = found
        .iter()
        .find_map(|address| rules.refuse(host, *address));
    if let Some(special) = refused {
        return Err(special);
    }
    found.truncate(MAX_ADDRESSES);
    Ok(found)
}

#[cfg(test)]
mod tests;
