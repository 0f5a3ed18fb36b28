//! Permits of pushes under way, a few for each repository.
//!
//! Anybody may push to a repository: to `refs/nostr/…`, or what a maintainer has signed. So its
//! permits are shared out: what no state allows has half of them, and where all are taken, the upload
//! of the network that has most of them makes room, else one that trickles. A push that finds neither
//! waits a moment, in which every upload shows whether it trickles, before it is refused. Networks from
//! which branches or tags of the repository were moved before come first, then those that name one.

use std::{
    cmp::Reverse, collections::HashMap, num::NonZeroUsize, ops::ControlFlow, sync::Arc,
    time::Duration,
};

use grip_nostr::RepoAddr;
use grip_tasks::UploadProgress;
use grip_types::ClientNetwork;
use lru::LruCache;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

/// Pushes to one repository at once, from the first command to the last report: each may hold a
/// pack in quarantine and a process of git. The share of one repository.
const MAX_PER_REPOSITORY: usize = 8;
/// Those of them that strangers may have whose uploads no state allows.
const MAX_STAGED: usize = 4;
/// Pushes of one rank that wait for a permit of one repository; with those under way they are fewer than
/// the requests that one repository may have.
const MAX_WAITING: usize = 8;
/// Repositories whose maintainers' networks are remembered, and networks of each.
const MAX_REMEMBERED: NonZeroUsize = NonZeroUsize::new(4096).unwrap();
const MAX_NETWORKS: usize = 8;
/// How long a push waits for a permit: long enough that one who trickles is found out.
const MAX_WAIT: Duration = Duration::from_secs(10);
/// How often a push that waits looks for an upload that has become slow.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The pushes under way and those that wait.
pub(crate) struct PushPermits {
    /// Bounded by the connections that carry them.
    repositories: Mutex<HashMap<RepoAddr, Pushes>>,
    /// Networks from which branches or tags were moved.
    maintainers: Mutex<LruCache<RepoAddr, Vec<ClientNetwork>>>,
    freed: Notify,
}

/// In which order pushes get permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// Of a network that has moved branches or tags of the repository.
    Maintainer,
    /// It names a branch or a tag.
    State,
    /// It names neither: what it brings is staged.
    Staged,
}

/// The pushes to one repository.
#[derive(Default)]
struct Pushes {
    under_way: Vec<Arc<Transfer>>,
    waiting: Vec<WaitingPush>,
    /// That of the next that waits.
    number: u64,
}

/// A push that waits.
#[derive(Clone, Copy)]
struct WaitingPush {
    number: u64,
    rank: Rank,
    network: Option<ClientNetwork>,
}

impl Pushes {
    fn is_empty(&self) -> bool {
        self.under_way.is_empty() && self.waiting.is_empty()
    }

    /// The push whose turn it is: of the best rank, of the network that has least.
    fn next(&self) -> Option<WaitingPush> {
        let key = |push: &WaitingPush| {
            let ahead = self.waiting.iter().filter(|other| {
                push.network.is_some()
                    && other.network == push.network
                    && other.number < push.number
            });
            let has = held_by(&self.under_way, push.network) + ahead.count();
            (push.rank, has, push.number)
        };
        let waiting = self.waiting.iter();
        waiting.min_by_key(|push| key(push)).copied()
    }

    /// Makes room for `newcomer`, if there is none, by an upload of its rank or a lower one; a network
    /// that has none yet takes it from any of a lower rank.
    fn make_room(&mut self, newcomer: WaitingPush) -> Option<()> {
        let is_staged = newcomer.rank == Rank::Staged;
        let same = self
            .under_way
            .iter()
            .filter(|it| it.rank() == newcomer.rank);
        let is_full =
            self.under_way.len() >= MAX_PER_REPOSITORY || is_staged && same.count() >= MAX_STAGED;
        if is_full {
            let may_go = |it: &Transfer| it.rank() >= newcomer.rank;
            let least = place_of_least(&self.under_way, newcomer.network, may_go);
            let place = least.or_else(|| self.place_below(newcomer))?;
            self.under_way.swap_remove(place).progress.displace();
        }
        Some(())
    }

