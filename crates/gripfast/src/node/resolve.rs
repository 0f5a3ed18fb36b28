//! Wiring of the resolver and of the network in which other nodes find this one.

use std::{path::Path, sync::Arc};

use anyhow::Context as _;
use arc_swap::ArcSwap;
use grip_dht::{
    Dht,
    kademlia::{self, Kademlia},
};
use grip_limits::{Lane, Throttle};
use grip_resolve::{
    Admin, HealthOf, HostHealth, Identity, LocalManifests, NodeKey, Options, Parts, RankingOptions,
    Resolver,
};
use grip_tasks::TaskGroup;
use grip_types::Service;
use url::Url;

use super::base::Base;
use crate::{config::options::Discovery, private_file};

/// The file in the data directory with the secret key of this node in the network.
const KEY_FILE: &str = "node.key";

/// The running resolver.
pub(super) struct Resolving {
    pub(super) resolver: Resolver,
    pub(super) admin: Admin,
    /// Swapped on reload.
    pub(super) options: Arc<ArcSwap<Options>>,
}

/// Starts the resolver, and the network if it is enabled.
pub(super) async fn start(base: &Base<'_>) -> anyhow::Result<Resolving> {
    let (settings, work) = (base.settings, base.front.child("resolve"));
    let local_manifests = LocalManifests::new(
        Arc::new(base.grasp.clone()),
        base.grasp.repository_event_changes(),
    );
    let discovery = &settings.discovery;
    let (dht, identity) = if discovery.dht_enabled {
        let seed = seed(&settings.storage.data_dir)?;
        let dht = start_dht(discovery, seed, &local_manifests, &work).await?;
        (Some(dht), Some(identity(&seed, base.service)?))
    } else {
        tracing::info!(
            "peer discovery (DHT) is disabled; enable it with GRIPFAST_DHT_ENABLED=true"
        );
        (None, None)
    };
    let options = Arc::new(ArcSwap::from_pointee(options(discovery)));
    let resolver = Resolver::start(Parts {
        dht,
        local_manifests,
        health: health(base.throttle.clone()),
        options: Arc::clone(&options),
        identity,
        group: work,
    });
    let admin = Admin::open(base.db.clone(), resolver.clone()).await;
    Ok(Resolving {
        resolver,
        admin: admin.context("cannot load the pins")?,
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
pub(super) fn options(settings: &Discovery) -> Options {
    Options {
        alpha: settings.resolve_alpha,
        beta: settings.resolve_beta,
        hedge: settings.resolve_hedge,
        deadline: settings.resolve_deadline,
        workers: settings.resolve_workers,
        cache_bytes: settings.resolve_cache_bytes,
        ranking: RankingOptions {
            region: settings.resolve_region.clone().unwrap_or_default(),
            deny: settings.resolve_deny.clone(),
            ..RankingOptions::default()
        },
        ..Options::default()
    }
}

async fn start_dht(
    discovery: &Discovery,
    seed: [u8; 32],
    local_manifests: &Arc<LocalManifests>,
    work: &TaskGroup,
) -> anyhow::Result<Arc<dyn Dht>> {
    let options = kademlia::Options {
        listen: discovery.dht_listen.clone(),
        external: discovery.dht_external.clone(),
        bootstrap: discovery.dht_bootstrap.clone(),
        lan_only: discovery.dht_lan_only,
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

/// The secret key of this node, the same at every start.
fn seed(data_dir: &Path) -> anyhow::Result<[u8; 32]> {
    let file = data_dir.join(KEY_FILE);
    let text = private_file::take(&file);
    let text = text.with_context(|| format!("cannot keep a key in {}", file.display()))?;
    let mut seed = [0; 32];
    faster_hex::hex_decode(text.as_bytes(), &mut seed).context("the key is not hexadecimal")?;
    Ok(seed)
}

fn identity(seed: &[u8; 32], service: &Service) -> anyhow::Result<Identity> {
    let url = Url::parse(&service.http_url()).context("the service has no URL")?;
    Ok(Identity {
        key: NodeKey::from_seed(seed),
        urls: vec![url],
    })
}
