//! The way of one request: the addresses that a name leads to, and the networks they are counted in.

use std::net::IpAddr;

use grip_limits::{Networks, Permit, Verdict};
use grip_types::Domain;
use tokio::time::{Instant, timeout_at};
use url::{Host, Url};

use super::{Client, Egress};
use crate::{
    address,
    error::{EgressError, Fault, Phase},
    guard::Forbidden,
    lookup::{LookupError, Pin},
    options::Options,
};

/// Addresses that are looked up, judged and paid for.
#[derive(Default)]
pub(super) struct Route {
    /// Held until the response has come: by then the client is connected.
    _pin: Option<Pin>,
    pub(super) networks: Option<Permit<Networks>>,
}

impl Egress {
    /// [`Egress::route`], which gives the permit back where there is no way.
    pub(super) async fn route_or_settle(
        &self,
        client: &Client,
        url: &Url,
        permit: Permit,
        deadline: Instant,
    ) -> Result<(Route, Permit), EgressError> {
        let error = match self.route(client, url, &permit, deadline).await {
            Ok(route) => return Ok((route, permit)),
            Err(error) => error,
        };
        let is_failure = matches!(
            error,
            EgressError::TimedOut(_) | EgressError::Unreachable { .. }
        );
        if is_failure {
            permit.finish(Verdict::Failure, None);
        } else {
            permit.unused();
        }
        Err(error)
    }

    /// Looks up where a request goes and pays for it there, if networks are counted at all.
    async fn route(
        &self,
        client: &Client,
        url: &Url,
        permit: &Permit,
        deadline: Instant,
    ) -> Result<Route, EgressError> {
        let options = &self.inner.options;
        if !options.counts_networks {
            return Ok(Route::default());
        }
        let patience = deadline.min(Instant::now() + options.connect);
        let domain = permit.domain();
        let (name, addresses) = match url.host() {
            Some(Host::Ipv4(address)) => (None, vec![IpAddr::from(address)]),
            Some(Host::Ipv6(address)) => (None, vec![IpAddr::from(address)]),
            Some(Host::Domain(name)) => {
                let looking = timeout_at(patience, client.resolver.addresses(name));
                let found = looking
                    .await
                    .map_err(|_| EgressError::TimedOut(Phase::Lookup))?;
                (Some(name), found.map_err(|error| nowhere(domain, error))?)
            }
            None => return Err(Forbidden::NoHost.into()),
        };
        check_own_address(options, url, domain, &addresses)?;
        let throttle = &self.inner.throttle;
        let networks = throttle.acquire_networks(domain, addresses.clone())?;
        Ok(Route {
            _pin: name.map(|name| client.resolver.pins.pin(name, addresses)),
            networks: Some(networks),
        })
    }
}

/// Refuses where we listen: one address, or any of this machine.
fn check_own_address(
    options: &Options,
    url: &Url,
    domain: &Domain,
    addresses: &[IpAddr],
) -> Result<(), Forbidden> {
    let Some(own) = options.own_address else {
        return Ok(());
    };
    let is_here = |ip: &IpAddr| {
        let ip = ip.to_canonical();
        let is_any = own.ip().is_unspecified() && (ip.is_loopback() || address::is_own(ip));
        is_any || ip == own.ip().to_canonical()
    };
    if url.port_or_known_default() == Some(own.port()) && addresses.iter().any(is_here) {
        return Err(Forbidden::Own(domain.clone()));
    }
    Ok(())
}

fn nowhere(domain: &Domain, error: LookupError) -> EgressError {
    match error {
        LookupError::Forbidden(forbidden) => forbidden.into(),
        LookupError::Io(error) => EgressError::Unreachable {
            domain: domain.clone(),
            source: Fault::lookup(error),
        },
    }
}
