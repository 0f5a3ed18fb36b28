//! Unreachable objects: what is kept for what, and until when.

use std::{
    io,
    sync::Arc,
    time::{Duration, SystemTime},
};

use grip_types::{Identifier, Oid};

use super::{Inner, Repositories, read_snapshot};
use crate::packs::{Collected, Removal, RepackError, Roots, Unreachable, since};

/// Objects of an identifier that nothing needs, found and not yet removed.
#[must_use = "what is not removed stays"]
pub struct Garbage {
    repositories: Repositories,
    identifier: Identifier,
    found: Unreachable,
    since: SystemTime,
}

/// What became of an attempt to remove [`Garbage`].
pub enum GarbageRemoval {
    Removed(Collected),
    /// Something came since it was found: [`Garbage::look_again`].
    Changed(Box<Garbage>),
}

impl Repositories {
    /// A number that changes when there may be something new to collect: what is kept, for what, and
    /// which packs are old enough. Blocking.
    pub fn collection_stamp(
        &self,
        identifier: &Identifier,
        named: &[Oid],
        keep: Duration,
        now: SystemTime,
    ) -> io::Result<Option<u64>> {
        let since = since(now, keep);
        let packs = self.inner.packs.older_than(identifier, since)?;
        if packs.is_empty() || self.is_cold(identifier) {
            return Ok(None);
        }
        let roots = self.roots(identifier, named, since)?;
        Ok(Some(self.inner.packs.stamp_of(&(packs, roots))))
    }

    /// Looks for objects that no ref of any owner or archived repository, no staged upload and none of
    /// `named` needs, nor did within the time `keep` before `now`. None if there are none, or so few
    /// that the packs are not worth writing again.
    ///
    /// Takes as long as git walks all objects, and no lock. Cancel safe.
    pub async fn find_garbage(
        &self,
        identifier: &Identifier,
        named: &[Oid],
        keep: Duration,
        now: SystemTime,
    ) -> Result<Option<Garbage>, RepackError> {
        let since = since(now, keep);
        let roots = self.roots_later(identifier, named, since).await?;
        let log = &self.inner.options.log;
        let packs = &self.inner.packs;
        let found = packs.find_unreachable(identifier, since, roots, log).await;
        let found = self.heard(identifier, found)?;
        Ok(found.map(|found| Garbage {
            repositories: self.clone(),
            identifier: identifier.clone(),
            found,
            since,
        }))
    }

    async fn roots_later(
        &self,
        identifier: &Identifier,
        named: &[Oid],
        since: SystemTime,
    ) -> io::Result<Roots> {
        let (repositories, identifier) = (self.clone(), identifier.clone());
        let named = named.to_vec();
        let roots = move || repositories.roots(&identifier, &named, since);
        let roots = grip_tasks::spawn_blocking(roots).await;
        roots.map_err(io::Error::other)?
    }

    fn roots(
        &self,
        identifier: &Identifier,
        named: &[Oid],
        since: SystemTime,
    ) -> io::Result<Roots> {
        let _turn = self.inner.lock(identifier);
        self.inner.roots(identifier, named, since)
    }
}

impl Garbage {
    /// Removes it, if it is still that: `named` is what events name at this moment. The caller has the
    /// identifier's turn. Blocking; durable on return.
    ///
    /// Busy while a pack is received, which may rest on it.
    pub fn remove(self, named: &[Oid]) -> Result<GarbageRemoval, RepackError> {
        let Self {
            repositories,
            identifier,
            found,
            since,
        } = self;
        let inner = &repositories.inner;
        let turn = inner.lock(&identifier);
        let roots = inner.roots(&identifier, named, since)?;
        let removal = found.remove(roots)?;
        drop(turn);
        Ok(match removal {
            Removal::Done(done) => GarbageRemoval::Removed(done),
            Removal::Changed(found) => GarbageRemoval::Changed(Box::new(Self {
                repositories,
                identifier,
                found: *found,
                since,
            })),
        })
    }

    /// Looks at what came since; none if that needs some of it.
    pub async fn look_again(self, named: &[Oid]) -> Result<Option<Self>, RepackError> {
        let roots = self
            .repositories
            .roots_later(&self.identifier, named, self.since)
            .await?;
        let found = self.found.go_on(roots).await?;
        Ok(found.map(|found| Self { found, ..self }))
    }
}

impl Inner {
    /// What the objects of an identifier are kept for: refs and records of their moves, in service and
    /// archived, staged uploads, and what was a tip until a while ago. Whatever cannot be read is an
    /// error: it may need anything. The caller holds the lock.
    fn roots(
        &self,
        identifier: &Identifier,
        named: &[Oid],
        since: SystemTime,
    ) -> io::Result<Roots> {
        let mut roots = Roots::default();
        roots.oids.extend(named);
        for repo in self.bearers(identifier)? {
            let refs = self.load(&repo).map_err(io::Error::other)?;
            roots.oids.extend(refs.all().iter().map(|r| r.oid));
            let stored = self.without_staged(&repo, Arc::clone(&refs));
            roots.tips.extend(stored.iter().map(|r| r.oid));
            let own = self.layout.repository(&repo).join("objects");
            for upload in self.staged.of(&repo) {
                roots.oids.extend(upload.tips.iter().map(|(_, tip)| *tip));
                roots.staged.insert(own.join(upload.pack), own.clone());
            }
        }
        self.each_archived(|repo, _, path| {
            if repo.identifier == *identifier {
                let refs = read_snapshot(repo, path).map_err(io::Error::other)?;
                roots.oids.extend(refs.all().iter().map(|r| r.oid));
                // Its pull requests may rest on uploads that went with it.
                let stored = refs.iter().filter(|r| !r.name.is_under_nostr());
                roots.tips.extend(stored.map(|r| r.oid));
            }
            Ok(())
        })?;
        roots.oids.extend(self.recent_tips(identifier, since)?);
        Ok(roots)
    }
}
