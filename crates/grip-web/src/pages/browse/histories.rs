//! Commits behind the tips of repositories, in memory.

use std::{sync::Arc, time::Duration};

use grip_git::{RepoError, Repositories};
use grip_types::{Identifier, Oid};
use lru::LruCache;
use parking_lot::Mutex;

/// Commits of one history that are looked at; older ones cannot be browsed.
const MAX_COMMITS: usize = 200_000;
/// How long one history may be walked; the part that was found counts.
const MAX_TIME: Duration = Duration::from_secs(3);
/// Commits of all histories together: 32 MiB.
const MAX_KEPT: usize = 1_000_000;

/// What the same tips lead to never changes.
type Key = (Identifier, Vec<Oid>);

pub(super) struct Histories {
    lists: Mutex<Lists>,
}

struct Lists {
    entries: LruCache<Key, Arc<[Oid]>>,
    commits: usize,
}

impl Default for Histories {
    fn default() -> Self {
        Self {
            lists: Mutex::new(Lists {
                entries: LruCache::unbounded(),
                commits: 0,
            }),
        }
    }
}

impl Histories {
    /// The commits that `tips` lead to, newest first, if they are known.
    pub(super) fn get(&self, identifier: &Identifier, tips: &[Oid]) -> Option<Arc<[Oid]>> {
        let key = (identifier.clone(), tips.to_vec());
        self.lists.lock().entries.get(&key).cloned()
    }

    /// The same, walked if need be. Blocks.
    pub(super) fn read(
        &self,
        repositories: &Repositories,
        identifier: &Identifier,
        tips: &[Oid],
    ) -> Result<Arc<[Oid]>, RepoError> {
        if let Some(known) = self.get(identifier, tips) {
            return Ok(known);
        }
        let found = repositories.ancestors(identifier, tips, MAX_COMMITS, MAX_TIME)?;
        let found: Arc<[Oid]> = found.into();
        let mut lists = self.lists.lock();
        // A tip weighs too: a repository may have many and few commits.
        let weight = |key: &Key, list: &[Oid]| key.1.len() + list.len();
        let key = (identifier.clone(), tips.to_vec());
        lists.commits += weight(&key, &found);
        if let Some((key, old)) = lists.entries.push(key, Arc::clone(&found)) {
            lists.commits -= weight(&key, &old);
        }
        while lists.commits > MAX_KEPT
            && let Some((key, oldest)) = lists.entries.pop_lru()
        {
            lists.commits -= weight(&key, &oldest);
        }
        Ok(found)
    }
}
