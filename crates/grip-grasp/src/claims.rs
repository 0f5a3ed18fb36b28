//! The events that speak for a served repository, for whoever shows them to others.

use grip_nostr::{Event, RepoAddr};

use crate::{
    Grasp, LookError, RepositoryStatus,
    admission::{Announced, Standing, effective_state},
    grasp::Core,
    release::served_states,
    trouble::Trouble,
};

/// Most announcements of others that are handed out with a repository's own.
const MAX_OTHERS: usize = 64;

/// What is signed about a served repository. All of it is served here: nothing that still waits
/// for its proof is among it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    /// Its owner's.
    pub announcement: Event,
    /// The announcements of its other maintainers, by which they may be shown to be such.
    pub others: Vec<Event>,
    /// The state that speaks for it.
    pub state: Option<Event>,
}

impl Grasp {
    /// What is signed about a repository; none if it is not served.
    pub async fn claims(&self, addr: &RepoAddr) -> Result<Option<Claims>, LookError> {
        let addr = addr.clone();
        let look = move |core: &Core| core.claims(&addr);
        Ok(self.core.blocking("grasp.look", look).await??)
    }
}

impl Core {
    /// Blocks.
    fn claims(&self, addr: &RepoAddr) -> Result<Option<Claims>, Trouble> {
        if self.hosted.status(addr) != Some(RepositoryStatus::Served) {
            return Ok(None);
        }
        let claims = self.look(|view| {
            let announced = Announced::load(&addr.identifier, view, &self.policy.load())?;
            let served = |key| match announced.of(key) {
                Some((announcement, Standing::Served)) => Some(announcement.event.clone()),
                _ => None,
            };
            let Some(announcement) = served(&addr.owner) else {
                return Ok(None);
            };
            let set = announced.set_of(&addr.owner);
            let others = set.iter().filter(|key| **key != addr.owner);
            let others = others.filter_map(served).take(MAX_OTHERS).collect();
            let states = served_states(&addr.identifier, view)?;
            let state = effective_state(&set, &states).map(|state| state.event.clone());
            Ok(Some(Claims {
                announcement,
                others,
                state,
            }))
        })?;
        Ok(claims)
    }
}
