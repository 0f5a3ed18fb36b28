//! The pack of a fetch: from the response of another server into the store.

use std::time::Duration;

use grip_types::{Identifier, Oid};
use tokio::{
    io::{AsyncRead, AsyncReadExt, sink},
    time::timeout,
};

use super::{Caps, ReceiveError, blocking};
use crate::{
    remote::{Version, open_pack},
    repositories::Repositories,
};

/// What may follow a pack before we hang up, and how long it may take.
const MAX_TAIL_BYTES: u64 = 64 << 10;
const TAIL_TIME: Duration = Duration::from_secs(1);

impl Repositories {
    /// Takes the pack of a response to a fetch: received, cut to `wanted` and what that needs, and
    /// promoted. Returns those of `wanted` that are here now because of it, or that were here
    /// already if it brought nothing.
    ///
    /// The body is let go as soon as the pack is whole: others may ask the host while git works.
    pub async fn receive_fetched<R>(
        &self,
        identifier: &Identifier,
        mut body: R,
        version: Version,
        wanted: Vec<Oid>,
        caps: Caps,
    ) -> Result<Vec<Oid>, ReceiveError>
    where
        R: AsyncRead + Send + Unpin,
    {
        let received = match open_pack(&mut body, version).await {
            Ok(pack) => self.receive_within(identifier, pack, caps).await,
            Err(error) => Err(error.into()),
        };
        hang_up(&mut body).await;
        drop(body);
        let pruned = received?.prune_to(&wanted).await?;
        blocking(move || {
            if pruned.arrived.is_empty() {
                // It is here already: another fetch was quicker.
                let kinds = pruned.quarantine.kinds(&wanted);
                let kinds = kinds.map_err(std::io::Error::other)?;
                let here = wanted.iter().zip(kinds).filter(|(_, kind)| kind.is_some());
                return Ok(here.map(|(oid, _)| *oid).collect());
            }
            pruned.quarantine.promote()?;
            Ok(pruned.arrived)
        })
        .await
    }
}

/// Reads the few bytes after the end of an answer, so that it counts as complete.
pub async fn hang_up(body: &mut (impl AsyncRead + Unpin)) {
    let mut tail = body.take(MAX_TAIL_BYTES);
    let mut nowhere = sink();
    let reading = tokio::io::copy(&mut tail, &mut nowhere);
    // Whatever is wrong with it, what came before is judged by itself.
    let _ = timeout(TAIL_TIME, reading).await;
}
