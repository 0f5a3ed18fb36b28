//! Repositories that were found a moment ago.
//!
//! The host responds alike where a file is missing and where its whole repository is; this spares
//! the call that tells them apart.

use std::{collections::HashMap, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::name::RepoName;

/// How long a repository counts as being there.
const FRESH: Duration = Duration::from_secs(60);

/// Repositories remembered. At the bound the stale ones make room, or else all: forgetting one
/// costs a call.
const MOST: usize = 1_024;

#[derive(Default)]
pub(crate) struct RecentRepositories {
    seen: Mutex<HashMap<String, Instant>>,
}

impl RecentRepositories {
    pub(crate) fn note(&self, repo: &RepoName) {
        let now = Instant::now();
        let mut seen = self.seen.lock();
        if seen.len() >= MOST {
            seen.retain(|_, at| now < *at + FRESH);
        }
        if seen.len() >= MOST {
            seen.clear();
        }
        seen.insert(repo.folded(), now);
    }

    pub(crate) fn is_there(&self, repo: &RepoName) -> bool {
        let seen = self.seen.lock().get(&repo.folded()).copied();
        seen.is_some_and(|at| Instant::now() < at + FRESH)
    }

    pub(crate) fn forget(&self, repo: &RepoName) {
        self.seen.lock().remove(&repo.folded());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repo(name: &str) -> RepoName {
        RepoName::parse(name).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_repository_is_known_for_a_minute_whatever_its_case() {
        let known = RecentRepositories::default();
        known.note(&repo("Acme/one"));
        assert!(known.is_there(&repo("acme/ONE")) && !known.is_there(&repo("acme/two")));
        tokio::time::advance(FRESH).await;
        assert!(!known.is_there(&repo("acme/one")));
        known.note(&repo("acme/one"));
        known.forget(&repo("ACME/one"));
        assert!(!known.is_there(&repo("acme/one")));
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_repositories_are_remembered_than_the_bound() {
        let known = RecentRepositories::default();
        for n in 0..3 * MOST {
            known.note(&repo(&format!("acme/r{n}")));
            assert!(known.seen.lock().len() <= MOST);
        }
    }
}
