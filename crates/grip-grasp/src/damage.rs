//! Repositories that cannot be served as they are: what is on disk of them is damaged.

use std::{collections::BTreeMap, sync::Arc};

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
    by_fsck: Mutex<BTreeMap<RepoAddr, Unclean>>,
}

/// A repository in which `git fsck` found damage.
struct Unclean {
    reason: String,
    repair: Repair,
}

/// How far the repair of such a repository is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Repair {
    /// The next sweep looks for packs that cannot be read.
    Due,
    /// Such packs are set aside. What they had is looked for; once it is here everything is read again.
    Fetching,
    /// No pack is unreadable: it is left to a person.
    Impossible,
}

impl Damage {
    /// What is wrong with a repository, if anything is known to be.
    pub(crate) fn of(&self, addr: &RepoAddr) -> Option<String> {
        let reason = self.reasons.lock().get(addr).cloned();
        let by_fsck = || Some(self.by_fsck.lock().get(addr)?.reason.clone());
        reason.or_else(by_fsck)
    }

    /// Those in which the next packs that cannot be read are to be looked for.
    fn due(&self) -> Vec<RepoAddr> {
        let by_fsck = self.by_fsck.lock();
        let due = by_fsck.iter().filter(|(_, it)| it.repair == Repair::Due);
        due.map(|(addr, _)| addr.clone()).collect()
    }

    /// Those in which nothing is missing any more that events name: they are to be read again, by which
    /// what else the packs had is known.
    fn fetched(&self) -> Vec<RepoAddr> {
        let reasons = self.reasons.lock();
        let mut by_fsck = self.by_fsck.lock();
        let fetched = by_fsck.iter_mut();
        let fetched = fetched
            .filter(|(addr, it)| it.repair == Repair::Fetching && !reasons.contains_key(*addr));
        let again = |(addr, it): (&RepoAddr, &mut Unclean)| {
            it.repair = Repair::Due;
            addr.clone()
        };
        fetched.map(again).collect()
    }

    /// Notes whether unreadable packs of an identifier were set aside. If they were, or had been before, what
    /// they had is looked for.
    pub(crate) fn note_set_aside(&self, identifier: &Identifier, any: bool) {
        let reasons = self.reasons.lock();
        let mut by_fsck = self.by_fsck.lock();
        for (addr, unclean) in by_fsck.iter_mut() {
            if addr.identifier != *identifier {
                continue;
            }
            if any || reasons.contains_key(addr) {
                unclean.repair = Repair::Fetching;
            } else if unclean.repair == Repair::Due {
                unclean.repair = Repair::Impossible;
            }
        }
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
        let by_fsck = damage.by_fsck.lock();
        let reason = |(addr, it): (&RepoAddr, &Unclean)| (addr.clone(), it.reason.clone());
        let mut all: BTreeMap<RepoAddr, String> = by_fsck.iter().map(reason).collect();
        drop(by_fsck);
        all.extend(damage.reasons.lock().clone());
        all
    }
}

impl Core {
    /// Reads every object of a repository, and notes what is wrong. What was known stays known if that
    /// cannot be done.
    pub(crate) async fn fsck(&self, addr: &RepoAddr) -> Result<Option<String>, GraspError> {
        let read = self.read_all(addr).await?;
        let mut by_fsck = self.damage.by_fsck.lock();
        let Some(reason) = read else {
            if by_fsck.remove(addr).is_some() {
                tracing::info!(repository = %addr, "repository is whole again");
            }
            return Ok(None);
        };
        let repair = by_fsck.get(addr).map(|it| it.repair);
        if repair.is_none() {
            tracing::error!(repository = %addr, reason, "repository is damaged; it is not served until it is whole again");
        }
        let unclean = Unclean {
            reason: reason.clone(),
            repair: repair.unwrap_or(Repair::Due),
        };
        by_fsck.insert(addr.clone(), unclean);
        Ok(Some(reason))
    }

    /// Reads every object of a repository, and says what is wrong.
    pub(crate) async fn read_all(&self, addr: &RepoAddr) -> Result<Option<String>, GraspError> {
        let fsck = self.repositories.fsck(addr).await;
        let fsck = fsck.map_err(GraspError::repository(addr))?;
        let reason = fsck.report.lines().next().unwrap_or("git fsck failed");
        Ok((!fsck.is_clean).then(|| reason.to_owned()))
    }

    /// Reads the repositories whose fetches failed as if they were damaged, and has the data looked for that
    /// damaged ones cannot read.
    pub(crate) async fn look_at_suspects(self: &Arc<Self>) {
        for addr in self.repositories.take_suspects() {
            self.look_at_suspect(&addr).await;
        }
        for addr in self.damage.fetched() {
            self.look_at_suspect(&addr).await;
        }
        for addr in self.damage.due() {
            // What the audit sees is put aside by this, and what is missing is known.
            self.settle_in_turn(&addr.identifier).await;
            match self.set_unreadable_packs_aside(&addr.identifier).await {
                Ok(()) => self.settle_in_turn(&addr.identifier).await,
                Err(error) => error.log("failed to set damaged packs aside"),
            }
        }
    }

    /// One that is served and cannot be read to its end is not read again by itself: one that is too large
    /// for it would be read in every sweep. The next fetch that fails names it again. One that is not served
    /// has no such fetch, and is read again by the next sweep.
    async fn look_at_suspect(&self, addr: &RepoAddr) {
        if self.hosted.status(addr).is_none() {
            self.damage.by_fsck.lock().remove(addr);
        } else if let Err(error) = self.fsck(addr).await {
            error.log("failed to check a repository whose fetch failed");
            if let Some(unclean) = self.damage.by_fsck.lock().get_mut(addr) {
                unclean.repair = Repair::Fetching;
            }
        }
    }
}
