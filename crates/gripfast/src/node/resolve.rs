//! Wiring of the resolver and of the network in which other nodes find this one.

use std::{io, net::IpAddr, sync::Arc, time::Duration};

use anyhow::Context as _;
use grip_dht::{
    Dht,
    kademlia::{self, Kademlia},
};
use grip_egress::Special;
use grip_limits::{Lane, Throttle};
use grip_resolve::{
    Admin, BreakerOptions, HealthOf, HostHealth, Identity, LocalManifests, NodeKey, Options, Parts,
    RankingOptions, Resolver,
};
use grip_tasks::{Live, TaskGroup};
use grip_types::Service;
use tokio::{net::lookup_host, time::timeout};
use url::Url;

use super::base::Base;
use crate::{
    config::{Settings, options::Discovery},
    private_file,
};

/// The file in the data directory with the secret key of this node in the network.
const KEY_FILE: &str = "node.key";

/// How long the start waits for the addresses of a name of ours.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// The running resolver.
pub(super) struct Resolving {
    pub(super) resolver: Resolver,
    pub(super) admin: Admin,
    /// The network, if it is enabled.
    pub(super) dht: Option<Arc<Kademlia>>,
    /// Swapped on reload.
    pub(super) options: Arc<Live<Options>>,
}

/// Starts the resolver, and the network if it is enabled.
pub(super) async fn start(base: &Base<'_>) -> anyhow::Result<Resolving> {
    // Of the back: it goes on while the front answers what it has taken on.
    let (settings, work) = (base.settings, base.back.child("resolve"));
    let local_manifests = LocalManifests::new(
        Arc::new(base.grasp.clone()),
        base.grasp.repository_event_changes(),
        work.clone(),
    );
    let discovery = &settings.discovery;
    let (dht, identity) = if discovery.dht_enabled {
        let seed = private_file::seed(&settings.storage.data_dir.join(KEY_FILE))?;
        let dht = start_dht(discovery, seed, &local_manifests, &work).await?;
        (Some(dht), Some(identity(&seed, base.service)?))
    } else {
        tracing::info!(
            "peer discovery (DHT) is disabled; enable it with GRIPFAST_DHT_ENABLED=true"
        );
        (None, None)
    };
    let options = Arc::new(Live::new(options(settings)));
    let resolver = Resolver::start(Parts {
        dht: dht.clone().map(|dht| dht as Arc<dyn Dht>),
        local_manifests,
        health: health(base.throttle.clone()),
        options: Arc::clone(&options),
        identity,
        draining: base.front.token(),
        group: work,
    });
    let admin = Admin::open(base.db.clone(), resolver.clone()).await;
    Ok(Resolving {
        resolver,
        admin: admin.context("cannot load the pins")?,
        dht,
        options,
    })
}

/// The health of git hosts, from the throttle of the sync.
fn health(throttle: Throttle) -> Arc<HealthOf> {
    Arc::new(move |host| {
        let failures = throttle.failures(host);
        HostHealth {
            // A host that is only throttled may be healthy.
            is_open: failures > 0 && throttle.is_throttled(host, Lane::Git),
            successes: 0,
            failures,
        }
    })
}

/// The settings as options of the resolver.
pub(super) fn options(settings: &Settings) -> Options {
    let drain = settings.timeouts.drain_deadline;
    let settings = &settings.discovery;
    let defaults = Options::default();
    Options {
        alpha: settings.resolve_alpha,
        beta: settings.resolve_beta,
        hedge: settings.resolve_hedge,
        deadline: settings.resolve_deadline,
        request_timeout: settings.resolve_request_timeout,
        hit_ttl: settings.resolve_hit_ttl,
        negative_ttl: settings.resolve_negative_ttl,
        stale_for: settings.resolve_stale_for,
        workers: settings.resolve_workers,
        queue: settings.resolve_queue,
        drain,
        breaker: BreakerOptions {
            window: settings.resolve_breaker_window,
            trip_percent: settings.resolve_breaker_threshold,
            cooldown: settings.resolve_breaker_cooldown,
            probes: settings.resolve_breaker_probes,
            ..defaults.breaker
        },
        cache_bytes: settings.resolve_cache_bytes,
        ranking: RankingOptions {
            region: settings.resolve_region.clone().unwrap_or_default(),
            deny: settings.resolve_deny.clone(),
            ..RankingOptions::default()
        },
        ..defaults
    }
}

