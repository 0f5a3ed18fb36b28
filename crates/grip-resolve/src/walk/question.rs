//! One question to one peer, and what to make of its answer.

use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use grip_dht::{AskError, Peer, PeerName, RecordKey, Reply};
use tokio::time::timeout;

use super::Network;
use crate::{InvalidManifest, Key, Manifest, ManifestId, breaker::Pass};

/// Longer values are not judged on the runtime.
const INLINE_BYTES: usize = 16 << 10;

pub(super) type Question<'a> = BoxFuture<'a, Asked>;

/// A question that was answered or failed.
pub(super) struct Asked {
    pub peer: PeerName,
    pub pass: Pass,
    pub heard: Result<Heard, AskError>,
}

/// Whom a peer names.
pub(super) struct Named {
    pub providers: Vec<Peer>,
    pub closer: Vec<Peer>,
}

pub(super) enum Heard {
    Manifest(Manifest, Named),
    Nothing(Named),
    /// A value that does not prove itself. Nothing else that the peer said counts.
    Lie,
    /// The very bytes that were asked for, and they are no manifest.
    NoManifest,
}

impl Heard {
    pub fn is_lie(&self) -> bool {
        matches!(self, Self::Lie)
    }
}

pub(super) fn ask<'a>(
    network: &'a Network,
    key: &'a Key,
    record: RecordKey,
    peer: Peer,
    pass: Pass,
    limit: Duration,
) -> Question<'a> {
    Box::pin(async move {
        let asked = async {
            let reply = network.dht.ask(&peer, &record).await?;
            Ok(judge(network, key, reply).await)
        };
        let heard = timeout(limit, asked).await;
        let heard = heard.unwrap_or(Err(AskError::Transient));
        let peer = peer.id;
        Asked { peer, pass, heard }
    })
}

async fn judge(network: &Network, key: &Key, reply: Reply) -> Heard {
    let named = Named {
        providers: reply.providers,
        closer: reply.closer,
    };
    let Some(value) = reply.value else {
        return Heard::Nothing(named);
    };
    match read(network, key, value).await {
        Read::Manifest(manifest) => Heard::Manifest(manifest, named),
        Read::Lie => Heard::Lie,
        Read::NoManifest => Heard::NoManifest,
    }
}

pub(super) enum Read {
    Manifest(Manifest),
    Lie,
    NoManifest,
}

impl Read {
    pub fn into_manifest(self) -> Option<Manifest> {
        match self {
            Self::Manifest(manifest) => Some(manifest),
            Self::Lie | Self::NoManifest => None,
        }
    }
}

/// What to make of the bytes that lie under `key`.
pub(super) async fn read(network: &Network, key: &Key, value: Bytes) -> Read {
    if value.len() <= INLINE_BYTES {
        return decode(key, &value);
    }
    let key = key.clone();
    let reading = network
        .group
        .spawn_blocking("resolve.decode", move || decode(&key, &value));
    reading.await.unwrap_or(Read::Lie)
}

fn decode(key: &Key, value: &Bytes) -> Read {
    match key {
        Key::Manifest(id) if ManifestId::of(value) != *id => Read::Lie,
        Key::Manifest(_) => match Manifest::decode(value) {
            Ok(manifest) => Read::Manifest(manifest),
            // A version that this node does not know yet is not known to be none.
            Err(InvalidManifest::Version) => Read::Lie,
            Err(_) => Read::NoManifest,
        },
        Key::Name(name) => match Manifest::decode(value) {
            Ok(manifest) if manifest.name() == *name => Read::Manifest(manifest),
            _ => Read::Lie,
        },
    }
}
