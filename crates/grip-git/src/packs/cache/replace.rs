//! Packs in the place of others, in every copy.
//!
//! ```text
//!  leader:   repack, collection ──store──▶ object store ──log──▶ ReplacePacks ──▶ its lists and files
//!  follower: ReplacePacks ──▶ its lists; if objects were collected: outdated ──refresh──▶ removed
//! ```
//!
//! A repack loses nothing, which is looked at before others count on it ([`compare`](super::compare)): a copy that has all objects keeps them in the packs that it has, and fetches
//! nothing. After a collection no copy may keep what is gone for good: once it leads it would take in what
//! rests on that, and no other copy could. So the packs of its disk that are in no list any more are
//! *outdated*: they go once those in the list are there and nobody reads, and a node does not lead before.

use std::{io, path::PathBuf, sync::Arc};

use grip_tasks::fault;
use grip_types::Identifier;

use super::{OUTDATED, STORED, StoredPacks, compare::Comparison};
use crate::{
    change_log::{LoggedBy, LoggedChange, StoredPack},
    disk,
    packs::{Packs, RepackError, collect::remove_packs, pack_dir, quarantined::PACK_FILES, repack},
};

/// How the packs of a store change for all copies.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::packs) struct Replacement {
    added: Vec<StoredPack>,
    removed: Vec<String>,
}

impl Replacement {
    pub(in crate::packs) fn change(
        &self,
        identifier: &Identifier,
        is_collected: bool,
    ) -> LoggedChange {
        LoggedChange::ReplacePacks {
            identifier: identifier.clone(),
            added: self.added.clone(),
            removed: self.removed.clone(),
            is_collected,
        }
    }
}

impl Packs {
    /// Says whether all packs of a store are in its list.
    pub(crate) fn is_listed(&self, identifier: &Identifier) -> bool {
        self.list(identifier, STORED).exists()
    }

    /// Has every copy take the packs of this disk for those in the list, if the list is longer than
    /// `max_packs`: who joins, or evicted them, fetches few. False if nothing was to be done. Cancel
    /// safe: what is under way goes on.
    pub(crate) async fn publish(
        self: &Arc<Self>,
        identifier: &Identifier,
        max_packs: usize,
        log: &LoggedBy,
    ) -> Result<bool, RepackError> {
        let permit = self.repacking.try_take(identifier, 1);
        let permit = permit.ok_or_else(|| RepackError::Busy(identifier.clone()))?;
        let (packs, identifier, log) = (Arc::clone(self), identifier.clone(), log.clone());
        let publishing = repack::blocking(move || {
            let _permit = permit;
            Ok(packs.publish_now(&identifier, max_packs, &log))
        });
        publishing.await?
    }

    fn publish_now(
        &self,
        identifier: &Identifier,
        max_packs: usize,
        log: &LoggedBy,
    ) -> Result<bool, RepackError> {
        let _in_use = self.borrow(identifier);
        let local = self.names(identifier)?;
        let listed = self.listed(identifier)?;
        if self.is_cold(identifier) || listed.len() <= max_packs || local.len() >= listed.len() {
            return Ok(false);
        }
        // Before the lock is taken: it may take a while.
        let replaced = match self.compare(identifier, &local, &listed)? {
            Comparison::Whole(replaced) => replaced,
            Comparison::Incomplete { damaged, reason } => {
                return Err(self.fetch_again(identifier, &damaged, reason));
            }
        };
        let stored = self.store_unlisted(identifier, &local, log)?;
        fault::point("git.replace.stored");
        let _turn = self.lock(identifier);
        let after = self.names(identifier)?;
        if !local.iter().all(|name| after.contains(name)) {
            return Ok(false);
        }
        let Some(replacement) = self.replacement(identifier, after, &stored)? else {
            return Ok(false);
        };
        // What was not compared stays in the list.
        if !replacement
            .removed
            .iter()
            .all(|name| replaced.contains(name))
        {
            return Ok(false);
        }
        let change = || replacement.change(identifier, false);
        log.before(change, || self.list_replacement(identifier, &replacement))?;
        Ok(true)
    }

