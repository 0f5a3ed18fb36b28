//! Names to addresses, and only to those that may be connected to.
//!
//! Invariant: a connection goes to an address that was judged in the very lookup that made it.
//! There is no second lookup in which a name could change its mind.

use std::{io, net::IpAddr, net::SocketAddr, sync::Arc};

use futures_util::future::BoxFuture;
use grip_types::Domain;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::{
    address::{Rules, Special},
    guard::Forbidden,
};

/// Addresses of one name that are tried; more only serve to keep us busy.
const MAX_ADDRESSES: usize = 8;

/// Where addresses of names come from.
pub trait Lookup: Send + Sync {
    /// Gives the addresses of `host`, best first.
    fn lookup<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>>;
}

/// Asks the operating system.
///
/// The question runs on a blocking thread and goes on there when nobody waits for it any more.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemLookup;

impl Lookup for SystemLookup {
    fn lookup<'a>(&'a self, host: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::net::lookup_host((host, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}

/// Hands the client those addresses of a name that the rules let through.
pub(crate) struct Resolver {
    pub(crate) lookup: Arc<dyn Lookup>,
    pub(crate) rules: Rules,
    /// Refuses names with a public address.
    pub(crate) only_inside: bool,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let lookup = Arc::clone(&self.lookup);
        let rules = self.rules.clone();
        let only_inside = self.only_inside;
        Box::pin(async move {
            let domain = Domain::parse(name.as_str()).map_err(|_| Forbidden::NoHost)?;
            let found = lookup.lookup(name.as_str()).await?;
            if only_inside && found.iter().any(|address| rules.is_public(*address)) {
                return Err(Forbidden::PlainCredential(domain).into());
            }
            let allowed = sift(&rules, &domain, found)
                .map_err(|special| Forbidden::Name { domain, special })?;
            if allowed.is_empty() {
                return Err(
                    io::Error::new(io::ErrorKind::NotFound, "the name has no address").into(),
                );
            }
            // The client fills in the port of the URL.
            let allowed = allowed
                .into_iter()
                .map(|address| SocketAddr::new(address, 0));
            Ok(Box::new(allowed) as Addrs)
        })
    }
}

/// Keeps the addresses that may be connected to; where there are only others, says what one is.
fn sift(rules: &Rules, host: &Domain, found: Vec<IpAddr>) -> Result<Vec<IpAddr>, Special> {
    let mut allowed = Vec::new();
    let mut refused = None;
    for address in found {
        match rules.refuse(host, address) {
            None if allowed.len() < MAX_ADDRESSES => allowed.push(address),
            None => break,
            Some(special) => refused = Some(special),
        }
    }
    match refused {
        Some(special) if allowed.is_empty() => Err(special),
        _ => Ok(allowed),
    }
}

#[cfg(test)]
mod tests;
