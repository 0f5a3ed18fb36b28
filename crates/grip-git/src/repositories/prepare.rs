//! Repositories that are made before they are needed.
//!
//! A new repository is several files that have to be on the disk. Who makes them while others wait makes
//! them wait for the disk; so they are made first, and put in their place in one step.

use std::{fs, sync::Arc};

use grip_types::RepoAddr;

use crate::{bare::Draft, disk};

use super::{Inner, RepoError, Repositories, unreachable_repo};

/// An empty repository that is whole and durable, and nowhere to be seen yet.
///
/// One that is dropped goes with the next that is prepared, or with the next start.
pub struct Prepared {
    repo: RepoAddr,
    inner: Arc<Inner>,
    draft: Option<Draft>,
}

impl Repositories {
    /// Makes an empty repository without putting it in its place; `None` if there is one. Blocking, but
    /// nobody else waits for it.
    pub fn prepare(&self, repo: &RepoAddr) -> Result<Option<Prepared>, RepoError> {
        self.inner.remove_unneeded();
        if self.inner.find(repo)?.is_some() {
            return Ok(None);
        }
        let draft = self.inner.draft(repo);
        Ok(Some(Prepared {
            repo: repo.clone(),
            inner: Arc::clone(&self.inner),
            draft: Some(draft.map_err(|source| unreachable_repo(repo, source))?),
        }))
    }

    /// Puts a prepared repository in its place; one that is there already stays as it is. Blocking.
    pub fn create_prepared(&self, mut prepared: Prepared) -> Result<(), RepoError> {
        let repo = &prepared.repo;
        let _turn = self.inner.lock(&repo.identifier);
        let was_there = self.inner.find(repo)?.is_some();
        self.inner.create(repo, prepared.draft.as_ref())?;
        if !was_there {
            prepared.draft = None;
        }
        Ok(())
    }
}

impl Prepared {
    pub fn repo(&self) -> &RepoAddr {
        &self.repo
    }
}

impl Drop for Prepared {
    fn drop(&mut self) {
        if let Some(draft) = &self.draft {
            let mut unneeded = self.inner.unneeded.lock();
            unneeded.push(draft.path().to_owned());
        }
    }
}

impl Inner {
    /// Removes what was prepared and not needed. Blocking.
    fn remove_unneeded(&self) {
        let unneeded = std::mem::take(&mut *self.unneeded.lock());
        for path in unneeded {
            if let Err(error) = fs::remove_dir_all(&path)
                && !disk::is_absent(&error)
            {
                tracing::warn!(path = %path.display(), %error, "failed to remove a prepared repository; the next start removes it");
            }
        }
    }
}
