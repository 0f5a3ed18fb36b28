//! Rules for URLs: schemes, hosts, ports and our own service, before any name is resolved.

use std::net::Ipv4Addr;

use grip_types::{Domain, Service};
use url::{Host, Url};

use crate::address::{Rules, Special};

/// Longest URL that is sent; a host can make up any length in a redirect.
const MAX_URL_BYTES: usize = 8192;

/// Why a request must not be made at all.
///
/// A name that leads to a refused address is not told together with that address: a client that
/// named the host would learn how our network looks from inside.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Forbidden {
    #[error("URLs with the scheme `{0}` are not fetched")]
    Scheme(String),
    #[error("the URL carries a user name or a password")]
    UserInfo,
    #[error("the URL names no host")]
    NoHost,
    #[error("the URL names port 0")]
    Port,
    #[error("the URL is longer than {MAX_URL_BYTES} bytes")]
    TooLong,
    #[error("{0} is this service itself")]
    Own(Domain),
    #[error("{domain} is not a public host: it is {special}")]
    Address { domain: Domain, special: Special },
    #[error("{domain} is not a public host: its name leads to {special}")]
    Name { domain: Domain, special: Special },
    #[error("a redirect leads to {0}, which is only asked directly")]
    Private(Domain),
    #[error("{0} is a private service (GRASP-08), which a public one asks for nothing")]
    PrivateService(Domain),
    #[error("a credential is not sent to {0} in plain http, because that is a public host")]
    PlainCredential(Domain),
}

/// The part of the egress guard that needs no network.
#[derive(Clone, Debug)]
pub(crate) struct Guard {
    pub(crate) rules: Rules,
    pub(crate) own: Vec<Service>,
    pub(crate) schemes: Vec<String>,
}

impl Guard {
    /// Gives the host that a request to `url` counts for, or says why there must be none.
    ///
    /// Names that must be looked up are judged again when their addresses are known.
    pub(crate) fn check(&self, url: &Url) -> Result<Domain, Forbidden> {
        self.check_scheme(url)?;
        if !url.username().is_empty() || url.password().is_some() {
            return Err(Forbidden::UserInfo);
        }
        if url.as_str().len() > MAX_URL_BYTES {
            return Err(Forbidden::TooLong);
        }
        let domain = Domain::of(url).ok_or(Forbidden::NoHost)?;
        if url.port() == Some(0) {
            return Err(Forbidden::Port);
        }
        let plain = in_plain_form(url);
        if self.own.iter().any(|own| own.has_authority(&plain)) {
            return Err(Forbidden::Own(domain));
        }
        match self.refuse_host(&domain, &plain) {
            Some(special) => Err(Forbidden::Address { domain, special }),
            None => Ok(domain),
        }
    }

    fn check_scheme(&self, url: &Url) -> Result<(), Forbidden> {
        let scheme = url.scheme();
        let is_spoken = matches!(scheme, "http" | "https");
        if is_spoken && self.schemes.iter().any(|known| known == scheme) {
            return Ok(());
        }
        Err(Forbidden::Scheme(scheme.chars().take(20).collect()))
    }

    /// Says why a credential must not be sent to `url`, as far as the URL alone can tell: where
    /// a name leads is judged when it is asked.
    pub(crate) fn check_credential(&self, url: &Url) -> Result<(), Forbidden> {
        let address = match in_plain_form(url).host() {
            Some(Host::Ipv4(address)) => address.into(),
            Some(Host::Ipv6(address)) => address.into(),
            Some(Host::Domain(_)) | None => return Ok(()),
        };
        if url.scheme() == "https" || !self.rules.is_public(address) {
            return Ok(());
        }
        let domain = Domain::of(url).ok_or(Forbidden::NoHost)?;
        Err(Forbidden::PlainCredential(domain))
    }

    /// Says why a redirect from a request that began at `start` must not lead to `domain`.
    pub(crate) fn check_redirect(&self, start: &Url, domain: &Domain) -> Result<(), Forbidden> {
        let is_home = Domain::of(start).is_some_and(|start| start == *domain);
        if self.rules.is_private(domain) && !is_home {
            return Err(Forbidden::Private(domain.clone()));
        }
        Ok(())
    }

    fn refuse_host(&self, domain: &Domain, url: &Url) -> Option<Special> {
        let rules = &self.rules;
        match url.host()? {
            Host::Ipv4(address) => rules.refuse(domain, address.into()),
            Host::Ipv6(address) => rules.refuse(domain, address.into()),
            // This name is this machine whatever a name server says.
            Host::Domain("localhost") => rules.refuse(domain, Ipv4Addr::LOCALHOST.into()),
            Host::Domain(_) => None,
        }
    }
}

/// The same URL with the one spelling of its host that comparisons know: no dot at the end, one
/// name for this machine, IPv4 addresses as such.
fn in_plain_form(url: &Url) -> Url {
    let mut plain = url.clone();
    let done = match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.strip_suffix('.').unwrap_or(name);
            let is_local = name == "localhost" || name.ends_with(".localhost");
            let name = if is_local { "localhost" } else { name };
            plain.set_host(Some(name)).is_ok()
        }
        Some(Host::Ipv6(address)) => plain.set_ip_host(address.to_canonical()).is_ok(),
        Some(Host::Ipv4(_)) | None => true,
    };
    debug_assert!(done, "a host that was parsed is a host");
    plain
}

#[cfg(test)]
mod tests;
