//! The signed events that speak for a served repository.

use grip_nostr::{EventsFuture, RepoAddr, RepositoryEvents, ServedEvents, ServedRepositories};

use crate::{
    Grasp, LookError, RepositoryStatus,
    admission::{Announcements, EventStatus, effective_state},
    error::GraspError,
    grasp::Core,
    release::served_states_of,
};

/// Most announcements of others that are handed out with a repository's own.
const MAX_OTHERS: usize = 64;

impl Grasp {
    /// What is signed about a repository; none if it is not served.
    pub async fn repository_events(
        &self,
        addr: &RepoAddr,
    ) -> Result<Option<RepositoryEvents>, LookError> {
        let addr = addr.clone();
        let look = move |core: &Core| core.repository_events(&addr);
        Ok(self.core.blocking("grasp.look", look).await??)
    }
}

impl ServedRepositories for Grasp {
    fn is_served(&self, repo: &RepoAddr) -> bool {
        self.repository(repo) == Some(RepositoryStatus::Served)
    }

    fn page(&self, after: Option<&RepoAddr>, limit: usize) -> Vec<RepoAddr> {
        self.core.hosted.served_after(after, limit)
    }
}

impl ServedEvents for Grasp {
    fn events<'a>(&'a self, repo: &'a RepoAddr) -> EventsFuture<'a> {
        Box::pin(async { Ok(self.repository_events(repo).await?) })
    }
}

impl Core {
    /// Blocks.
    fn repository_events(&self, addr: &RepoAddr) -> Result<Option<RepositoryEvents>, GraspError> {
        if self.hosted.status(addr) != Some(RepositoryStatus::Served) {
            return Ok(None);
        }
        let events = self.look(|view| {
            let announcements = Announcements::load_of(addr, view, &self.policy.load())?;
            let served = |key| match announcements.of(key) {
                Some((announcement, EventStatus::Served)) => Some(announcement.event.clone()),
                _ => None,
            };
            let Some(announcement) = served(&addr.owner) else {
                return Ok(None);
            };
            let set = announcements.set_of(&addr.owner);
            let others = set.iter().filter(|key| **key != addr.owner);
            let others = others.filter_map(served).take(MAX_OTHERS).collect();
            let members = set.iter().copied().collect();
            let states = served_states_of(&addr.identifier, &members, view)?;
            let state = effective_state(&set, &states).map(|state| state.event.clone());
            Ok(Some(RepositoryEvents {
                announcement,
                others,
                state,
            }))
        })?;
        Ok(events)
    }
}
