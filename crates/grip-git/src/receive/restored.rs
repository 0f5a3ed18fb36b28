//! The pack of a backup: what a damaged store lacks of it comes back.

use grip_types::{Identifier, Oid};
use tokio::io::AsyncRead;

use super::{Caps, Quarantine, ReceiveError, blocking};
use crate::{
    memory::Payer,
    packs::{Marked, Promoted, QuarantinedPack},
    repositories::{DiskUser, Repositories},
};

impl Repositories {
    /// Takes a pack of which a store lacks some objects, and puts those into the store that `needed` ones
    /// lead to, however far. The pack has to be complete in itself, since nothing that a damaged store
    /// has can be relied on; all other objects of it are dropped.
    ///
    /// What leads there may itself be in the store: where a push from before the backup is lost, those
    /// from after it are sound and lead into the pack.
    pub async fn receive_restored<R>(
        &self,
        identifier: &Identifier,
        pack: R,
        needed: &[Oid],
    ) -> Result<Promoted, ReceiveError>
    where
        R: AsyncRead + Send + Unpin,
    {
        let caps = Caps {
            // As large as what the operator has kept of it.
            max_pack_bytes: u64::MAX,
            stall: self.inner.options.stall,
            payer: Payer::Maintenance,
            progress: None,
            disk_user: DiskUser::Maintainer,
        };
        let mut received = self.receive_apart(identifier, pack, caps).await?;
        let Some(pack) = &received.pack else {
            return Ok(Promoted::default());
        };
        let within = received.needed(pack, needed).await?;
        received.rest_on_store().await?;
        let pack = received.pack.as_ref().expect("it was there above");
        let marked = match received.led_to(pack, needed).await? {
            Some(marked) => marked,
            // More is missing than the pack has: what it has whole comes back all the same.
            None => within,
        };
        let (marked, compared) = received.compare(marked).await?;
        if !compared.has_new {
            return Ok(Promoted::default());
        }
        let restored = if compared.has_extra {
            received.repack(pack, &marked).await?
        } else {
            received
        };
        blocking(move || restored.promote()).await
    }
}

impl Quarantine {
    /// From now on the store counts for a pack that was received apart.
    async fn rest_on_store(&mut self) -> Result<(), ReceiveError> {
        let (inner, identifier) = (self.repositories.inner.clone(), self.identifier.clone());
        blocking(move || {
            let _turn = inner.lock(&identifier);
            inner.packs.ensure(&identifier)
        })
        .await?;
        self.is_apart = false;
        if let Some(pack) = &mut self.pack {
            pack.rest_on_store();
        }
        Ok(())
    }

    /// Marks the objects of the pack that `roots` lead to, through the store and the pack; none if some on
    /// the way are in neither.
    async fn led_to(
        &self,
        pack: &QuarantinedPack,
        roots: &[Oid],
    ) -> Result<Option<Marked>, ReceiveError> {
        let index = pack.index();
        let (here, mut marked) = {
            let (reader, repositories) = (pack.objects.clone(), self.repositories.clone());
            let (identifier, roots) = (self.identifier.clone(), roots.to_vec());
            blocking(move || {
                let kinds = repositories.kinds(&identifier, &roots);
                let kinds = kinds.map_err(std::io::Error::other)?;
                let reader = reader.reader();
                let here = roots.iter().zip(kinds);
                let here = here.filter(|(oid, kind)| kind.is_some() || reader.kind(oid).is_some());
                let here: Vec<Oid> = here.map(|(oid, _)| *oid).collect();
                Ok((here, Marked::open(index)?))
            })
            .await?
        };
        let walked = self.list_into(pack, &here, &[], &mut marked);
        match walked.await {
            Ok(()) => Ok(Some(marked)),
            Err(error) if error.is_ours() => Err(error),
            Err(_) => Ok(None),
        }
    }
}
