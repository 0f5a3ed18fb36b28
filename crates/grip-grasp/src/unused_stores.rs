//! Removal of object stores that nothing needs any more.
//!
//! Whatever ends — announcements, states, pull requests, what is still wanted — need not say so:
//! every sweep looks which stores have nothing left. Objects may also come after the end, with a
//! fetch that was under way.

use std::{collections::BTreeSet, io, sync::Arc};

use grip_purgatory::Purgatory;
use grip_types::Identifier;
use parking_lot::Mutex;

use crate::{error::GraspError, grasp::Core};

/// How many stores are removed in one sweep; the others wait for the next one.
const PER_SWEEP: usize = 256;

/// The stores that nothing in memory needs, but something on disk: archived repositories, and
/// those of another server whose events have not come. Bounded by the stores on disk.
#[derive(Default)]
pub(crate) struct RetainedStores {
    identifiers: Mutex<BTreeSet<Identifier>>,
    /// Those that nothing needs at all, and that the last sweep could not remove.
    left: Mutex<BTreeSet<Identifier>>,
}

/// An object directory that belongs to nobody.
pub(crate) struct StrayStore {
    /// What its name says, as far as it says something.
    pub(crate) identifier: Identifier,
    /// Its name below the object stores.
    pub(crate) directory: String,
}

impl RetainedStores {
    /// Something on disk has gone: all of them are looked at again.
    pub(crate) fn forget(&self) {
        self.identifiers.lock().clear();
    }
}

impl Core {
    /// Removes the stores of identifiers that nothing is left of, each in its turn.
    pub(crate) async fn remove_unused_stores(self: &Arc<Self>) -> Result<usize, GraspError> {
        let unused = self.blocking("git.stores", Self::unused_stores).await?;
        let unused = unused.map_err(|error| GraspError::Stores(Box::new(error)))?;
        let (mut removed, mut left) = (0, BTreeSet::new());
        for (place, identifier) in unused.into_iter().enumerate() {
            if place >= PER_SWEEP {
                left.insert(identifier);
                continue;
            }
            match self.remove_unused_store(identifier.clone()).await {
                Ok(true) => removed += 1,
                Ok(false) => {
                    left.insert(identifier);
                }
                Err(error) => {
                    tracing::warn!(%identifier, error = &error as &dyn std::error::Error, "failed to remove unused objects");
                    left.insert(identifier);
                }
            }
        }
        *self.kept.left.lock() = left;
        Ok(removed)
    }

    async fn remove_unused_store(
        self: &Arc<Self>,
        identifier: Identifier,
    ) -> Result<bool, GraspError> {
        let _turns = self.turns(vec![identifier.clone()]).await?;
        let remove = move |core: &Self| {
            if core.needs_objects(&identifier) {
                return Ok(false);
            }
            let removed = core.commit.remove_objects(&identifier)?;
            if removed {
                tracing::info!(%identifier, "removed unused objects");
            }
            Ok(removed)
        };
        self.blocking("git.remove", remove).await?
    }

    /// The object directories that belong to nobody: those that are named as no store is, and those that
    /// nothing needs and a sweep could not remove. Blocks.
    pub(crate) fn stray_stores(&self) -> io::Result<Vec<StrayStore>> {
        let left = self.kept.left.lock().clone();
        let unused = if left.is_empty() {
            BTreeSet::new()
        } else {
            self.unused_stores()?
        };
        let known = left.intersection(&unused).map(|identifier| StrayStore {
            identifier: identifier.clone(),
            directory: format!("{}.git", identifier.encoded()),
        });
        let mut stray: Vec<StrayStore> = known.collect();
        for directory in self.repositories.foreign_stores()? {
            match Identifier::parse(&directory) {
                Ok(identifier) => stray.push(StrayStore {
                    identifier,
                    directory,
                }),
                Err(_) => tracing::warn!(%directory, "not named as an object store: left as it is"),
            }
        }
        Ok(stray)
    }

    /// The stores that neither memory nor disk has a use for. Blocks.
    fn unused_stores(&self) -> io::Result<BTreeSet<Identifier>> {
        let mut unneeded = self.repositories.stores()?;
        unneeded.retain(|identifier| !self.needs_objects(identifier));
        let mut kept = self.kept.identifiers.lock();
        kept.retain(|identifier| unneeded.contains(identifier));
        if kept.len() < unneeded.len() {
            // The whole disk is looked through only if there is something new to say of it.
            let archived = self.repositories.archived()?;
            let here = self.repositories.list()?.into_iter();
            let here: BTreeSet<Identifier> = here.map(|repo| repo.identifier).collect();
            let is_kept = |it: &&Identifier| archived.contains(it) || here.contains(it);
            *kept = unneeded.iter().filter(is_kept).cloned().collect();
        }
        Ok(unneeded.difference(&kept).cloned().collect())
    }

    /// Says whether a repository is here, or anything waits.
    fn needs_objects(&self, identifier: &Identifier) -> bool {
        !self.hosted.owners(identifier).is_empty() || has_entry(&self.purgatory.lock(), identifier)
    }
}

fn has_entry(purgatory: &Purgatory, identifier: &Identifier) -> bool {
    purgatory.has_pending_events(identifier) || purgatory.announcements(identifier).next().is_some()
}
