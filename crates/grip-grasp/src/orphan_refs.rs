//! `refs/nostr/*` for which there is neither an event nor a note: left by a crash, or by the server whose
//! data this was. They are given their time. Those that the archive brings back had it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use grip_nostr::{EventId, RepoAddr};
use grip_types::Oid;

use crate::{
    admission::ViewError,
    error::GraspError,
    grasp::{Core, now},
};

impl Core {
    /// Notes such refs of `repositories`, so that they go if no event comes (G01-47).
    pub(crate) fn hold_orphan_refs<'a>(
        self: &'a Arc<Self>,
        repositories: Vec<RepoAddr>,
    ) -> BoxFuture<'a, Result<(), GraspError>> {
        Box::pin(async move {
            let look = move |core: &Self| {
                let mut found = Vec::new();
                for addr in repositories {
                    let orphans = core.orphans(&addr)?.into_iter();
                    found.extend(orphans.map(|(id, tip)| (id, tip, addr.clone())));
                }
                Ok::<_, GraspError>(found)
            };
            let orphans = self.blocking("grasp.look", look).await??;
            if orphans.is_empty() {
                return Ok(());
            }
            tracing::info!(
                count = orphans.len(),
                "holding refs without an event until they expire"
            );
            self.held(|purgatory| {
                let mut changes = Vec::new();
                for (id, tip, addr) in orphans {
                    // Without room they stay until the next start.
                    let noted = purgatory.add_pr_placeholder(id, tip, addr, None, now());
                    changes.extend(noted.unwrap_or_default());
                }
                ((), changes)
            })
            .await
        })
    }

    /// Deletes such refs of a repository that came out of the archive: what left service does not come
    /// back with it (G01-113). Blocks.
    pub(crate) fn clear_orphan_refs(&self, addr: &RepoAddr) -> Result<(), GraspError> {
        for (id, _) in self.orphans(addr)? {
            self.clear_tip(addr, &id, None)?;
        }
        Ok(())
    }

    fn orphans(&self, addr: &RepoAddr) -> Result<Vec<(EventId, Oid)>, GraspError> {
        let refs = self.repositories.refs(addr);
        let refs = refs.map_err(GraspError::repository(addr))?;
        let mut orphans = Vec::new();
        for found in refs.iter() {
            let Some(id) = found.name.nostr_event_id() else {
                continue;
            };
            let id = EventId::from_slice(&id).expect("32 bytes");
            if !self.is_held_for(&id, addr) && !self.serves(&id)? {
                orphans.push((id, found.oid));
            }
        }
        Ok(orphans)
    }

    fn serves(&self, id: &EventId) -> Result<bool, ViewError> {
        self.look(|view| Ok(view.served_kind(id)?.is_some()))
    }

    pub(crate) fn is_held_for(&self, id: &EventId, addr: &RepoAddr) -> bool {
        let purgatory = self.purgatory.lock();
        let placeholder = purgatory.find_pr_placeholder(id);
        placeholder.is_some_and(|found| found.refs.contains_key(addr))
            || purgatory.find_pr(id).is_some()
    }
}
