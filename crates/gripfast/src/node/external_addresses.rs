//! Addresses of this node that other nodes are told (`dht_external`).
//!
//! Other nodes dial no names, so a name of ours is told as the addresses that it has. Those of a home
//! change: the name is looked up again and again.

use std::{io, net::IpAddr, time::Duration};

use grip_egress::Special;
use tokio::{
    net::lookup_host,
    time::{sleep, timeout},
};

use crate::config::options::Discovery;

/// How long a lookup may take.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// How often the names are looked up.
const INTERVAL: Duration = Duration::from_secs(5 * 60);

/// Addresses of host names.
pub(super) trait Names: Send + Sync {
    fn addresses(&self, host: &str) -> impl Future<Output = io::Result<Vec<IpAddr>>> + Send;
}

/// The names of the system.
pub(super) struct SystemNames;

impl Names for SystemNames {
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let found = timeout(LOOKUP_TIMEOUT, lookup_host((host, 0))).await??;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// What the operator says about where this node is.
pub(super) struct ExternalAddresses<N> {
    configured: Vec<String>,
    lan_only: bool,
    names: N,
}

/// What was found of it at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// What other nodes may be told.
    pub(super) addresses: Vec<String>,
    /// Why a name has none, each as a sentence.
    faults: Vec<String>,
}

impl Found {
    pub(super) fn warn(&self) {
        for fault in &self.faults {
            tracing::warn!("{fault}");
        }
    }
}

impl<N: Names> ExternalAddresses<N> {
    pub(super) fn new(discovery: &Discovery, names: N) -> Self {
        Self {
            configured: discovery.dht_external.clone(),
            lan_only: discovery.dht_lan_only,
            names,
        }
    }

    /// Whether a name is among them.
    pub(super) fn has_names(&self) -> bool {
        self.configured.iter().any(|text| named(text).is_some())
    }

    /// Looks the names up. One that cannot be used is left out: the node serves all the same.
    pub(super) async fn find(&self) -> Found {
        let mut found = Found::default();
        for text in &self.configured {
            let Some((version, host, rest)) = named(text) else {
                found.addresses.push(text.clone());
                continue;
            };
            match self.names.addresses(host).await {
                Ok(ips) => self.add(&mut found, text, (version, rest), ips),
                Err(error) => found.faults.push(format!(
                    "failed to look up the name in dht_external {text}: {error}; other nodes are \
                     not told of it"
                )),
            }
        }
        found
    }

    fn add(&self, found: &mut Found, text: &str, (version, rest): (&str, &str), ips: Vec<IpAddr>) {
        let is_usable = |ip: &IpAddr| match Special::of(*ip) {
            None => !self.lan_only,
            Some(Special::Private | Special::LinkLocal | Special::Loopback) => self.lan_only,
            Some(_) => false,
        };
        let is_meant = |ip: &IpAddr| match version {
            "dns4" => ip.is_ipv4(),
            "dns6" => ip.is_ipv6(),
            _ => true,
        };
        let before = found.addresses.len();
        for ip in ips.into_iter().filter(is_meant).filter(is_usable) {
            let protocol = if ip.is_ipv4() { "ip4" } else { "ip6" };
            let address = format!("/{protocol}/{ip}/{rest}");
            if !found.addresses.contains(&address) {
                found.addresses.push(address);
            }
        }
        if found.addresses.len() == before {
            found.faults.push(format!(
                "the name in dht_external {text} leads to no address that other nodes would dial: \
                 they are not told of it"
            ));
        }
    }

    /// Waits until the addresses are others than the `last` ones, and changes those. A name that
    /// cannot be looked up for the moment changes nothing.
    pub(super) async fn changed(&self, last: &mut Found) {
        loop {
            sleep(INTERVAL).await;
            let found = self.find().await;
            if found.faults != last.faults {
                found.warn();
                last.faults.clone_from(&found.faults);
            }
            if found.faults.is_empty() && !is_same(&found.addresses, &last.addresses) {
                *last = found;
                return;
            }
        }
    }
}

/// A name with several addresses has them in any order.
fn is_same(some: &[String], others: &[String]) -> bool {
    some.len() == others.len() && some.iter().all(|address| others.contains(address))
}

/// The parts of an address that begins with a host name.
fn named(address: &str) -> Option<(&str, &str, &str)> {
    let (version, rest) = address.strip_prefix('/')?.split_once('/')?;
    let (host, rest) = rest.split_once('/')?;
    matches!(version, "dns" | "dns4" | "dns6").then_some((version, host, rest))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;
    use crate::config::tests::Fake;

    /// Names and their addresses, which a test may change.
    #[derive(Clone, Default)]
    struct Table(Arc<Mutex<Vec<(&'static str, &'static str)>>>);

    impl Names for Table {
        async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
            let all = self.0.lock();
            let found = all.iter().filter(|(name, _)| *name == host);
            let found: Vec<_> = found.map(|(_, ip)| ip.parse().unwrap()).collect();
            if found.is_empty() {
                return Err(io::ErrorKind::NotFound.into());
            }
            Ok(found)
        }
    }

    fn external(addresses: &str, names: &Table) -> ExternalAddresses<Table> {
        let set = Fake::default().env("GRIPFAST_DHT_EXTERNAL", addresses);
        ExternalAddresses::new(&set.loaded().settings.discovery, names.clone())
    }

    #[tokio::test]
    async fn a_name_of_ours_is_told_as_its_addresses_and_stops_no_start() {
        let names = Table::default();
        *names.0.lock() = vec![
            ("node.example", "1.2.3.4"),
            ("node.example", "2606:4700::1"),
            ("lan.example", "10.0.0.1"),
        ];
        let told = async |addresses: &str| external(addresses, &names).find().await.addresses;
        assert_eq!(
            told("/dns4/node.example/tcp/7335").await,
            ["/ip4/1.2.3.4/tcp/7335"]
        );
        assert_eq!(
            told("/dns/node.example/tcp/1").await,
            ["/ip4/1.2.3.4/tcp/1", "/ip6/2606:4700::1/tcp/1"]
        );
        assert_eq!(told("/ip4/5.6.7.8/tcp/1").await, ["/ip4/5.6.7.8/tcp/1"]);
        for useless in ["/dns4/lan.example/tcp/1", "/dns4/nowhere.example/tcp/1"] {
            assert!(told(useless).await.is_empty(), "{useless}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_that_leads_elsewhere_replaces_its_addresses_and_a_failed_lookup_does_not() {
        let names = Table::default();
        *names.0.lock() = vec![("home.example", "1.2.3.4")];
        let external = external("/dns4/home.example/tcp/7335,/ip4/5.6.7.8/tcp/1", &names);
        assert!(external.has_names());
        let mut last = external.find().await;
        let before = last.addresses.clone();
        let unchanged = timeout(3 * INTERVAL, external.changed(&mut last)).await;
        assert!(unchanged.is_err());
        names.0.lock().clear();
        let failing = timeout(3 * INTERVAL, external.changed(&mut last)).await;
        assert!(failing.is_err() && last.addresses == before, "{last:?}");
        *names.0.lock() = vec![("home.example", "4.3.2.1")];
        external.changed(&mut last).await;
        assert_eq!(
            last.addresses,
            ["/ip4/4.3.2.1/tcp/7335", "/ip4/5.6.7.8/tcp/1"]
        );
    }
}
