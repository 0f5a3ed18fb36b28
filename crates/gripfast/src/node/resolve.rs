//! Wiring of the resolver and of the network in which other nodes find this one.

use std::sync::Arc;

use anyhow::Context as _;
use grip_dht::{
    Dht,
    kademlia::{self, Kademlia},
};
use grip_limits::{Lane, Throttle};
use grip_resolve::{
    Admin, BreakerOptions, HealthOf, HostHealth, Identity, LocalManifests, NodeKey, Options, Parts,
    RankingOptions, Resolver,
};
use grip_tasks::{Live, TaskGroup};
use grip_types::Service;
use url::Url;

use super::{
    base::Base,
    external_addresses::{ExternalAddresses, SystemNames},
};
use crate::{
    config::{Settings, options::Discovery},
    private_file,
};

/// The file in the data directory with the secret key of this node in the network.
const KEY_FILE: &str = "node.key";

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
        let history = throttle.history(host);
        HostHealth {
            // A host that is only throttled may be healthy.
            is_open: throttle.failures(host) > 0 && throttle.is_throttled(host, Lane::Git),
            successes: history.successes,
            failures: history.failures,
            latency: history.latency,
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
    let external = ExternalAddresses::new(discovery, SystemNames);
    let found = external.find().await;
    found.warn();
    let options = kademlia::Options {
        listen: discovery.dht_listen.clone(),
        external: found.addresses.clone(),
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
    let dht = Arc::new(dht);
    if external.has_names() {
        let (dht, stop) = (Arc::clone(&dht), work.token());
        let mut last = found;
        work.spawn("dht.names", async move {
            while let Some(()) = stop.run_until_cancelled(external.changed(&mut last)).await {
                let addresses = last.addresses.join(", ");
                tracing::info!(addresses, "telling other nodes new addresses of this one");
                if let Err(error) = dht.set_external(&last.addresses).await {
                    tracing::warn!(%error, "failed to tell other nodes the new addresses");
                }
            }
        });
    }
    Ok(dht)
}

fn identity(seed: &[u8; 32], service: &Service) -> anyhow::Result<Identity> {
    let url = Url::parse(&service.http_url()).context("the service has no URL")?;
    Ok(Identity {
        key: NodeKey::from_seed(seed),
        urls: vec![url],
    })
}
