//! Shares of staged uploads: what networks, keys and names have of them, and how much fits.
//!
//! | budget | whose share | what one network has of it |
//! |---|---|---|
//! | of an address | the network of clients that sends | all |
//! | of an identifier, a key or a target | everybody who sends there | a quarter of what is free |
//!
//! So a few networks that take all they get leave room to the next ([`SharedUse`]). A maintainer has no part of
//! the second kind, but the whole: who moves the branches of a repository in the same push speaks for it.

use std::collections::HashMap;

use grip_types::{RepoAddr, SharedUse};

use crate::{
    contributor_quotas::{Quota, Unit},
    staged_uploads::{StagedUpload, StagingBudget, StagingBudgets, StagingFull},
};

/// The sender of an upload.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sender {
    /// The network of clients it comes from; none where no bound per network applies.
    pub network: Option<String>,
    /// The same push moves what a maintainer signed.
    pub is_maintainer: bool,
}

impl Sender {
    /// Somebody from a network of clients.
    pub fn of_network(network: impl Into<String>) -> Self {
        Self {
            network: Some(network.into()),
            is_maintainer: false,
        }
    }
}

/// What each share comes to. A count that reaches zero leaves the map, so that it is bounded by the
/// uploads.
#[derive(Default)]
pub(crate) struct Shares(HashMap<StagingBudget, Used>);

#[derive(Default)]
struct Used {
    all: Quota,
    by_network: HashMap<String, Quota>,
}

impl Shares {
    /// Says whether so much more fits for `repo`.
    pub(crate) fn check(
        &self,
        repo: &RepoAddr,
        sender: &Sender,
        more: Quota,
        budgets: &StagingBudgets,
    ) -> Result<(), StagingFull> {
        let exceeds =
            |bound: &StagingFull| bound.used.saturating_add(more.of(bound.unit)) > bound.limit;
        let full = self.bounds(repo, sender, budgets).find(exceeds);
        full.map_or(Ok(()), Err)
    }

    /// The bytes that still fit.
    pub(crate) fn room(&self, repo: &RepoAddr, sender: &Sender, budgets: &StagingBudgets) -> u64 {
        let bounds = self.bounds(repo, sender, budgets);
        let bounds = bounds.filter(|bound| bound.unit == Unit::Bytes);
        let left = bounds.map(|bound| bound.limit.saturating_sub(bound.used));
        left.min().unwrap_or(0)
    }

    pub(crate) fn add(&mut self, repo: &RepoAddr, upload: &StagedUpload) {
        let (network, more) = (upload.sender.as_deref(), upload.quota());
        for budget in budgets_of(repo, network) {
            let shared = network.filter(|_| !budget.is_of_network());
            let used = self.0.entry(budget).or_default();
            used.all.add(more);
            if let Some(network) = shared {
                used.by_network
                    .entry(network.to_owned())
                    .or_default()
                    .add(more);
            }
        }
    }

    pub(crate) fn remove(&mut self, repo: &RepoAddr, upload: &StagedUpload) {
        let (network, less) = (upload.sender.as_deref(), upload.quota());
        for budget in budgets_of(repo, network) {
            let Some(used) = self.0.get_mut(&budget) else {
                continue;
            };
            used.all.remove(less);
            if let Some(network) = network
                && let Some(of_network) = used.by_network.get_mut(network)
            {
                of_network.remove(less);
                if *of_network == Quota::default() {
                    used.by_network.remove(network);
                }
            }
            if used.all == Quota::default() {
                self.0.remove(&budget);
            }
        }
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bounds that an upload has to stay within, the smallest budgets first.
    fn bounds<'a>(
        &'a self,
        repo: &'a RepoAddr,
        sender: &'a Sender,
        budgets: &'a StagingBudgets,
    ) -> impl Iterator<Item = StagingFull> + 'a {
        let network = sender.network.as_deref();
        let network_in_shared = network.filter(|_| !sender.is_maintainer);
        budgets_of(repo, network).flat_map(move |budget| {
            let quota = budgets.quota(&budget);
            let used = self.0.get(&budget);
            let network = network_in_shared.filter(|_| !budget.is_of_network());
            [Unit::Refs, Unit::Bytes].into_iter().flat_map(move |unit| {
                let limit = quota.of(unit);
                let all = used.map_or(0, |used| used.all.of(unit));
                let whole = StagingFull {
                    budget: budget.clone(),
                    limit,
                    used: all,
                    unit,
                    is_share: false,
                };
                let share = network.map(|network| {
                    let of_network = used.and_then(|used| used.by_network.get(network));
                    let of_network = of_network.map_or(0, |quota| quota.of(unit));
                    let share = SharedUse { all, of_network }.share(limit);
                    StagingFull {
                        // One ref at least: beyond it the bound of all decides.
                        limit: share.max(u64::from(unit == Unit::Refs)),
                        used: of_network,
                        is_share: true,
                        ..whole.clone()
                    }
                });
                std::iter::once(whole).chain(share)
            })
        })
    }
}

/// Whose shares an upload takes, the smallest first.
fn budgets_of(repo: &RepoAddr, network: Option<&str>) -> impl Iterator<Item = StagingBudget> {
    let network = network.map(str::to_owned);
    let (address, shared) = if repo.is_contributor() {
        let key = StagingBudget::Key(repo.owner);
        let target = StagingBudget::Target(repo.identifier.clone());
        let address = network.map(StagingBudget::ContributorAddress);
        (address, [Some(key), Some(target)])
    } else {
        let identifier = StagingBudget::Identifier(repo.identifier.clone());
        (
            network.map(StagingBudget::Address),
            [Some(identifier), None],
        )
    };
    address.into_iter().chain(shared.into_iter().flatten())
}
