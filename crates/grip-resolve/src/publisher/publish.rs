//! One publication: the requests that publish a repository or the node record.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use grip_dht::{Dht, DhtError};
use grip_nostr::RepoAddr;

use super::schedule::Reason;
use crate::{
    Key, LocalError, Manifest, ManifestId, counters::count, node_record::unix_now, node_record_key,
    resolver::Core,
};

#[derive(Debug, thiserror::Error)]
enum PublishError {
    #[error(transparent)]
    Local(#[from] LocalError),
    #[error(transparent)]
    Dht(#[from] DhtError),
}

/// Publishes a repository as it is now; returns the reason for a retry if that fails.
pub(super) async fn repository(
    core: &Arc<Core>,
    name: RepoAddr,
    reason: Reason,
    scan: u64,
) -> (RepoAddr, Result<(), Reason>) {
    let published = publish(core, &name, reason, scan).await;
    let result = published.map_err(|error| {
        count(&core.counters.publish_failures_total);
        let error = &error as &dyn std::error::Error;
        tracing::debug!(%name, error, "failed to publish repository");
        // Part of it may be published: the retry publishes all of it.
        Reason::Refresh
    });
    (name, result)
}

async fn publish(
    core: &Core,
    name: &RepoAddr,
    reason: Reason,
    scan: u64,
) -> Result<(), PublishError> {
    let local = &core.local_manifests;
    let mut manifests = local.all_of(name).await?;
    let current = Manifest::join_all(manifests.iter().cloned());
    // The joint of several may be another manifest than each of them.
    let joint = current.iter().filter(|joint| !manifests.contains(joint));
    manifests.extend(joint.cloned().collect::<Vec<_>>());
    let ids: BTreeSet<ManifestId> = manifests.iter().map(Manifest::id).collect();
    let before = local.published(|published| {
        let before = published.ids(name);
        // Known here before it is published, so that requests for it find it.
        published.set(name, ids.clone(), scan);
        before
    });
    let Some(dht) = core.network.as_ref().map(|network| &network.dht) else {
        return Ok(());
    };
    for gone in before.difference(&ids) {
        dht.withdraw(&Key::Manifest(*gone).record()).await;
    }
    let key = Key::Name(name.clone());
    let Some(current) = current else {
        if !before.is_empty() {
            dht.withdraw(&key.record()).await;
            count(&core.counters.withdrawn_total);
        }
        return Ok(());
    };
    let is_new = |id: &ManifestId| reason == Reason::Refresh || !before.contains(id);
    for manifest in manifests.iter().filter(|it| is_new(&it.id())) {
        put(dht.as_ref(), &Key::Manifest(manifest.id()), manifest).await?;
    }
    if is_new(&current.id()) {
        // If it has changed meanwhile, the next publication, or a withdrawal, follows.
        if local.find(&key).await?.as_ref() != Some(&current) {
            return Ok(());
        }
        put(dht.as_ref(), &key, &current).await?;
        local.published(|published| published.mark_published(name, scan));
        count(&core.counters.published_total);
    }
    Ok(())
}

async fn put(dht: &dyn Dht, key: &Key, manifest: &Manifest) -> Result<(), DhtError> {
    let value: Option<Bytes> = manifest.fits_a_record().then(|| manifest.bytes().clone());
    dht.publish(key.record(), value).await.map(|_| ())
}

/// Signs and publishes this node's record.
pub(super) async fn node_record(core: &Core) {
    let (Some(identity), Some(network)) = (&core.identity, &core.network) else {
        return;
    };
    let region = core.options.get().ranking.region.clone();
    let region = Some(region).filter(|region| !region.is_empty());
    let signed = identity.key.sign(identity.urls.clone(), region, unix_now());
    let bytes = match signed {
        Ok(bytes) => bytes,
        Err(error) => {
            tracing::warn!(%error, "failed to sign the node record");
            return;
        }
    };
    let key = node_record_key(identity.key.peer());
    core.local_manifests
        .set_node_record(key.clone(), bytes.clone());
    if let Err(error) = network.dht.publish(key, Some(bytes)).await {
        tracing::debug!(%error, "failed to publish the node record");
    }
}
