//! Bytes that pull requests add to repositories of others, by who adds them.
//!
//! Anybody may sign a pull request and push what it names, and that stays for as long as the event is
//! served. A push of refs of pull requests takes of three budgets: that of the network it comes from, that
//! of the keys that signed the events, and that of the repository. Each comes back in the course of a day.
//! One network has at most a quarter of what is free of a repository, what it used there in the day included,
//! so that many leave some to others ([`SharedUse`]).
//!
//! A push to a contributor repository takes of the first alone: what it keeps has quotas, and what a deletion
//! frees of them may have been copied into other repositories.
//!
//! Bytes that were reserved are refunded unless the push is kept; a refused push costs its network a part
//! ([`grip_types::Charge`]).

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use grip_git::Unit;
use grip_nostr::{PublicKey, RepoAddr};
use grip_purgatory::Millis;
use grip_types::{ByteLru, Charge, ClientNetwork, SharedUse, whole_share};
use parking_lot::Mutex;

use crate::policy::PullRequestBytes;

/// The time in which a budget that is used up is whole again.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// Memory for what is used. What is forgotten beyond it was used longest ago.
const MAX_BYTES: usize = 8 << 20;

/// What was used of each budget, in memory alone: a restart gives everybody a new day.
pub(crate) struct RequestBytes(Mutex<ByteLru<Budget, Used>>);

/// Whose budget it is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Budget {
    Network(ClientNetwork),
    Author(PublicKey),
    Repository(RepoAddr),
    /// What a network has of that of a repository.
    NetworkIn(ClientNetwork, RepoAddr),
}

impl fmt::Display for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Network(_) => "from your network",
            Self::Author(_) => "of this author",
            Self::Repository(_) => "to this repository",
            Self::NetworkIn(..) => "from your network to this repository",
        })
    }
}

#[derive(Clone, Copy)]
struct Used {
    bytes: u64,
    at: Millis,
}

/// A push of refs of pull requests by keys that do not maintain the repository.
pub(super) struct Contribution<'a> {
    pub(super) network: Option<ClientNetwork>,
    /// Those who signed the events, as far as they have come.
    pub(super) authors: &'a BTreeSet<PublicKey>,
    /// None for a contributor repository; then there is a network.
    pub(super) repository: Option<&'a RepoAddr>,
}

/// More than is left of a budget.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.sentence())]
pub(super) struct RequestsFull {
    budget: Budget,
    limit: u64,
    left: u64,
}

impl RequestsFull {
    /// Says whether it is what the sender's own network has used up.
    pub(super) fn is_of_network(&self) -> bool {
        matches!(self.budget, Budget::Network(_))
    }

    fn sentence(&self) -> String {
        let [limit, left] = [self.limit, self.left].map(|bytes| Unit::Bytes.amount(bytes));
        format!(
            "over quota: pull requests {} may add {limit} in a day, and {left} are left for this \
             push; push again later, or have a maintainer fetch it from elsewhere",
            self.budget
        )
    }
}

impl Default for RequestBytes {
    fn default() -> Self {
        Self(Mutex::new(ByteLru::new(
            MAX_BYTES,
            |budget, _| match budget {
                Budget::Repository(addr) | Budget::NetworkIn(_, addr) => {
                    addr.identifier.as_str().len()
                }
                Budget::Network(_) | Budget::Author(_) => 0,
            },
        )))
    }
}

impl RequestBytes {
    /// Bytes that a push may bring, or the budget that is used up.
    pub(super) fn room(
        &self,
        of: &Contribution<'_>,
        limits: &PullRequestBytes,
        now: Millis,
    ) -> Result<u64, RequestsFull> {
        let least = self.least(of, limits, now);
        if least.left == 0 {
            return Err(least);
        }
        Ok(least.left)
    }

    /// The budget with the least room, for a push that brought more.
    pub(super) fn least(
        &self,
        of: &Contribution<'_>,
        limits: &PullRequestBytes,
        now: Millis,
    ) -> RequestsFull {
        least_left(&mut self.0.lock(), of, limits, now)
    }

    /// Takes bytes of every budget, or says of which one they are too many.
    pub(super) fn take(
        self: &Arc<Self>,
        of: &Contribution<'_>,
        bytes: u64,
        limits: &PullRequestBytes,
        now: Millis,
    ) -> Result<TakenBytes, RequestsFull> {
        let mut all = self.0.lock();
        let least = least_left(&mut all, of, limits, now);
        if least.left < bytes {
            return Err(least);
        }
        for (budget, limit) in of.budgets(limits) {
            add(&mut all, budget, limit, bytes, now);
        }
        Ok(TakenBytes {
            all: Arc::clone(self),
            budgets: of.budgets(limits).into_iter().map(|(it, _)| it).collect(),
            bytes,
        })
    }