async fn start_dht(
    discovery: &Discovery,
    seed: [u8; 32],
    local_manifests: &Arc<LocalManifests>,
    work: &TaskGroup,
) -> anyhow::Result<Arc<Kademlia>> {
    let options = kademlia::Options {
        listen: discovery.dht_listen.clone(),
        external: external(discovery, &SystemNames).await,
        bootstrap: discovery.dht_bootstrap.clone(),
        lan_only: discovery.dht_lan_only,
        max_published: discovery.dht_max_published,
        ..kademlia::Options::new(seed)
    };
    let dht: Kademlia = kademlia::start(
        options,
        local_manifests.clone(),
        local_manifests.clone(),
        work,
    )
    .await
    .context("cannot start peer discovery (settings dht_…)")?;
    let status = dht.status();
    tracing::info!(
        peer = %status.peer,
        listening = status.listening.join(", "),
        "started peer discovery"
    );
    Ok(Arc::new(dht))
}

/// Addresses of host names.
trait Names {
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

struct SystemNames;

impl Names for SystemNames {
    async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let found = timeout(LOOKUP_TIMEOUT, lookup_host((host, 0))).await??;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// The addresses to tell other nodes. Those dial no names, so a name of ours is told as the addresses
/// that it has at the start. One that cannot be used is left out: the node serves all the same.
async fn external(discovery: &Discovery, names: &impl Names) -> Vec<String> {
    let mut external = Vec::new();
    for text in &discovery.dht_external {
        let Some((version, host, rest)) = named(text) else {
            external.push(text.clone());
            continue;
        };
        let found = match names.addresses(host).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(address = text, %error, "failed to look up the name in dht_external: other nodes are not told of it");
                continue;
            }
        };
        let is_usable = |ip: &IpAddr| match Special::of(*ip) {
            None => !discovery.dht_lan_only,
            Some(Special::Private | Special::LinkLocal | Special::Loopback) => {
                discovery.dht_lan_only
            }
            Some(_) => false,
        };
        let is_meant = |ip: &IpAddr| match version {
            "dns4" => ip.is_ipv4(),
            "dns6" => ip.is_ipv6(),
            _ => true,
        };
        let before = external.len();
        for ip in found.into_iter().filter(is_meant).filter(is_usable) {
            let protocol = if ip.is_ipv4() { "ip4" } else { "ip6" };
            let address = format!("/{protocol}/{ip}/{rest}");
            if !external.contains(&address) {
                external.push(address);
            }
        }
        if external.len() == before {
            tracing::warn!(
                address = text,
                "the name in dht_external leads to no address that other nodes would dial: they \
                 are not told of it"
            );
        }
    }
    external
}

/// The parts of an address that begins with a host name.
fn named(address: &str) -> Option<(&str, &str, &str)> {
    let (version, rest) = address.strip_prefix('/')?.split_once('/')?;
    let (host, rest) = rest.split_once('/')?;
    matches!(version, "dns" | "dns4" | "dns6").then_some((version, host, rest))
}

fn identity(seed: &[u8; 32], service: &Service) -> anyhow::Result<Identity> {
    let url = Url::parse(&service.http_url()).context("the service has no URL")?;
    Ok(Identity {
        key: NodeKey::from_seed(seed),
        urls: vec![url],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::tests::Fake;

    struct Table(Vec<(&'static str, &'static str)>);

    impl Names for Table {
        async fn addresses(&self, host: &str) -> io::Result<Vec<IpAddr>> {
            let found = self.0.iter().filter(|(name, _)| *name == host);
            let found: Vec<_> = found.map(|(_, ip)| ip.parse().unwrap()).collect();
            if found.is_empty() {
                return Err(io::ErrorKind::NotFound.into());
            }
            Ok(found)
        }
    }

    #[tokio::test]
    async fn a_name_of_ours_is_told_as_its_addresses_and_stops_no_start() {
        let names = Table(vec![
            ("node.example", "1.2.3.4"),
            ("node.example", "2606:4700::1"),
            ("lan.example", "10.0.0.1"),
        ]);
        let told = async |addresses: &str| {
            let set = Fake::default().env("GRIPFAST_DHT_EXTERNAL", addresses);
            external(&set.loaded().settings.discovery, &names).await
        };
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
}
