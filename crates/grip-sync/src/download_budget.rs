//! Byte budgets of what events make us download.
//!
//! Whose share is used up: an event of a few hundred bytes can name gigabytes. What comes is counted
//! against its author, whether it is of use or not, and against a total, of which authors who are
//! not served here leave a quarter. A fetch begins while anything is left and goes on to its end, so
//! that a large one is not cut for nothing; what it took beyond is missing afterwards.
//!
//! Looks at the refs of other servers have a part of the total to themselves: fetches of strangers put
//! none off, and looks of whatever size leave nearly all of what is reserved for those who are served.
//!
//! Use decays evenly over the window. Nothing of it outlives the process. A download that was received and
//! could not be kept because this node failed is given back to the authors ([`grip_types::Charge`]); it
//! counts in the total all the same, which is what the link carried.

use std::{collections::HashMap, time::Duration};

use grip_tasks::{ByteBudget, SpentBytes};
use grip_types::Owner;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Authors remembered; beyond, those who used least are forgotten.
const MAX_OWNERS: usize = 10_000;
/// The part of the total that is for those who are served.
const RESERVED: u64 = 4;
/// The part of the total that is for looks.
const LOOKS: u64 = 16;

/// How many bytes may be downloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DownloadLimits {
    /// For what one author signed, in a window; default 4 GiB.
    pub per_author: u64,
    /// In a window; default 64 GiB.
    pub total: u64,
    /// Default one hour.
    pub window: Duration,
}

impl DownloadLimits {
    fn of_total(&self) -> ByteBudget {
        self.budget(self.total)
    }

    fn of_looks(&self) -> ByteBudget {
        self.budget(self.total / LOOKS)
    }

    fn of_author(&self) -> ByteBudget {
        self.budget(self.per_author)
    }

    fn budget(&self, limit: u64) -> ByteBudget {
        let window = self.window;
        ByteBudget { limit, window }
    }
}

impl Default for DownloadLimits {
    fn default() -> Self {
        Self {
            per_author: 4 << 30,
            total: 64 << 30,
            window: Duration::from_secs(3600),
        }
    }
}

/// Why an author's events make us download nothing at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Spent {
    #[error("the download budget of its author is used up for now")]
    Author,
    #[error("the download budget of this node is used up for now")]
    Total,
}

/// The bytes that count still, by author and in all.
pub struct DownloadBudget {
    limits: DownloadLimits,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    total: SpentBytes,
    looks: SpentBytes,
    owners: HashMap<[u8; 32], SpentBytes>,
    bytes_total: u64,
}

impl DownloadBudget {
    pub fn new(limits: DownloadLimits) -> Self {
        Self {
            limits,
            state: Mutex::default(),
        }
    }

    /// Says whether a fetch for an author may begin.
    pub(crate) fn check(&self, owner: &Owner, now: Instant) -> Result<(), Spent> {
        let (state, total) = (self.state.lock(), self.limits.of_total());
        let most = if owner.is_served {
            total.limit
        } else {
            total.limit - total.limit / RESERVED
        };
        if state.total.now(total, now) >= most {
            return Err(Spent::Total);
        }
        state.check_own(owner, self.limits.of_author(), now)
    }

    /// Says whether a look at a server may begin that an author lists.
    pub(crate) fn check_look(&self, owner: &Owner, now: Instant) -> Result<(), Spent> {
        let (state, looks) = (self.state.lock(), self.limits.of_looks());
        if state.looks.now(looks, now) >= looks.limit {
            return Err(Spent::Total);
        }
        state.check_own(owner, self.limits.of_author(), now)
    }

    /// Counts bytes of a look, as those of a fetch and against what is for looks.
    pub(crate) fn charge_look(&self, payers: &[Owner], bytes: u64, now: Instant) {
        let mut state = self.state.lock();
        state.looks.add(bytes, self.limits.of_looks(), now);
        drop(state);
        self.charge(payers, bytes, now);
    }

    /// Counts bytes that came, in equal parts against those who pay.
    pub(crate) fn charge(&self, payers: &[Owner], bytes: u64, now: Instant) {
        let mut state = self.state.lock();
        state.bytes_total = state.bytes_total.saturating_add(bytes);
        state.total.add(bytes, self.limits.of_total(), now);
        for payer in payers {
            if state.owners.len() >= MAX_OWNERS && !state.owners.contains_key(&payer.key) {
                state.forget_some(self.limits.of_author(), now);
            }
            let own = state.owners.entry(payer.key).or_default();
            own.add(part(payers, bytes), self.limits.of_author(), now);
        }
    }

    /// Gives bytes back to those who paid for them.
    pub(crate) fn give_back(&self, payers: &[Owner], bytes: u64) {
        let mut state = self.state.lock();
        for payer in payers {
            if let Some(own) = state.owners.get_mut(&payer.key) {
                own.give_back(part(payers, bytes));
            }
        }
    }

    /// Bytes of the total that are in use, the total, and all that ever came.
    pub(crate) fn usage(&self, now: Instant) -> (u64, u64, u64) {
        let (state, total) = (self.state.lock(), self.limits.of_total());
        (state.total.now(total, now), total.limit, state.bytes_total)
    }
}

