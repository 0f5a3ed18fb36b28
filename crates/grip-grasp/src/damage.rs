//! Repositories that cannot be served as they are: what is on disk of them is damaged.

use std::collections::BTreeMap;

use grip_nostr::RepoAddr;
use grip_types::Identifier;
use parking_lot::Mutex;

use crate::{
    Grasp,
    agreement::{Disagreement, Fault},
    error::GraspError,
    grasp::Core,
};

/// The damaged repositories and what is wrong with each. Bounded by the repositories hosted.
#[derive(Default)]
pub(crate) struct Damage {
    /// Found by the audit, and gone with what it found.
    reasons: Mutex<BTreeMap<RepoAddr, String>>,
    /// Found by `git fsck`, which reads every object, and gone when it finds nothing any more.
    by_fsck: Mutex<BTreeMap<RepoAddr, String>>,
}

impl Damage {
    /// What is wrong with a repository, if anything is known to be.
    pub(crate) fn of(&self, addr: &RepoAddr) -> Option<String> {
        let reason = self.reasons.lock().get(addr).cloned();
        reason.or_else(|| self.by_fsck.lock().get(addr).cloned())
    }

    /// Takes what was found out about an identifier in place of what was known.
    pub(crate) fn note(&self, identifier: &Identifier, found: &[Disagreement]) {
        let mut now = BTreeMap::new();
        for Disagreement {
            repository, fault, ..
        } in found
        {
            if let (Some(addr), Fault::Damaged { .. } | Fault::MissingObject { .. }) =
                (repository, fault)
            {
                now.entry(addr.clone()).or_insert_with(|| fault.to_string());
            }
        }
        let mut reasons = self.reasons.lock();
        for (addr, reason) in &now {
            if reasons.get(addr) != Some(reason) {
                tracing::error!(repository = %addr, %reason, "repository is damaged; it is not served until it is whole again");
            }
        }
        let known = reasons.extract_if(.., |addr, _| addr.identifier == *identifier);
        for (addr, _) in known.collect::<Vec<_>>() {
            if !now.contains_key(&addr) {
                tracing::info!(repository = %addr, "repository is whole again");
            }
        }
        reasons.extend(now);
    }
}

impl Grasp {
    /// Why a repository cannot be served at the moment, if so.
    pub fn damage(&self, addr: &RepoAddr) -> Option<String> {
        self.core.damage.of(addr)
    }

    /// Every damaged repository and what is wrong with it.
    pub fn damaged(&self) -> BTreeMap<RepoAddr, String> {
        let damage = &self.core.damage;
        let mut all = damage.by_fsck.lock().clone();
        all.extend(damage.reasons.lock().clone());
        all
    }
}

impl Core {
    /// Reads every object of a repository, and notes what is wrong. What was known stays known if that
    /// cannot be done.
    pub(crate) async fn fsck(&self, addr: &RepoAddr) -> Result<Option<String>, GraspError> {
        let fsck = self.repositories.fsck(addr).await;
        let fsck = fsck.map_err(GraspError::repository(addr))?;
        let mut by_fsck = self.damage.by_fsck.lock();
        if fsck.is_clean {
            by_fsck.remove(addr);
            return Ok(None);
        }
        let reason = fsck.report.lines().next().unwrap_or("git fsck failed");
        if by_fsck.insert(addr.clone(), reason.to_owned()).is_none() {
            tracing::error!(repository = %addr, reason, "repository is damaged; it is not served until it is whole again");
        }
        Ok(Some(reason.to_owned()))
    }

    /// Reads the repositories whose fetches failed as if they were damaged; one that cannot be read to
    /// its end is read again in the next round.
    pub(crate) async fn look_at_suspects(&self) {
        for addr in self.repositories.take_suspects() {
            if self.hosted.status(&addr).is_none() {
                continue;
            }
            // Not again by itself: one that is too large to be read would be read in every sweep.
            if let Err(error) = self.fsck(&addr).await {
                error.log("failed to check a repository whose fetch failed");
            }
        }
    }
}