    /// Stores the packs of these names that no copy can fetch yet.
    pub(in crate::packs) fn store_unlisted(
        &self,
        identifier: &Identifier,
        names: &[String],
        log: &LoggedBy,
    ) -> io::Result<Vec<StoredPack>> {
        let listed = self.listed(identifier)?;
        let dir = pack_dir(&self.objects(identifier));
        let files = |name: &str| -> Vec<PathBuf> {
            let file = |extension: &&str| dir.join(format!("{name}.{extension}"));
            PACK_FILES.iter().map(file).collect()
        };
        let unlisted = names.iter().filter(|name| !listed.has(name));
        let store = |name: &String| {
            let files = log.store_pack(files(name))?;
            let name = name.clone();
            Ok(StoredPack { name, files })
        };
        unlisted.map(store).collect()
    }

    /// What has to be said for the store to have the packs `after`, of which those that are not listed
    /// are among `stored`; none if one is not, or if packs are missing here. The caller holds the lock.
    pub(in crate::packs) fn replacement(
        &self,
        identifier: &Identifier,
        after: Vec<String>,
        stored: &[StoredPack],
    ) -> io::Result<Option<Replacement>> {
        let listed = self.listed(identifier)?;
        if self.is_cold(identifier) || !self.is_listed(identifier) {
            return Ok(None);
        }
        let removed = listed.packs().map(|pack| &pack.name);
        let removed = removed.filter(|name| !after.contains(name)).cloned();
        let mut replacement = Replacement {
            added: Vec::new(),
            removed: removed.collect(),
        };
        for name in after.iter().filter(|name| !listed.has(name)) {
            let Some(pack) = stored.iter().find(|pack| pack.name == *name) else {
                return Ok(None);
            };
            replacement.added.push(pack.clone());
        }
        Ok(Some(replacement))
    }

    /// Lists the packs that were logged. The caller holds the lock.
    pub(in crate::packs) fn list_replacement(
        &self,
        identifier: &Identifier,
        replacement: &Replacement,
    ) -> io::Result<()> {
        let Replacement { added, removed } = replacement;
        let _listing = self.cache.listing.lock();
        let list = self.list(identifier, STORED);
        let mut stored = StoredPacks::read(&list)?;
        stored.replace(removed, added);
        stored.write(&list)
    }

    /// Follows a replacement that another copy has logged; durable on return. The caller holds the lock.
    pub(crate) fn follow_replacement(
        &self,
        identifier: &Identifier,
        added: &[StoredPack],
        removed: &[String],
        is_collected: bool,
    ) -> io::Result<()> {
        self.ensure(identifier)?;
        let _listing = self.cache.listing.lock();
        let list = self.list(identifier, STORED);
        if !list.exists() && !self.names(identifier)?.is_empty() {
            // Packs of before there were lists stay as they are.
            return Ok(());
        }
        let mut stored = StoredPacks::read(&list)?;
        stored.replace(removed, added);
        if is_collected {
            disk::replace(&self.list(identifier, OUTDATED), &[])?;
            self.cache.set_outdated(identifier, true);
        }
        stored.write(&list)?;
        if self.cache.is_cold(identifier) {
            let missing = stored
                .packs()
                .filter(|pack| !self.has(identifier, &pack.name));
            let missing = StoredPacks::of(missing.cloned());
            missing.write(&self.list(identifier, super::MISSING))?;
        }
        self.cache.changed.notify_one();
        Ok(())
    }

