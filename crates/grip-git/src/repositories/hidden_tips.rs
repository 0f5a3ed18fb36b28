//! Tips of contributor repositories that are out of service and kept.
//!
//! The ref becomes a record of its deletion, as [`crate::RefMove`] writes them: no client is shown it,
//! and what it rests on stays, counted as before. Blocking.
//!
//! Objects that are reachable from these alone cannot be fetched by their id (see `withheld.rs`).

use grip_types::{Oid, RefEdit, RefName, RepoAddr};

use super::{RepoError, Repositories};
use crate::refs::{self, RefSnapshot, RefUpdateError};

impl Repositories {
    /// Hides `name`, with the time in unix milliseconds, and says where it was; nothing happens if it is not
    /// there.
    pub fn hide_tip(
        &self,
        repo: &RepoAddr,
        name: &RefName,
        at: u64,
    ) -> Result<Option<Oid>, RefUpdateError> {
        let Some(tip) = self.refs(repo)?.get(name).map(|found| found.oid) else {
            return Ok(None);
        };
        let hidden = refs::hidden_name(name, at);
        self.update_refs(repo, &moved(name, &hidden, tip), None)?;
        Ok(Some(tip))
    }

    /// Shows `name` again where it was hidden; nothing happens if it is not.
    pub fn show_tip(&self, repo: &RepoAddr, name: &RefName) -> Result<(), RefUpdateError> {
        let refs = self.refs(repo)?;
        let Some((hidden, tip)) = refs.hidden(name) else {
            return Ok(());
        };
        if refs.get(name).is_some() {
            return self.drop_hidden_tip(repo, name);
        }
        self.update_refs(repo, &moved(&hidden, name, tip), None)
            .map(drop)
    }

    /// Removes what is kept of `name`, and what rests on it alone.
    pub fn drop_hidden_tip(&self, repo: &RepoAddr, name: &RefName) -> Result<(), RefUpdateError> {
        let Some((hidden, tip)) = self.refs(repo)?.hidden(name) else {
            return Ok(());
        };
        let edit = RefEdit {
            name: hidden,
            old: Some(tip),
            new: None,
        };
        self.update_refs(repo, &[edit], None)?;
        Ok(self.reclaim_staged(repo)?)
    }

    /// The tips that are hidden in a contributor repository.
    pub fn hidden_tips(&self, repo: &RepoAddr) -> Result<Vec<(RefName, Oid)>, RepoError> {
        let refs = self.refs(repo)?;
        Ok(refs.moves().filter_map(refs::hidden_tip).collect())
    }
}

impl RefSnapshot {
    /// Says whether `name` is at `tip`, shown or hidden.
    pub(super) fn has_tip(&self, name: &RefName, tip: &Oid) -> bool {
        self.get(name).is_some_and(|found| found.oid == *tip)
            || self.hidden(name).is_some_and(|(_, hidden)| hidden == *tip)
    }

    /// The hidden ref that stands for `name`, and its tip.
    pub(super) fn hidden(&self, name: &RefName) -> Option<(RefName, Oid)> {
        let mut hidden = self.moves().filter(|it| it.name == *name);
        hidden.find_map(|it| {
            let at = it.at;
            refs::hidden_tip(it).map(|(name, tip)| (refs::hidden_name(&name, at), tip))
        })
    }
}

fn moved(from: &RefName, to: &RefName, tip: Oid) -> [RefEdit; 2] {
    let edit = |name: &RefName, old, new| RefEdit {
        name: name.clone(),
        old,
        new,
    };
    [edit(from, Some(tip), None), edit(to, None, Some(tip))]
}
