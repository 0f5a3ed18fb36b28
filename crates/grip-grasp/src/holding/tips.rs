//! Tips of contributor repositories whose pull requests are out of service (G01-112): hidden as long as
//! the event is kept, and shown again with it.
//!
//! A tip is hidden after its row is written and before its event goes: whatever a crash leaves, the row
//! says that the tip is kept, and the return of the event shows it.

use std::sync::Arc;

use grip_nostr::{Event, EventId, PublicKey, PullRequest, RepoAddr};
use grip_types::{RefEdit, RefName};

use crate::{
    admission::contributor_repositories,
    error::GraspError,
    grasp::{Core, now},
    repositories::{ChangedBy, log_refs},
};

impl Core {
    /// Hides the tips of those events that are pull requests; takes the turns it needs.
    pub(crate) async fn hide_tips(self: &Arc<Self>, events: &[Event]) -> Result<(), GraspError> {
        for event in events {
            for addr in self.contributed_by(event) {
                let _turns = self.turns(vec![addr.identifier.clone()]).await?;
                self.hide_tip(addr, event.id).await?;
            }
        }
        Ok(())
    }

    /// The same for one event; the caller has the turns of its identifiers.
    pub(crate) async fn hide_tips_in_turn(
        self: &Arc<Self>,
        event: &Event,
    ) -> Result<(), GraspError> {
        for addr in self.contributed_by(event) {
            self.hide_tip(addr, event.id).await?;
        }
        Ok(())
    }

    async fn hide_tip(self: &Arc<Self>, addr: RepoAddr, event: EventId) -> Result<(), GraspError> {
        let hide = move |core: &Self| {
            let at = u64::try_from(now().get()).unwrap_or_default();
            let name = name_of(&event);
            let old = core.commit.hide_tip(&addr, &name, at)?;
            if old.is_some() {
                let edit = RefEdit {
                    name,
                    old,
                    new: None,
                };
                log_refs(&addr, &[edit], None, &ChangedBy::Held(&event));
            }
            Ok(())
        };
        self.blocking("git.refs", hide).await?
    }

    /// Shows the tips of an event that is about to come back, each noted as if it had been pushed
    /// ahead of it.
    pub(super) async fn show_tips(self: &Arc<Self>, event: &Event) -> Result<(), GraspError> {
        let id = event.id;
        for addr in self.contributed_by(event) {
            let _turns = self.turns(vec![addr.identifier.clone()]).await?;
            let look = {
                let addr = addr.clone();
                move |core: &Self| {
                    let hidden = core.repositories.hidden_tips(&addr);
                    hidden.map_err(GraspError::repository(&addr))
                }
            };
            let hidden = self.blocking("grasp.look", look).await??;
            let Some((name, tip)) = hidden.into_iter().find(|(name, _)| *name == name_of(&id))
            else {
                continue;
            };
            let noted = self.try_held(|purgatory| {
                let noted = purgatory.add_pr_placeholder(id, tip, addr.clone(), None, now());
                noted.map(|changes| ((), changes))
            });
            let ((), journalled) = noted.await?;
            journalled?;
            let show = move |core: &Self| {
                core.commit.show_tip(&addr, &name)?;
                let edit = RefEdit {
                    name,
                    old: None,
                    new: Some(tip),
                };
                log_refs(&addr, &[edit], None, &ChangedBy::Returned(&id));
                Ok::<_, GraspError>(())
            };
            self.blocking("git.refs", show).await??;
        }
        Ok(())
    }

    /// Removes the hidden tips of some contributors whose events are not kept any more.
    pub(crate) async fn drop_unkept_tips(
        self: &Arc<Self>,
        of: impl Fn(&PublicKey) -> bool + Send + 'static,
    ) -> Result<(), GraspError> {
        let look = move |core: &Self| {
            let mut found = Vec::new();
            for identifier in core.repositories.contributed() {
                for addr in core.repositories.contributors(&identifier) {
                    if !of(&addr.owner) {
                        continue;
                    }
                    let hidden = core.repositories.hidden_tips(&addr);
                    let hidden = hidden.map_err(GraspError::repository(&addr))?;
                    found.extend(hidden.into_iter().map(|(name, _)| (addr.clone(), name)));
                }
            }
            Ok::<_, GraspError>(found)
        };
        for (addr, name) in self.blocking("grasp.look", look).await?? {
            let id = name.nostr_event_id();
            let id = id.and_then(|id| EventId::from_slice(&id).ok());
            let _turns = self.turns(vec![addr.identifier.clone()]).await?;
            let is_kept = match id {
                Some(id) => self.holding.has(&id).await?,
                None => false,
            };
            if is_kept {
                continue;
            }
            tracing::info!(repository = %addr, %name, "removing the tip of a pull request that is not kept");
            let remove = move |core: &Self| core.commit.drop_hidden_tip(&addr, &name);
            self.blocking("git.refs", remove).await??;
        }
        Ok(())
    }

    /// The contributor repositories that a pull request names.
    fn contributed_by(&self, event: &Event) -> Vec<RepoAddr> {
        if !PullRequest::is_one(event) || !self.repositories.has_contributors() {
            return Vec::new();
        }
        let policy = self.policy.load();
        let request = PullRequest::parse(event.clone()).ok();
        let places = request.map(|request| contributor_repositories(&request, &policy));
        places.into_iter().flatten().collect()
    }
}

fn name_of(event: &EventId) -> RefName {
    RefName::for_nostr_event(event.as_bytes())
}