    /// The slowest upload of the lowest rank below that of `newcomer`, who has no permit yet.
    fn place_below(&self, newcomer: WaitingPush) -> Option<usize> {
        if held_by(&self.under_way, newcomer.network) > 0 {
            return None;
        }
        let uploads = self.under_way.iter().enumerate();
        let below = uploads.filter(|(_, it)| it.rank() > newcomer.rank && !it.progress.is_whole());
        let least =
            below.min_by_key(|(_, it)| (Reverse(it.rank()), it.progress.bytes_per_second()));
        least.map(|(place, _)| place)
    }

    /// The last that waits in this rank of the network that has most there and under way, if that is
    /// more than `newcomer` would have.
    fn last_of_most(&self, rank: Rank, newcomer: Option<ClientNetwork>) -> Option<u64> {
        let has = |network: Option<ClientNetwork>| {
            let same = self.waiting.iter().filter(|it| it.network == network);
            // A client without a network stands for many.
            network.map_or(0, |_| same.count() + held_by(&self.under_way, network))
        };
        let waiting = self.waiting.iter().filter(|it| it.rank == rank);
        let last = waiting.max_by_key(|it| (has(it.network), it.number))?;
        (has(last.network) > has(newcomer) + 1).then_some(last.number)
    }
}

/// The upload of a push that has a permit.
pub(super) struct Transfer {
    network: Option<ClientNetwork>,
    rank: Mutex<Rank>,
    pub(super) progress: Arc<UploadProgress>,
}

impl Transfer {
    fn rank(&self) -> Rank {
        *self.rank.lock()
    }

    /// Notes that it moves neither a branch nor a tag: to name one costs nothing.
    pub(super) fn moves_nothing(&self) {
        let mut rank = self.rank.lock();
        if *rank == Rank::State {
            *rank = Rank::Staged;
        }
    }
}

/// The right to have one push under way. Freed on drop.
#[must_use = "dropping the permit frees it"]
pub(super) struct PushPermit {
    permits: Arc<PushPermits>,
    repository: RepoAddr,
    transfer: Arc<Transfer>,
}

impl PushPermit {
    pub(super) fn transfer(&self) -> &Arc<Transfer> {
        &self.transfer
    }
}

impl Drop for PushPermit {
    fn drop(&mut self) {
        let mut repositories = self.permits.repositories.lock();
        if let Some(pushes) = repositories.get_mut(&self.repository) {
            let under_way = &mut pushes.under_way;
            under_way.retain(|other| !Arc::ptr_eq(other, &self.transfer));
            if pushes.is_empty() {
                repositories.remove(&self.repository);
            }
        }
        drop(repositories);
        self.permits.freed.notify_waiters();
    }
}

/// A place in the line of a repository. Left on drop.
struct Waiting<'a> {
    permits: &'a Arc<PushPermits>,
    repository: &'a RepoAddr,
    push: WaitingPush,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut repositories = self.permits.repositories.lock();
        if let Some(pushes) = repositories.get_mut(self.repository) {
            let waiting = &mut pushes.waiting;
            waiting.retain(|other| other.number != self.push.number);
            if pushes.is_empty() {
                repositories.remove(self.repository);
            }
        }
        drop(repositories);
        // Another may be next now.
        self.permits.freed.notify_waiters();
    }
}

impl Default for PushPermits {
    fn default() -> Self {
        Self {
            repositories: Mutex::default(),
            maintainers: Mutex::new(LruCache::new(MAX_REMEMBERED)),
            freed: Notify::new(),
        }
    }
}

impl PushPermits {
    /// A permit for a push to `repository`; none if all stay taken, or too many wait. Cancel safe.
    pub(super) async fn acquire(
        self: &Arc<Self>,
        repository: &RepoAddr,
        network: Option<ClientNetwork>,
        moves_state_refs: bool,
        progress: Arc<UploadProgress>,
    ) -> Option<PushPermit> {
        let deadline = Instant::now() + MAX_WAIT;
        let waiting = self.enter(repository, network, moves_state_refs)?;
        loop {
            let freed = self.freed.notified();
            if let ControlFlow::Break(taken) = self.try_take(&waiting, &progress) {
                return taken;
            }
            let now = Instant::now();
            if now >= deadline {
                return None;
            }
            // Freed or not, it is time to look again.
            let _ = timeout_at(deadline.min(now + LOOK_EVERY), freed).await;
        }
    }

