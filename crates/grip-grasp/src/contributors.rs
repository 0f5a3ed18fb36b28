//! Contributor repositories (GRASP-06): tips of pull requests at `/prs/<npub>/<identifier>.git`, for
//! repositories that need not be here.
//!
//! One is there from its first push until its last ref is gone, and is read as empty at any other time.
//! It holds its objects itself. When the event of a tip is served, the tip is copied into every
//! repository here that the event is meant for; when such a repository comes later, the copy follows.
//! Nothing is ever copied the other way.

use std::sync::Arc;

use grip_git::StagedTip;
use grip_nostr::{Event, EventId, PullRequest};
use grip_types::{Identifier, Oid, RefEdit, RefName};

use crate::{
    Grasp, Policy,
    admission::{contributor_repositories, is_banned},
    error::GraspError,
    grasp::Core,
    release::Mirrored,
};

/// Tips copied in one pass over an identifier, in its turn; the others follow with the next.
const MAX_MIRRORED: usize = 16;

impl Grasp {
    /// Says whether contributor repositories are served.
    pub fn serves_contributors(&self) -> bool {
        self.core.policy.load().contributors
    }
}

impl Core {
    /// Copies the tips that `edits` set and that only contributors have into the store. Edits whose tips
    /// could not be copied now are left out: strangers pushed them, and nobody's branches wait for them.
    pub(crate) async fn mirror_missing(
        self: &Arc<Self>,
        identifier: &Identifier,
        edits: &mut Vec<RefEdit>,
    ) -> Result<(), GraspError> {
        if !self.repositories.has_contributors() {
            return Ok(());
        }
        let look = {
            let (identifier, edits) = (identifier.clone(), edits.clone());
            move |core: &Self| core.mirrored_for(&identifier, &edits)
        };
        let missing = self.blocking("grasp.look", look).await??;
        for (n, mirrored) in missing.iter().enumerate() {
            let copied = if n < MAX_MIRRORED {
                self.mirror(mirrored).await
            } else {
                Ok(false)
            };
            match copied {
                Ok(true) => continue,
                Ok(false) => {}
                Err(error) => error.log("failed to mirror the tip of a pull request"),
            }
            let name = RefName::for_nostr_event(mirrored.event.as_bytes());
            edits.retain(|edit| edit.name != name);
        }
        Ok(())
    }

    async fn mirror(self: &Arc<Self>, mirrored: &Mirrored) -> Result<bool, GraspError> {
        if let Some(tip) = self.prepare_mirrored(mirrored).await? {
            self.promote_prepared(&mirrored.source, tip).await?;
        }
        Ok(true)
    }

    /// What contributors have of the tips of waiting pull requests, ready to be mirrored. Needs no turn.
    pub(crate) async fn prepare_mirrors(
        self: &Arc<Self>,
        named: &[(EventId, Oid)],
    ) -> Vec<StagedTip> {
        let mut prepared = Vec::new();
        for (event, _) in named {
            match self.prepare_waiting(*event).await {
                Ok(tips) => prepared.extend(tips),
                Err(error) => error.log("failed to read the tip of a pull request"),
            }
        }
        prepared
    }

    /// The served pull requests in contributor repositories of an identifier that the operator bans.
    /// Blocks.
    pub(crate) fn banned_contributions(
        &self,
        identifier: &Identifier,
        policy: &Policy,
    ) -> Result<Vec<Event>, GraspError> {
        let mut banned = Vec::new();
        for addr in self.repositories.contributors(identifier) {
            let refs = self.repositories.refs(&addr);
            let refs = refs.map_err(GraspError::repository(&addr))?;
            for id in refs.iter().filter_map(|found| found.name.nostr_event_id()) {
                let event = EventId::from_slice(&id).expect("32 bytes");
                let served = self.look(|view| view.served_event(&event))?;
                let request = served.and_then(|served| PullRequest::parse(served).ok());
                let request = request.filter(|request| is_banned(request, &addr, policy));
                banned.extend(request.map(|request| request.event));
            }
        }
        Ok(banned)
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
            let stored = self.repositories.kinds(identifier, &[tip]);
            let stored = stored.map_err(|error| GraspError::Stores(Box::new(error)))?;
            if stored.iter().any(Option::is_some) {
                continue;
            }
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
