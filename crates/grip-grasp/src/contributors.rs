//! Contributor repositories (GRASP-06): tips of pull requests at `/prs/<npub>/<identifier>.git`, for
//! repositories that need not be here.
//!
//! One is there from its first push until its last ref is gone, and is read as empty at any other time.
//! It holds its objects itself. When the event of a tip is served, the tip is copied into every
//! repository here that the event is meant for; when such a repository comes later, the copy follows.
//! Nothing is ever copied the other way.

use std::sync::Arc;

use grip_nostr::{EventId, PullRequest};
use grip_types::{Identifier, RefEdit};

use crate::{
    Grasp,
    admission::contributor_repositories,
    error::GraspError,
    grasp::Core,
    release::{Mirrored, Released},
};

impl Grasp {
    /// Says whether contributor repositories are served.
    pub fn serves_contributors(&self) -> bool {
        self.core.policy.load().contributors
    }
}

impl Core {
    /// Has repositories that are served from now on show the pull requests that contributors pushed for
    /// them before; the caller has the turn.
    pub(crate) async fn mirror_after(
        self: &Arc<Self>,
        identifier: &Identifier,
        released: &Released,
    ) {
        if released.announcements_released > 0 && self.repositories.has_contributors() {
            self.settle(identifier).await;
        }
    }

    /// Copies the tips that `edits` set and that contributors have into the store.
    pub(crate) async fn mirror_missing(
        self: &Arc<Self>,
        identifier: &Identifier,
        edits: &[RefEdit],
    ) -> Result<(), GraspError> {
        if !self.repositories.has_contributors() {
            return Ok(());
        }
        let look = {
            let (identifier, edits) = (identifier.clone(), edits.to_vec());
            move |core: &Self| core.mirrored_for(&identifier, &edits)
        };
        for mirrored in self.blocking("grasp.look", look).await?? {
            if let Some(tip) = self.prepare_mirrored(&mirrored).await? {
                self.promote_prepared(&mirrored.source, tip).await?;
            }
        }
        Ok(())
    }

    /// Blocks.
    fn mirrored_for(
        &self,
        identifier: &Identifier,
        edits: &[RefEdit],
    ) -> Result<Vec<Mirrored>, GraspError> {
        let policy = self.policy.load();
        let mut found = Vec::new();
        for edit in edits {
            let (Some(id), Some(tip)) = (edit.name.nostr_event_id(), edit.new) else {
                continue;
            };
            let event = EventId::from_slice(&id).expect("32 bytes");
            let served = self.look(|view| view.served_event(&event))?;
            let Some(request) = served.and_then(|it| PullRequest::parse(it).ok()) else {
                continue;
            };
            let mut sources = contributor_repositories(&request, &policy).into_iter();
            let has_it = |addr: &_| self.repositories.is_staged(addr, &edit.name, &tip);
            found.extend(sources.find(has_it).map(|source| Mirrored {
                source,
                identifier: identifier.clone(),
                event,
                tip,
            }));
        }
        Ok(found)
    }
}
