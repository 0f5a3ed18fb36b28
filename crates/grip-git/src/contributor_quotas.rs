//! Quotas of contributor repositories: what strangers may keep below `/prs/` (GRASP-06).
//!
//! Nobody announces a contributor repository, so what is in one is nobody's but those who sent it. It
//! counts as long as it is there, whether its event came or not.
//!
//! | quota | counts against |
//! |---|---|
//! | `per_address` | the network of clients that sent it |
//! | `per_key` | the key in the path, which has to sign the pull request |
//! | `per_target` | all contributors to repositories of one identifier |
//!
//! Anyone may push below another's key until the event is missed, so a network has less than a key,
//! and a key less than a target.

use std::collections::HashMap;

use grip_types::RepoAddr;

use crate::staged_uploads::{Bytes, StagedUpload, StagingBudget, StagingFull};

/// What one share may come to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Of packs with their indexes.
    pub bytes: u64,
    pub refs: u64,
}

/// Bytes and refs that may be kept; each is a share, not a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContributorQuotas {
    /// For uploads from one network of clients; default 256 MiB and 64 refs.
    pub per_address: Quota,
    /// For uploads below one key; default 512 MiB and 256 refs.
    pub per_key: Quota,
    /// For uploads to all contributor repositories of one identifier; default 4 GiB and 2048 refs.
    pub per_target: Quota,
}

impl ContributorQuotas {
    pub(crate) const DEFAULT: Self = Self {
        per_address: Quota {
            bytes: 256 << 20,
            refs: 64,
        },
        per_key: Quota {
            bytes: 512 << 20,
            refs: 256,
        },
        per_target: Quota {
            bytes: 4 << 30,
            refs: 2048,
        },
    };
}

impl Default for ContributorQuotas {
    fn default() -> Self {
        Self::DEFAULT
    }
}

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Bytes,
    Refs,
}

impl Unit {
    /// A number of it in words.
    pub fn amount(self, n: u64) -> String {
        match self {
            Self::Bytes => Bytes(n).to_string(),
            Self::Refs => format!("{n} refs"),
        }
    }
}

/// What each share comes to. A count that reaches zero leaves the map, so that it is bounded by the
/// uploads.
#[derive(Default)]
pub(crate) struct Contributed {
    used: HashMap<StagingBudget, Quota>,
}

impl Contributed {
    /// Says whether so much more fits for `repo`.
    pub(crate) fn check(
        &self,
        repo: &RepoAddr,
        sender: Option<&str>,
        more: Quota,
        quotas: &ContributorQuotas,
    ) -> Result<(), StagingFull> {
        for (budget, quota) in shares(repo, sender, quotas) {
            let used = self.used(&budget);
            let amounts = [
                (Unit::Refs, used.refs, more.refs, quota.refs),
                (Unit::Bytes, used.bytes, more.bytes, quota.bytes),
            ];
            for (unit, used, more, limit) in amounts {
                if used.saturating_add(more) > limit {
                    return Err(StagingFull {
                        budget,
                        limit,
                        used,
                        unit,
                    });
                }
            }
        }
        Ok(())
    }

    /// The bytes that still fit.
    pub(crate) fn room(
        &self,
        repo: &RepoAddr,
        sender: Option<&str>,
        quotas: &ContributorQuotas,
    ) -> u64 {
        let shares = shares(repo, sender, quotas);
        let left =
            shares.map(|(budget, quota)| quota.bytes.saturating_sub(self.used(&budget).bytes));
        left.min().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, repo: &RepoAddr, upload: &StagedUpload) {
        for budget in budgets(repo, upload.sender.as_deref()) {
            let used = self
                .used
                .entry(budget)
                .or_insert(Quota { bytes: 0, refs: 0 });
            used.bytes += upload.bytes;
            used.refs += upload.tips.len() as u64;
        }
    }

    pub(crate) fn remove(&mut self, repo: &RepoAddr, upload: &StagedUpload) {
        for budget in budgets(repo, upload.sender.as_deref()) {
            let Some(used) = self.used.get_mut(&budget) else {
                continue;
            };
            used.bytes = used.bytes.saturating_sub(upload.bytes);
            used.refs = used.refs.saturating_sub(upload.tips.len() as u64);
            if used.bytes == 0 && used.refs == 0 {
                self.used.remove(&budget);
            }
        }
    }

    fn used(&self, budget: &StagingBudget) -> Quota {
        let used = self.used.get(budget).copied();
        used.unwrap_or(Quota { bytes: 0, refs: 0 })
    }
}

/// Whose shares an upload takes, the smallest first.
fn budgets(repo: &RepoAddr, sender: Option<&str>) -> impl Iterator<Item = StagingBudget> {
    let address = sender.map(|sender| StagingBudget::ContributorAddress(sender.to_owned()));
    let key = StagingBudget::Key(repo.owner);
    let target = StagingBudget::Target(repo.identifier.clone());
    address.into_iter().chain([key, target])
}

fn shares(
    repo: &RepoAddr,
    sender: Option<&str>,
    quotas: &ContributorQuotas,
) -> impl Iterator<Item = (StagingBudget, Quota)> {
    budgets(repo, sender).map(|budget| {
        let quota = match &budget {
            StagingBudget::Key(_) => quotas.per_key,
            StagingBudget::Target(_) => quotas.per_target,
            _ => quotas.per_address,
        };
        (budget, quota)
    })
}
