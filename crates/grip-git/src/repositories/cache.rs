//! Packs that are fetched from the store of all copies when they are needed.

use std::io;

use grip_types::Identifier;

use super::{RepoError, Repositories};
use crate::packs::{CacheUse, Evicted};

impl Repositories {
    /// Says whether packs of an identifier are not on this disk.
    pub fn is_cold(&self, identifier: &Identifier) -> bool {
        self.inner.packs.is_cold(identifier)
    }

    /// The identifiers some of whose packs are not on this disk.
    pub fn cold(&self) -> Vec<Identifier> {
        self.inner.packs.cold()
    }

    /// Has every pack of an identifier on this disk. Blocks, for as long as it takes to fetch them.
    pub fn warm(&self, identifier: &Identifier) -> Result<(), RepoError> {
        let warmed = self.inner.packs.warm(identifier);
        warmed.map_err(|source| not_fetched(identifier, source))
    }

    /// The same, where the caller may not block.
    pub(crate) async fn warm_later(&self, identifier: &Identifier) -> Result<(), RepoError> {
        if !self.is_cold(identifier) {
            return self.warm(identifier);
        }
        let (repositories, of) = (self.clone(), identifier.clone());
        let warming = grip_tasks::spawn_blocking(move || repositories.warm(&of)).await;
        warming.map_err(|stopped| not_fetched(identifier, io::Error::other(stopped)))?
    }

    /// Fetches every pack and forgets where it came from: from now on this copy is alone. Blocks.
    /// `on_progress` is told of how many identifiers the packs are here, of how many they have to be fetched.
    pub fn leave_cache(&self, mut on_progress: impl FnMut(usize, usize)) -> io::Result<()> {
        let packs = &self.inner.packs;
        let cold = self.cold();
        for (before, identifier) in cold.iter().enumerate() {
            packs.warm(identifier)?;
            on_progress(before + 1, cold.len());
        }
        let stores = self.stores()?;
        stores.iter().try_for_each(|of| packs.forget_stored(of))
    }

    /// The identifiers that have packs on this disk whose objects were collected elsewhere.
    pub fn outdated(&self) -> Vec<Identifier> {
        self.inner.packs.outdated()
    }

    /// Removes such packs of an identifier, with what takes their place fetched first unless few packs are
    /// to be on this disk; false if somebody reads them. Blocks.
    pub fn refresh(&self, identifier: &Identifier) -> io::Result<bool> {
        self.inner.packs.refresh(identifier)
    }

    /// Removes all such packs without fetching anything, for this copy to lead; false if somebody reads
    /// some of them. Blocks.
    pub fn leave_outdated(&self) -> io::Result<bool> {
        for identifier in self.outdated() {
            if !self.inner.packs.leave_outdated(&identifier)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// How often requests of clients found all packs on this disk.
    pub fn cache_use(&self) -> CacheUse {
        self.inner.packs.cache_use()
    }

    /// Waits until a pack was noted, or was fetched. Cancel safe.
    pub async fn cache_changed(&self) {
        self.inner.packs.cache_changed().await;
    }

    /// Removes packs of the identifiers that were not used for the longest time, until the others take
    /// no more than they may. Blocking.
    pub fn evict(&self) -> io::Result<Evicted> {
        self.inner.packs.evict()
    }
}

fn not_fetched(identifier: &Identifier, source: io::Error) -> RepoError {
    RepoError::NotFetched {
        identifier: identifier.clone(),
        source,
    }
}
