//! `refs/nostr/*` for which there is neither an event nor a note: left by a crash, brought back
//! from the archive, or by the server whose data this was. They are given their time.

use std::sync::Arc;

use grip_nostr::{EventId, RepoAddr};
use grip_types::Oid;

use crate::{
    admission::ViewError,
    grasp::{Core, now},
    trouble::Trouble,
};

impl Core {
    /// Notes such refs of `repositories`, so that they go if no event comes (G01-47).
    pub(crate) async fn note_refs(
        self: &Arc<Self>,
        repositories: Vec<RepoAddr>,
    ) -> Result<(), Trouble> {
        let look = move |core: &Self| {
            let mut found = Vec::new();
            for addr in repositories {
                let unnoted = core.unnoted(&addr)?.into_iter();
                found.extend(unnoted.map(|(id, tip)| (id, tip, addr.clone())));
            }
            Ok::<_, Trouble>(found)
        };
        let unnoted = self.blocking("grasp.look", look).await??;
        if unnoted.is_empty() {
            return Ok(());
        }
        tracing::info!(
            count = unnoted.len(),
            "refs without an event get their time"
        );
        self.held(|purgatory| {
            let mut changes = Vec::new();
            for (id, tip, addr) in unnoted {
                // Without room they stay until the next start.
                let noted = purgatory.add_pr_placeholder(id, tip, addr, now());
                changes.extend(noted.unwrap_or_default());
            }
            ((), changes)
        })
        .await
    }

    fn unnoted(&self, addr: &RepoAddr) -> Result<Vec<(EventId, Oid)>, Trouble> {
        let refs = self.repositories.refs(addr);
        let refs = refs.map_err(Trouble::repository(addr))?;
        let mut unnoted = Vec::new();
        for found in refs.iter() {
            let Some(id) = found.name.nostr_event_id() else {
                continue;
            };
            let id = EventId::from_slice(&id).expect("32 bytes");
            if !self.is_noted(&id, addr) && !self.serves(&id)? {
                unnoted.push((id, found.oid));
            }
        }
        Ok(unnoted)
    }

    fn serves(&self, id: &EventId) -> Result<bool, ViewError> {
        self.look(|view| Ok(view.served_kind(id)?.is_some()))
    }

    fn is_noted(&self, id: &EventId, addr: &RepoAddr) -> bool {
        let purgatory = self.purgatory.lock();
        let placeholder = purgatory.find_pr_placeholder(id);
        placeholder.is_some_and(|found| found.refs.contains_key(addr))
            || purgatory.find_pr(id).is_some()
    }
}
