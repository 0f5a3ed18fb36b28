//! Repair of one identifier with what a backup has of it.

use std::sync::Arc;

use grip_git::ReceiveError;
use grip_nostr::RepoAddr;
use grip_types::{Identifier, Oid};
use tokio::io::AsyncRead;

use super::Disagreement;
use crate::{DataSource, Grasp, LookError, error::GraspError, grasp::Core};

/// What a backup brought back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoredObjects {
    /// Bytes of the pack that was put into the store; 0 if that lacked nothing the backup has.
    pub pack_bytes: u64,
    /// Repositories that could not be read, were set aside as they were, and made again.
    pub remade: Vec<RepoAddr>,
    /// In what relay and git do not agree now, every object read.
    pub left: Vec<Disagreement>,
}

/// Why nothing was taken from a backup.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RestoreError {
    #[error("no repository of this name is hosted here")]
    NotHosted,
    #[error(transparent)]
    Pack(#[from] ReceiveError),
    #[error(transparent)]
    Look(#[from] LookError),
}

impl From<GraspError> for RestoreError {
    fn from(error: GraspError) -> Self {
        Self::Look(error.into())
    }
}

impl Grasp {
    /// Puts back what the objects of an identifier lack and `pack` has, and makes repositories again that
    /// cannot be read at all. The pack is of a backup, and complete in itself.
    ///
    /// No more is taken than what refs and events of now lead to, replaced versions of states among them,
    /// to which their author may return: objects that nothing else names, or deleted events, stay removed.
    /// Refs are never taken from a backup: events say what they are.
    pub async fn restore_objects<R>(
        &self,
        identifier: &Identifier,
        pack: R,
    ) -> Result<RestoredObjects, RestoreError>
    where
        R: AsyncRead + Send + Unpin,
    {
        let core = &self.core;
        if !core.identifiers().contains(identifier) {
            return Err(RestoreError::NotHosted);
        }
        core.set_unreadable_packs_aside(identifier).await?;
        let needed = core.needed(identifier).await?;
        let repositories = &core.repositories;
        let promoted = repositories.receive_restored(identifier, pack, &needed);
        let pack_bytes = promoted.await?.pack_bytes;
        if pack_bytes > 0 {
            tracing::info!(%identifier, pack_bytes, "put objects of a backup back");
        }
        let remade = core.set_unreadable_repositories_aside(identifier).await?;
        self.process_newly_available_git_data(identifier, DataSource::Fetch)
            .await
            .log(identifier);
        let mut left = self.settle(identifier).await;
        if left.is_empty() {
            left = core.fsck_all(identifier).await?;
        }
        Ok(RestoredObjects {
            pack_bytes,
            remade,
            left,
        })
    }
}

impl Core {
    /// Every object of an identifier that refs or events of any kind name.
    async fn needed(self: &Arc<Self>, identifier: &Identifier) -> Result<Vec<Oid>, GraspError> {
        let kept = self.holding.about_git().await?;
        let turns = self.turns(vec![identifier.clone()]).await?;
        let identifier = identifier.clone();
        let look = move |core: &Self| {
            let _turns = turns;
            let mut needed = core.named(&identifier, &kept)?;
            for owner in core.hosted.owners(&identifier).into_keys() {
                let addr = RepoAddr::new(owner, identifier.clone());
                // Where they cannot be read, events say what they were.
                if let Ok(refs) = core.repositories.refs(&addr) {
                    needed.extend(refs.iter().map(|found| found.oid));
                }
            }
            Ok(needed)
        };
        self.blocking("git.stores", look).await?
    }

    /// Moves repositories away that a check leaves to a person, because it cannot tell what they are:
    /// whoever restores them has told. Contributor repositories have objects of their own, and stay.
    async fn set_unreadable_repositories_aside(
        self: &Arc<Self>,
        identifier: &Identifier,
    ) -> Result<Vec<RepoAddr>, GraspError> {
        let turns = self.turns(vec![identifier.clone()]).await?;
        let identifier = identifier.clone();
        let set_aside = move |core: &Self| {
            let _turns = turns;
            let mut moved = Vec::new();
            for owner in core.hosted.owners(&identifier).into_keys() {
                let addr = RepoAddr::new(owner, identifier.clone());
                core.repositories.read_again(&addr);
                let refs = core.repositories.refs(&addr);
                if refs.is_err_and(|error| error.is_foreign()) {
                    tracing::warn!(repository = %addr, "setting a repository aside that cannot be read");
                    core.commit.set_repository_aside(&addr)?;
                    moved.push(addr);
                }
            }
            Ok(moved)
        };
        self.blocking("git.refs", set_aside).await?
    }
}
