//! Telling the network of one repository.

use std::{collections::BTreeSet, sync::Arc};

use bytes::Bytes;
use grip_dht::{Dht, DhtError};
use grip_nostr::RepoAddr;

use super::run::Why;
use crate::{
    Key, LocalError, Manifest, ManifestId, counters::count, node_record, resolver::Core, shelf::now,
};

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Local(#[from] LocalError),
    #[error(transparent)]
    Dht(#[from] DhtError),
}

/// Tells of a repository as it is now; if that fails, says why it is to be tried again.
pub(super) async fn tell(
    core: &Arc<Core>,
    name: RepoAddr,
    why: Why,
    pass: u64,
) -> (RepoAddr, Result<(), Why>) {
    let told = try_tell(core, &name, why, pass).await;
    let result = told.map_err(|failure| {
        count(&core.counters.publish_failures_total);
        let error = &failure as &dyn std::error::Error;
        tracing::debug!(%name, error, "the network was not told of a repository");
        // What was told in part is told whole.
        Why::Again
    });
    (name, result)
}

async fn try_tell(core: &Core, name: &RepoAddr, why: Why, pass: u64) -> Result<(), Failure> {
    let held = core.shelf.holdings(name).await?;
    let ids: BTreeSet<ManifestId> = held.iter().map(Manifest::id).collect();
    let current = Manifest::join_all(held.iter().cloned());
    let ids = ids
        .into_iter()
        .chain(current.iter().map(Manifest::id))
        .collect::<BTreeSet<_>>();
    let before = core.shelf.told(|told| {
        let before = told.ids(name);
        // Known here before others hear of it, so that whoever asks is answered.
        told.set(name, ids.clone(), pass);
        before
    });
    let Some(dht) = core.network.as_ref().map(|network| &network.dht) else {
        return Ok(());
    };
    for gone in before.difference(&ids) {
        dht.withdraw(&Key::Manifest(*gone).record()).await;
    }
    let Some(current) = current else {
        if !before.is_empty() {
            dht.withdraw(&Key::Name(name.clone()).record()).await;
            count(&core.counters.withdrawn_total);
        }
        return Ok(());
    };
    let is_new = |id: &ManifestId| why == Why::Again || !before.contains(id);
    // What several say together may be another manifest than each of them.
    let joint = (!held.contains(&current)).then_some(&current);
    for manifest in held.iter().chain(joint).filter(|it| is_new(&it.id())) {
        publish(dht.as_ref(), &Key::Manifest(manifest.id()), manifest).await?;
    }
    if is_new(&current.id()) {
        let key = Key::Name(name.clone());
        // That took its time. What has changed meanwhile is told of next, or withdrawn.
        if core.shelf.find(&key).await?.as_ref() != Some(&current) {
            return Ok(());
        }
        publish(dht.as_ref(), &key, &current).await?;
        core.shelf.told(|told| told.told(name, pass));
        count(&core.counters.published_total);
    }
    Ok(())
}

async fn publish(dht: &dyn Dht, key: &Key, manifest: &Manifest) -> Result<(), DhtError> {
    let value: Option<Bytes> = manifest.fits_a_record().then(|| manifest.bytes().clone());
    dht.publish(key.record(), value).await.map(|_| ())
}

/// Signs this node's card anew and publishes it.
pub(super) async fn card(core: &Core) {
    let (Some(identity), Some(network)) = (&core.identity, &core.network) else {
        return;
    };
    let region = core.options.load().rank.region.clone();
    let region = Some(region).filter(|region| !region.is_empty());
    let card = match identity.key.sign(identity.urls.clone(), region, now()) {
        Ok(card) => card,
        Err(error) => {
            tracing::warn!(%error, "this node has no card");
            return;
        }
    };
    let record = node_record(identity.key.peer());
    core.shelf.set_card(record.clone(), card.clone());
    if let Err(error) = network.dht.publish(record, Some(card)).await {
        tracing::debug!(%error, "the network did not take this node's card");
    }
}