    /// Goes to the end of the line, if it is not too long.
    fn enter<'a>(
        self: &'a Arc<Self>,
        repository: &'a RepoAddr,
        network: Option<ClientNetwork>,
        moves_state_refs: bool,
    ) -> Option<Waiting<'a>> {
        let rank = if self.is_maintainers(repository, network) {
            Rank::Maintainer
        } else if moves_state_refs {
            Rank::State
        } else {
            Rank::Staged
        };
        let mut repositories = self.repositories.lock();
        let pushes = repositories.entry(repository.clone()).or_default();
        let same = pushes.waiting.iter().filter(|other| other.rank == rank);
        if same.count() >= MAX_WAITING {
            let last = pushes.last_of_most(rank, network)?;
            pushes.waiting.retain(|other| other.number != last);
            self.freed.notify_waiters();
        }
        let push = WaitingPush {
            number: pushes.number,
            rank,
            network,
        };
        pushes.number += 1;
        pushes.waiting.push(push);
        Some(Waiting {
            permits: self,
            repository,
            push,
        })
    }

    /// The permit if it is its turn; none for good if another has taken its place in the line.
    fn try_take(
        self: &Arc<Self>,
        waiting: &Waiting<'_>,
        progress: &Arc<UploadProgress>,
    ) -> ControlFlow<Option<PushPermit>> {
        let push = waiting.push;
        let mut repositories = self.repositories.lock();
        let Some(pushes) = repositories.get_mut(waiting.repository) else {
            return ControlFlow::Break(None);
        };
        let is_same = |other: &WaitingPush| other.number == push.number;
        if !pushes.waiting.iter().any(is_same) {
            return ControlFlow::Break(None);
        }
        if !pushes.next().is_some_and(|next| is_same(&next)) || pushes.make_room(push).is_none() {
            return ControlFlow::Continue(());
        }
        let transfer = Arc::new(Transfer {
            network: push.network,
            rank: Mutex::new(push.rank),
            progress: Arc::clone(progress),
        });
        pushes.under_way.push(Arc::clone(&transfer));
        ControlFlow::Break(Some(PushPermit {
            permits: Arc::clone(self),
            repository: waiting.repository.clone(),
            transfer,
        }))
    }

    fn is_maintainers(&self, repository: &RepoAddr, network: Option<ClientNetwork>) -> bool {
        let mut maintainers = self.maintainers.lock();
        let networks = maintainers.get(repository);
        networks.is_some_and(|networks| network.is_some_and(|of| networks.contains(&of)))
    }

    /// Remembers that branches or tags were moved from there.
    pub(super) fn moved_state_refs(&self, repository: &RepoAddr, network: Option<ClientNetwork>) {
        let Some(network) = network else {
            return;
        };
        let mut maintainers = self.maintainers.lock();
        let networks = maintainers.get_or_insert_mut(repository.clone(), Vec::new);
        networks.retain(|other| *other != network);
        networks.insert(0, network);
        networks.truncate(MAX_NETWORKS);
    }

    /// How many pushes are under way.
    pub(crate) fn total(&self) -> usize {
        let repositories = self.repositories.lock();
        let pushes = repositories.values();
        pushes.map(|pushes| pushes.under_way.len()).sum()
    }
}

/// The permits that a network has; a client without a network stands for many.
fn held_by(transfers: &[Arc<Transfer>], network: Option<ClientNetwork>) -> usize {
    let same = transfers.iter().filter(|it| it.network == network);
    network.map_or(0, |_| same.count())
}

/// The upload that makes room for one of `newcomer`: the slowest of the network that has most, if
/// that has more than the newcomer then; else the slowest, if it is slow. What is whole stays.
fn place_of_least(
    transfers: &[Arc<Transfer>],
    newcomer: Option<ClientNetwork>,
    may_go: impl Fn(&Transfer) -> bool,
) -> Option<usize> {
    let held_by = |network| held_by(transfers, network);
    let uploads = || {
        let uploads = transfers.iter().enumerate();
        uploads.filter(|(_, it)| may_go(it) && !it.progress.is_whole())
    };
    let (place, least) = uploads()
        .min_by_key(|(_, it)| (Reverse(held_by(it.network)), it.progress.bytes_per_second()))?;
    if held_by(least.network) > held_by(newcomer) + 1 {
        return Some(place);
    }
    let slow = uploads().filter(|(_, it)| it.progress.is_slow());
    let slowest = slow.min_by_key(|(_, it)| it.progress.bytes_per_second());
    slowest.map(|(place, _)| place)
}

#[cfg(test)]
mod tests;