/// What each of those who pay has to pay.
fn part(payers: &[Owner], bytes: u64) -> u64 {
    bytes.div_ceil(payers.len().max(1) as u64)
}

impl State {
    fn check_own(&self, owner: &Owner, budget: ByteBudget, now: Instant) -> Result<(), Spent> {
        let own = self.owners.get(&owner.key);
        if own.is_some_and(|own| own.now(budget, now) >= budget.limit) {
            return Err(Spent::Author);
        }
        Ok(())
    }

    /// Forgets half of the authors, those who used least.
    fn forget_some(&mut self, budget: ByteBudget, now: Instant) {
        let spent = self.owners.iter();
        let mut spent: Vec<(u64, [u8; 32])> = spent
            .map(|(key, spent)| (spent.now(budget, now), *key))
            .collect();
        let half = spent.len() / 2;
        spent.select_nth_unstable(half);
        for (_, key) in &spent[..half] {
            self.owners.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn owner(n: u16, is_served: bool) -> Owner {
        let mut key = [0; 32];
        key[..2].copy_from_slice(&n.to_be_bytes());
        Owner { key, is_served }
    }

    fn budget(per_author: u64, total: u64) -> DownloadBudget {
        DownloadBudget::new(DownloadLimits {
            per_author,
            total,
            window: MINUTE,
        })
    }

    #[test]
    fn what_could_not_be_kept_here_is_given_back_to_its_authors_and_not_to_the_node() {
        let (budget, now) = (budget(100, 10_000), Instant::now());
        let (one, two) = (owner(1, false), owner(2, false));
        budget.charge(&[one, two], 300, now);
        assert_eq!(budget.check(&one, now), Err(Spent::Author));
        budget.give_back(&[one, two], 300);
        assert_eq!(budget.check(&one, now), Ok(()));
        assert_eq!(budget.check(&two, now), Ok(()));
        assert_eq!(budget.usage(now).0, 300);
    }

    #[test]
    fn an_author_who_used_his_budget_up_waits_and_nobody_else_does() {
        let (budget, now) = (budget(100, 10_000), Instant::now());
        let (one, two) = (owner(1, true), owner(2, false));
        budget.charge(&[one], 99, now);
        assert_eq!(budget.check(&one, now), Ok(()));
        budget.charge(&[one], 51, now);
        assert_eq!(budget.check(&one, now), Err(Spent::Author));
        assert_eq!(budget.check(&two, now), Ok(()));
        // Half of the budget is forgotten in half of the window; what went beyond counts too.
        assert_eq!(budget.check(&one, now + MINUTE / 2), Err(Spent::Author));
        assert_eq!(budget.check(&one, now + MINUTE / 2 + MINUTE / 50), Ok(()));
    }

    #[test]
    fn any_number_of_keys_leave_a_quarter_to_those_who_are_served() {
        let (budget, now) = (budget(100, 1_000), Instant::now());
        let mut begun = 0;
        for n in 0..1_000 {
            if budget.check(&owner(n, false), now).is_ok() {
                budget.charge(&[owner(n, false)], 100, now);
                begun += 1;
            }
        }
        assert_eq!(begun, 8);
        let stranger = owner(2_000, false);
        assert_eq!(budget.check(&stranger, now), Err(Spent::Total));
        assert_eq!(budget.check(&owner(3_000, true), now), Ok(()));
        assert_eq!(budget.usage(now), (800, 1_000, 800));
    }

    #[test]
    fn strangers_who_use_the_total_up_put_off_no_look_and_looks_leave_the_rest() {
        let (budget, now) = (budget(10_000, 1_600), Instant::now());
        let (stranger, owner) = (owner(1, false), owner(2, true));
        budget.charge(&[stranger], 1_200, now);
        assert_eq!(budget.check(&stranger, now), Err(Spent::Total));
        let mut looks = 0;
        while budget.check_look(&owner, now).is_ok() {
            budget.charge_look(&[owner], 10, now);
            looks += 1;
        }
        assert_eq!(looks, 10, "a sixteenth of the total");
        assert_eq!(budget.check(&owner, now), Ok(()), "the rest is for fetches");
        // Half of it is forgotten in half of the window.
        assert_eq!(budget.check_look(&owner, now + MINUTE / 2), Ok(()));
    }

    #[test]
    fn those_who_want_the_same_share_its_price() {
        let (budget, now) = (budget(100, 10_000), Instant::now());
        let (one, two) = (owner(1, false), owner(2, false));
        budget.charge(&[one, two], 198, now);
        assert_eq!(budget.check(&one, now), Ok(()));
        budget.charge(&[one], 1, now);
        assert_eq!(budget.check(&one, now), Err(Spent::Author));
        assert_eq!(budget.check(&two, now), Ok(()));
    }

    #[test]
    fn a_flood_of_keys_makes_nobody_forget_who_used_most() {
        let (budget, now) = (budget(100, u64::MAX / 2), Instant::now());
        budget.charge(&[owner(u16::MAX, false)], 100, now);
        for n in 0..3 * MAX_OWNERS {
            budget.charge(&[owner(u16::try_from(n).unwrap(), false)], 1, now);
        }
        assert!(budget.state.lock().owners.len() <= MAX_OWNERS);
        let greedy = budget.check(&owner(u16::MAX, false), now);
        assert_eq!(greedy, Err(Spent::Author));
    }
}