    /// Follows the removal of a store that cannot go yet; durable on return. All that is in it is outdated,
    /// and nothing of it is fetched again, whatever comes into the store until it goes. The caller holds
    /// the lock.
    pub(crate) fn follow_removal(&self, identifier: &Identifier) -> io::Result<()> {
        let listed = self.listed(identifier)?;
        let is_followed = listed.is_empty() && self.is_outdated(identifier);
        if is_followed && !self.is_cold(identifier) {
            return Ok(());
        }
        let removed: Vec<String> = listed.packs().map(|pack| pack.name.clone()).collect();
        self.follow_replacement(identifier, &[], &removed, true)
    }

    /// The stores that have outdated packs.
    pub(crate) fn outdated(&self) -> Vec<Identifier> {
        self.cache.outdated.lock().iter().cloned().collect()
    }

    pub(crate) fn is_outdated(&self, identifier: &Identifier) -> bool {
        self.cache.outdated.lock().contains(identifier)
    }

    /// Removes the outdated packs of a store, once those that take their place are here: fetched first,
    /// or fetched later for who asks, if few are to be on this disk. False if somebody reads them. Blocks.
    pub(crate) fn refresh(&self, identifier: &Identifier) -> io::Result<bool> {
        if self.remove_outdated(identifier)? {
            return Ok(true);
        }
        if self.cache.from.max_bytes.is_some() {
            return self.cool(identifier);
        }
        let Some(source) = &self.cache.from.source else {
            return Ok(false);
        };
        let fetched = self.cache.exclusively(identifier, true, || {
            let _in_use = self.borrow(identifier);
            let listed = self.listed(identifier)?;
            let missing = listed
                .packs()
                .filter(|pack| !self.has(identifier, &pack.name));
            self.fetch_packs(identifier, &missing.collect::<Vec<_>>(), &**source)
        });
        fetched.unwrap_or(Ok(()))?;
        fault::point("git.refresh.fetched");
        self.remove_outdated(identifier)
    }

    /// The same without fetching anything; for who is about to lead.
    pub(crate) fn leave_outdated(&self, identifier: &Identifier) -> io::Result<bool> {
        Ok(self.remove_outdated(identifier)? || self.cool(identifier)?)
    }

    /// Removes the packs that are in no list, if all that are in the list are here and nobody reads.
    fn remove_outdated(&self, identifier: &Identifier) -> io::Result<bool> {
        if !self.is_outdated(identifier) {
            return Ok(true);
        }
        let _turn = self.lock(identifier);
        let Some(_permit) = self.repacking.try_take(identifier, 1) else {
            return Ok(false);
        };
        let removed = self.cache.exclusively(identifier, false, || {
            let listed = self.listed(identifier)?;
            let is_here = |pack: &StoredPack| self.has(identifier, &pack.name);
            let is_read = self.in_use.held(identifier) + self.receiving.held(identifier) > 0;
            if is_read || !listed.packs().all(is_here) {
                return Ok(false);
            }
            if self.is_listed(identifier) {
                let local = self.names(identifier)?;
                let outdated = local.iter().filter(|name| !listed.has(name));
                let dir = pack_dir(&self.objects(identifier));
                let removed = remove_packs(&dir, outdated.map(String::as_str));
                self.changed(identifier);
                removed?;
            }
            disk::remove_file(&self.list(identifier, OUTDATED))?;
            self.cache.set_outdated(identifier, false);
            Ok(true)
        });
        removed.unwrap_or(Ok(false))
    }

    fn listed(&self, identifier: &Identifier) -> io::Result<StoredPacks> {
        let _listing = self.cache.listing.lock();
        StoredPacks::read(&self.list(identifier, STORED))
    }

    /// The names of the packs on this disk.
    fn names(&self, identifier: &Identifier) -> io::Result<Vec<String>> {
        let entries = disk::entries(&pack_dir(&self.objects(identifier)))?;
        let names = entries
            .iter()
            .filter_map(|(file, _)| file.strip_suffix(".idx"));
        let names = names.filter(|name| name.starts_with("pack-"));
        Ok(names.map(str::to_owned).collect())
    }
}