    /// Charges a network for an upload of which nothing was kept, up to its limit: who tries again and
    /// again waits for no longer than a day.
    pub(super) fn charge_refused(
        &self,
        network: ClientNetwork,
        bytes: u64,
        limits: &PullRequestBytes,
        now: Millis,
    ) {
        let (budget, limit) = (Budget::Network(network), limits.per_network);
        let mut all = self.0.lock();
        let left = limit.saturating_sub(used(&mut all, &budget, limit, now));
        add(
            &mut all,
            budget,
            limit,
            Charge::Refused.of(bytes).min(left),
            now,
        );
    }
}

/// Bytes of budgets, given back on drop as far as they are not kept.
#[must_use = "what is not kept is given back"]
pub(super) struct TakenBytes {
    all: Arc<RequestBytes>,
    budgets: Vec<Budget>,
    bytes: u64,
}

impl TakenBytes {
    /// Leaves so many of them taken.
    pub(super) fn keep(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

impl Drop for TakenBytes {
    fn drop(&mut self) {
        let mut all = self.all.0.lock();
        for budget in &self.budgets {
            if let Some(used) = all.get_mut(budget) {
                used.bytes = used.bytes.saturating_sub(self.bytes);
            }
        }
    }
}

fn add(all: &mut ByteLru<Budget, Used>, budget: Budget, limit: u64, bytes: u64, now: Millis) {
    let bytes = used(all, &budget, limit, now).saturating_add(bytes);
    all.put(budget, Used { bytes, at: now });
}

impl Contribution<'_> {
    fn budgets(&self, limits: &PullRequestBytes) -> Vec<(Budget, u64)> {
        let network = self.network.map(Budget::Network);
        let network = network.map(|it| (it, limits.per_network));
        let authors = self.authors.iter().copied().map(Budget::Author);
        let authors = authors.map(|it| (it, limits.per_author));
        let repository = self.repository.map(|addr| {
            let whole = Budget::Repository(addr.clone());
            let of_network = self.network.map(|network| {
                let share = whole_share(limits.per_repository);
                (Budget::NetworkIn(network, addr.clone()), share)
            });
            std::iter::once((whole, limits.per_repository)).chain(of_network)
        });
        let all = network.into_iter().chain(authors);
        all.chain(repository.into_iter().flatten()).collect()
    }
}

/// The budget with the least room.
fn least_left(
    all: &mut ByteLru<Budget, Used>,
    of: &Contribution<'_>,
    limits: &PullRequestBytes,
    now: Millis,
) -> RequestsFull {
    let of_each = of.budgets(limits).into_iter().map(|(budget, limit)| {
        let own = used(all, &budget, limit, now);
        let left = match &budget {
            Budget::NetworkIn(_, addr) => {
                let whole = Budget::Repository(addr.clone());
                let shared = SharedUse {
                    all: used(all, &whole, limits.per_repository, now),
                    of_network: own,
                };
                shared.room(limits.per_repository)
            }
            _ => limit.saturating_sub(own),
        };
        RequestsFull {
            budget,
            limit,
            left,
        }
    });
    let least = of_each.min_by_key(|it| it.left);
    least.expect("a push has a repository or a network")
}

/// What is used of a budget at this moment.
fn used(all: &mut ByteLru<Budget, Used>, budget: &Budget, limit: u64, now: Millis) -> u64 {
    let Some(used) = all.get(budget) else {
        return 0;
    };
    let since = now.since(used.at).as_millis();
    let back = u128::from(limit) * since / DAY.as_millis();
    used.bytes
        .saturating_sub(u64::try_from(back).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use grip_types::{Identifier, NetworkPrefixes};
    use nostr::prelude::Keys;

    use super::*;

    const LIMITS: PullRequestBytes = PullRequestBytes {
        per_network: 100,
        per_author: 60,
        per_repository: 1_000,
    };

    fn network(last: u8) -> Option<ClientNetwork> {
        Some(NetworkPrefixes::default().network([203, 0, 113, last].into()))
    }

    fn repository(name: &str) -> RepoAddr {
        let owner = PublicKey::from_byte_array([7; 32]);
        RepoAddr::new(owner, Identifier::parse(name).unwrap())
    }

    fn key() -> BTreeSet<PublicKey> {
        BTreeSet::from([Keys::generate().public_key()])
    }

    fn at(hours: i64) -> Millis {
        Millis::new(1_700_000_000_000 + hours * 3_600_000)
    }

    fn kept(all: &Arc<RequestBytes>, of: &Contribution<'_>, bytes: u64, limits: &PullRequestBytes) {
        all.take(of, bytes, limits, at(0)).unwrap().keep(bytes);
    }

    #[test]
    fn what_is_not_kept_is_given_back_and_what_is_refused_costs_the_network_alone() {
        let (all, repository, authors) = (Arc::<RequestBytes>::default(), repository("x"), key());
        let of = |last| Contribution {
            network: network(last),
            authors: &authors,
            repository: Some(&repository),
        };
        let room = |last| all.room(&of(last), &LIMITS, at(0)).unwrap();
        drop(all.take(&of(1), 60, &LIMITS, at(0)).unwrap());
        assert_eq!(room(1), 60);
        let mut part = all.take(&of(1), 60, &LIMITS, at(0)).unwrap();
        part.keep(20);
        drop(part);
        assert_eq!(room(1), 40);
        all.charge_refused(network(1).unwrap(), 200, &LIMITS, at(0));
        assert_eq!((room(1), room(2)), (30, 40));
        // However much was refused, a day makes it whole.
        all.charge_refused(network(1).unwrap(), 100_000, &LIMITS, at(0));
        assert!(all.room(&of(1), &LIMITS, at(0)).is_err());
        assert_eq!(all.room(&of(1), &LIMITS, at(24)).unwrap(), 60);
    }

    #[test]
    fn a_network_and_an_author_have_their_budget_and_get_it_back_within_a_day() {
        let (all, repository, authors) = (Arc::<RequestBytes>::default(), repository("x"), key());
        let of = |network, authors| Contribution {
            network,
            authors,
            repository: Some(&repository),
        };
        let first = of(network(1), &authors);
        kept(&all, &first, 60, &LIMITS);
        let full = all.take(&first, 1, &LIMITS, at(0)).err().unwrap();
        assert!(matches!(full.budget, Budget::Author(_)), "{full}");
        let elsewhere = of(network(2), &authors);
        assert!(all.room(&elsewhere, &LIMITS, at(0)).is_err());
        let (other, third) = (key(), key());
        kept(&all, &of(network(1), &other), 40, &LIMITS);
        let full = all.room(&of(network(1), &third), &LIMITS, at(0));
        let full = full.unwrap_err();
        assert!(matches!(full.budget, Budget::Network(_)), "{full}");
        assert_eq!(all.room(&first, &LIMITS, at(12)).unwrap(), 30);
        assert_eq!(all.room(&first, &LIMITS, at(24)).unwrap(), 60);
    }

    #[test]
    fn many_networks_leave_some_of_a_repository_to_others() {
        let (all, [attacked, elsewhere]) =
            (Arc::<RequestBytes>::default(), ["x", "y"].map(repository));
        let limits = PullRequestBytes {
            per_network: 1_000,
            per_author: 1_000,
            ..LIMITS
        };
        for n in 0..10 {
            let authors = key();
            let of = Contribution {
                network: network(n),
                authors: &authors,
                repository: Some(&attacked),
            };
            // In many pushes: what came before counts.
            let mut pushes = 0;
            while all.room(&of, &limits, at(0)).is_ok() {
                kept(&all, &of, 1, &limits);
                pushes += 1;
            }
            assert!(pushes <= 200, "{pushes} bytes of one network");
        }
        let authors = key();
        let next = Contribution {
            network: network(99),
            authors: &authors,
            repository: Some(&attacked),
        };
        assert!(all.room(&next, &limits, at(0)).unwrap() > 10);
        let beside = Contribution {
            repository: Some(&elsewhere),
            ..next
        };
        assert_eq!(all.room(&beside, &limits, at(0)).unwrap(), 250);
    }

    /// Anybody may push below another's key: the day of that key is not theirs to use up.
    #[test]
    fn a_push_to_a_contributor_repository_is_of_the_day_of_its_network_alone() {
        let (all, nobody) = (Arc::<RequestBytes>::default(), BTreeSet::new());
        let of = |last| Contribution {
            network: network(last),
            authors: &nobody,
            repository: None,
        };
        kept(&all, &of(1), 100, &LIMITS);
        let full = all.room(&of(1), &LIMITS, at(0)).unwrap_err();
        assert!(full.is_of_network(), "{full}");
        assert_eq!(all.room(&of(2), &LIMITS, at(0)).unwrap(), 100);
        assert_eq!(all.room(&of(1), &LIMITS, at(12)).unwrap(), 50);
    }
}
