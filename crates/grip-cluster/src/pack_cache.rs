//! Packs on the disk of a node: all of them, or those that were used last.

use std::{io, path::PathBuf, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use grip_git::{CachedFrom, PackFile, PackSource, Repositories};
use grip_tasks::{CancellationToken, TaskGroup};
use tokio::{
    runtime::Handle,
    task::block_in_place,
    time::{sleep, timeout},
};

use crate::PackStore;

/// Files of one repository that are fetched at once.
const MAX_FETCHES: usize = 8;
/// How often the disk is looked at although nothing was fetched.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How often it is looked at most: that takes a look at every repository.
const EVICT_EVERY: Duration = Duration::from_secs(1);
/// How soon packs that could not be fetched are tried again.
const RETRY_DELAY: Duration = Duration::from_secs(2);

struct Source {
    packs: PackStore,
    runtime: Handle,
    stop: CancellationToken,
}

impl PackStore {
    /// Has repositories fetch packs from here when they are needed, until told to stop. Needs a runtime
    /// around it.
    pub fn cached(&self, max_bytes: Option<u64>, stop: CancellationToken) -> CachedFrom {
        let source = Source {
            packs: self.clone(),
            runtime: Handle::current(),
            stop,
        };
        CachedFrom::new(Arc::new(source), max_bytes).counted_by(&self.requests)
    }
}

impl PackSource for Source {
    fn fetch(&self, files: Vec<(PackFile, PathBuf)>) -> io::Result<()> {
        let fetching = stream::iter(files)
            .map(|(file, to)| async move { self.packs.get(&file, &to).await.map_err(worded) })
            .buffer_unordered(MAX_FETCHES)
            .try_collect::<()>();
        let fetching = self.stop.run_until_cancelled(fetching);
        let stopped = || io::Error::other("the node is shutting down");
        block_in_place(|| self.runtime.block_on(fetching)).ok_or_else(stopped)?
    }

    fn is_stopped(&self) -> bool {
        self.stop.is_cancelled()
    }
}

/// Translated here: who logs it further up knows no object store.
fn worded(error: io::Error) -> io::Error {
    io::Error::new(error.kind(), grip_bucket::in_words(&error))
}

/// Keeps packs on this disk until told to stop: without a bound every one that is missing is fetched, with
/// one the disk is brought below it again and again.
pub async fn keep_packs(
    repositories: Repositories,
    max_bytes: Option<u64>,
    group: TaskGroup,
    stop: CancellationToken,
) {
    let keeping = async {
        loop {
            let done = match max_bytes {
                Some(_) => {
                    sleep(EVICT_EVERY).await;
                    evict(&repositories, &group).await
                }
                None => fetch_all(&repositories, &group).await,
            };
            let is_fresh = refresh_all(&repositories, &group).await;
            if done && is_fresh {
                // Its end says nothing that the next look does not find out.
                let _ = timeout(LOOK_EVERY, repositories.cache_changed()).await;
            } else {
                sleep(RETRY_DELAY).await;
            }
        }
    };
    stop.run_until_cancelled(keeping).await;
}

/// Fetches the packs of one repository after the other; false if some could not be had.
async fn fetch_all(repositories: &Repositories, group: &TaskGroup) -> bool {
    let mut is_whole = true;
    for identifier in repositories.cold() {
        let (copy, of) = (repositories.clone(), identifier.clone());
        let warming = group.spawn_blocking("cluster.packs", move || copy.warm(&of));
        match warming.await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                let error = grip_bucket::in_words(&error);
                tracing::warn!(%identifier, error, "failed to fetch packs; trying again");
                is_whole = false;
                sleep(RETRY_DELAY).await;
            }
            Err(_) => is_whole = false,
        }
    }
    is_whole
}

/// Removes objects that were collected; false if some are still there.
async fn refresh_all(repositories: &Repositories, group: &TaskGroup) -> bool {
    let mut is_whole = true;
    for identifier in repositories.outdated() {
        let (copy, of) = (repositories.clone(), identifier.clone());
        let refreshing = group.spawn_blocking("cluster.packs", move || copy.refresh(&of));
        match refreshing.await {
            Ok(Ok(is_done)) => is_whole &= is_done,
            Ok(Err(error)) => {
                let error = grip_bucket::in_words(&error);
                tracing::warn!(%identifier, error, "failed to replace packs; trying again");
                is_whole = false;
            }
            Err(_) => is_whole = false,
        }
    }
    is_whole
}

async fn evict(repositories: &Repositories, group: &TaskGroup) -> bool {
    let copy = repositories.clone();
    let evicting = group.spawn_blocking("cluster.packs", move || copy.evict());
    match evicting.await {
        Ok(Ok(evicted)) => {
            if evicted.stores > 0 {
                let (stores, bytes) = (evicted.stores, evicted.bytes);
                tracing::info!(stores, bytes, "evicted packs from this disk");
            }
            true
        }
        Ok(Err(error)) => {
            tracing::warn!(%error, "failed to evict packs");
            false
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use grip_types::ErrorChain;

    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn packs_that_cannot_be_fetched_are_told_in_words() {
        let dir = tempfile::tempdir().unwrap();
        let packs = PackStore::open(dir.path().join("store").to_str().unwrap()).unwrap();
        packs.check().await.unwrap();
        let file = dir.path().join("pack-1.pack");
        std::fs::write(&file, "a pack").unwrap();
        let put = packs.put(&file, 0).await.unwrap();
        std::fs::remove_dir_all(dir.path().join("store/packs")).unwrap();
        let source = Source {
            packs,
            runtime: Handle::current(),
            stop: CancellationToken::new(),
        };
        let error = source
            .fetch(vec![(put, dir.path().join("copy"))])
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let said = ErrorChain(&error).to_string();
        assert!(said.starts_with("the object store has no "), "{said}");
    }
}
