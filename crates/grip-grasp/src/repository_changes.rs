//! Notice of served repositories that have changed.

use std::{collections::BTreeSet, sync::Arc};

use grip_nostr::RepoAddr;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::{Grasp, grasp::Core, hosted_repositories::HostedRepositories};

/// Repositories that are remembered until somebody takes them. Beyond it they are not told apart
/// any more: the receiver has to look at all of them.
const MAX_CHANGED: usize = 10_000;

/// What has changed since it was last asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChangedRepositories {
    /// They have come or gone, or what is followed of them has changed. Each is there once.
    These(Vec<RepoAddr>),
    /// More than can be remembered.
    TooMany,
}

/// Takes what has changed; there is one of it.
pub struct ChangeReceiver {
    core: Arc<Core>,
    of: fn(&HostedRepositories) -> &PendingChanges,
}

/// Notes changes while somebody follows.
#[derive(Default)]
pub(crate) struct PendingChanges {
    state: Mutex<State>,
    wake: Notify,
}

#[derive(Default)]
struct State {
    is_followed: bool,
    repositories: BTreeSet<RepoAddr>,
    too_many: bool,
}

impl Grasp {
    /// Follows tags that move and repositories that come and go, from now on. An earlier receiver
    /// gets nothing any more.
    pub fn changes(&self) -> ChangeReceiver {
        self.follow(|hosted| &hosted.tags)
    }

    /// Follows which repositories have other [`crate::RepositoryEvents`] than before, from now on.
    /// An earlier receiver gets nothing any more.
    pub fn repository_event_changes(&self) -> ChangeReceiver {
        self.follow(|hosted| &hosted.events)
    }

    fn follow(&self, of: fn(&HostedRepositories) -> &PendingChanges) -> ChangeReceiver {
        let mut state = of(&self.core.hosted).state.lock();
        *state = State {
            is_followed: true,
            ..State::default()
        };
        drop(state);
        ChangeReceiver {
            core: Arc::clone(&self.core),
            of,
        }
    }
}

impl ChangeReceiver {
    /// Waits until something has changed, and takes it. Cancel safe.
    pub async fn next(&self) -> ChangedRepositories {
        let noted = (self.of)(&self.core.hosted);
        loop {
            let woken = noted.wake.notified();
            if let Some(changed) = noted.take() {
                return changed;
            }
            woken.await;
        }
    }

    /// What has changed by now, if anything.
    pub fn take(&self) -> Option<ChangedRepositories> {
        (self.of)(&self.core.hosted).take()
    }
}

impl PendingChanges {
    fn take(&self) -> Option<ChangedRepositories> {
        let mut state = self.state.lock();
        let repositories = std::mem::take(&mut state.repositories);
        match (std::mem::take(&mut state.too_many), repositories.is_empty()) {
            (true, _) => Some(ChangedRepositories::TooMany),
            (false, true) => None,
            (false, false) => Some(ChangedRepositories::These(
                repositories.into_iter().collect(),
            )),
        }
    }

    pub(crate) fn add(&self, addr: &RepoAddr) {
        let mut state = self.state.lock();
        if !state.is_followed || state.too_many {
            return;
        }
        state.repositories.insert(addr.clone());
        if state.repositories.len() > MAX_CHANGED {
            state.repositories.clear();
            state.too_many = true;
        }
        drop(state);
        self.wake.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use grip_types::Identifier;
    use nostr::prelude::Keys;

    use super::*;

    fn followed() -> PendingChanges {
        let noted = PendingChanges::default();
        noted.state.lock().is_followed = true;
        noted
    }

    #[test]
    fn a_repository_that_changes_often_is_told_once() {
        let noted = followed();
        let owner = Keys::generate().public_key();
        let addr = |name: &str| RepoAddr::new(owner, Identifier::parse(name).unwrap());
        for name in ["a", "b", "a"] {
            noted.add(&addr(name));
        }
        let both = ChangedRepositories::These(vec![addr("a"), addr("b")]);
        assert_eq!(noted.take(), Some(both));
        assert_eq!(noted.take(), None);
        assert!(PendingChanges::default().take().is_none());
    }

    #[test]
    fn beyond_the_bound_they_are_not_told_apart() {
        let noted = followed();
        let owner = Keys::generate().public_key();
        for n in 0..=MAX_CHANGED {
            let identifier = Identifier::parse(&n.to_string()).unwrap();
            noted.add(&RepoAddr::new(owner, identifier));
        }
        assert!(noted.state.lock().repositories.is_empty());
        assert_eq!(noted.take(), Some(ChangedRepositories::TooMany));
        assert_eq!(noted.take(), None);
    }

    #[test]
    fn nothing_is_kept_while_nobody_follows() {
        let noted = PendingChanges::default();
        let identifier = Identifier::parse("x").unwrap();
        noted.add(&RepoAddr::new(Keys::generate().public_key(), identifier));
        assert_eq!(noted.take(), None);
    }
}
