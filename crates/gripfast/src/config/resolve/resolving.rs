//! The settings of the resolver and its network.

use grip_types::{Domain, Service};
use url::Url;

use super::Resolver;
use crate::config::{
    parse,
    settings::{Network, Resolve},
};

impl Resolver<'_> {
    pub(super) fn resolving(&mut self) -> Resolve {
        let addresses = |key| self.optional(key, parse::multiaddrs).unwrap_or_default();
        let network = Network {
            listen: addresses("dht_listen"),
            external: addresses("dht_external"),
            bootstrap: addresses("dht_bootstrap"),
            lan_only: self.get("dht_lan_only", parse::boolean),
        };
        let is_on = self.get("dht_enabled", parse::boolean);
        Resolve {
            network: is_on.then_some(network),
            alpha: self.count("resolve_alpha"),
            beta: self.count("resolve_beta"),
            hedge: self.get("resolve_hedge", parse::duration),
            deadline: self.get("resolve_deadline", parse::duration),
            workers: self.count("resolve_workers"),
            cache_bytes: self.get("resolve_cache_bytes", parse::bytes),
            region: self
                .value("resolve_region")
                .text
                .clone()
                .unwrap_or_default(),
            deny: self.denied(),
        }
    }

    fn denied(&self) -> Vec<Domain> {
        let hosts = self.optional("resolve_deny", parse::services);
        let hosts = hosts.unwrap_or_default();
        let urls = hosts.iter().map(Service::http_url);
        let hosts = urls.filter_map(|url| Domain::of(&Url::parse(&url).ok()?));
        hosts.collect()
    }
}
