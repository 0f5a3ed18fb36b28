//! Permits of pushes under way, a few for each repository.
//!
//! Anybody may push to a repository: to `refs/nostr/…`, or what a maintainer has signed. So its
//! permits are shared out: where all are taken, the upload of the network that has most of them
//! makes room, else one that trickles. A push that finds neither waits a moment, in which every
//! upload shows whether it trickles, before it is refused.

use std::{
    cmp::Reverse,
    collections::HashMap,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use grip_nostr::RepoAddr;
use grip_tasks::CancellationToken;
use grip_types::ClientNetwork;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, timeout_at},
};

/// Pushes to one repository at once, from the first command to the last report: each may hold a
/// pack in quarantine and a process of git. The share of one repository.
const MAX_PER_REPOSITORY: usize = 8;
/// How long an upload may go on before it is called slow.
const GRACE: Duration = Duration::from_secs(5);
/// Slower uploads make room for another where there is none.
pub(super) const SLOW_BYTES_PER_SECOND: u64 = 32 << 10;
/// How long a push waits for a permit: long enough that one who trickles is found out.
const MAX_WAIT: Duration = Duration::from_secs(15);
/// How often a push that waits looks for an upload that has become slow.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The pushes under way. Bounded by the connections that carry them.
#[derive(Default)]
pub(crate) struct PushPermits {
    repositories: Mutex<HashMap<RepoAddr, Vec<Arc<Transfer>>>>,
    freed: Notify,
}

/// The upload of a push that has a permit.
pub(super) struct Transfer {
    network: Option<ClientNetwork>,
    /// Since when we read: what comes before is our own time.
    reading_since: OnceLock<Instant>,
    received_bytes: AtomicU64,
    /// Its pack is whole, and it makes room for nobody.
    is_whole: AtomicBool,
    displaced: CancellationToken,
}

impl Transfer {
    /// Notes that the upload is read from now on.
    pub(super) fn reading(&self) {
        self.reading_since.get_or_init(Instant::now);
    }

    pub(super) fn received(&self, bytes: usize) {
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        self.received_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn received_bytes(&self) -> u64 {
        self.received_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn is_whole(&self) -> bool {
        self.is_whole.load(Ordering::Acquire)
    }

    /// Notes that the upload is complete. False if it had to make room before.
    pub(super) fn complete(&self) -> bool {
        self.is_whole.store(true, Ordering::Release);
        !self.displaced.is_cancelled()
    }

    /// Resolves when the upload must make room for another.
    pub(super) async fn displaced(&self) {
        self.displaced.cancelled().await;
    }

    fn read_for(&self) -> Duration {
        let since = self.reading_since.get();
        since.map_or(Duration::ZERO, Instant::elapsed)
    }

    fn bytes_per_second(&self) -> u64 {
        let seconds = self.read_for().as_secs().max(1);
        self.received_bytes.load(Ordering::Relaxed) / seconds
    }

    fn is_slow(&self) -> bool {
        self.read_for() >= GRACE && self.bytes_per_second() < SLOW_BYTES_PER_SECOND
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
        if let Some(transfers) = repositories.get_mut(&self.repository) {
            transfers.retain(|other| !Arc::ptr_eq(other, &self.transfer));
            if transfers.is_empty() {
                repositories.remove(&self.repository);
            }
        }
        drop(repositories);
        self.permits.freed.notify_waiters();
    }
}

impl PushPermits {
    /// A permit for a push to `repository`; none if all stay taken. Cancel safe.
    pub(super) async fn acquire(
        self: &Arc<Self>,
        repository: &RepoAddr,
        network: Option<ClientNetwork>,
    ) -> Option<PushPermit> {
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            let freed = self.freed.notified();
            if let Some(permit) = self.try_take(repository, network) {
                return Some(permit);
            }
            let now = Instant::now();
            if now >= deadline {
                return None;
            }
            // Freed or not, it is time to look again.
            let _ = timeout_at(deadline.min(now + LOOK_EVERY), freed).await;
        }
    }

    fn try_take(
        self: &Arc<Self>,
        repository: &RepoAddr,
        network: Option<ClientNetwork>,
    ) -> Option<PushPermit> {
        let mut repositories = self.repositories.lock();
        let transfers = repositories.entry(repository.clone()).or_default();
        if transfers.len() >= MAX_PER_REPOSITORY {
            let place = place_of_least(transfers, network)?;
            transfers.swap_remove(place).displaced.cancel();
        }
        let transfer = Arc::new(Transfer {
            network,
            reading_since: OnceLock::new(),
            received_bytes: AtomicU64::new(0),
            is_whole: AtomicBool::new(false),
            displaced: CancellationToken::new(),
        });
        transfers.push(Arc::clone(&transfer));
        Some(PushPermit {
            permits: Arc::clone(self),
            repository: repository.clone(),
            transfer,
        })
    }

    /// How many pushes are under way.
    pub(crate) fn total(&self) -> usize {
        self.repositories.lock().values().map(Vec::len).sum()
    }
}

/// The upload that makes room for one of `newcomer`: the slowest of the network that has most, if
/// that has more than the newcomer then; else the slowest, if it is slow.
fn place_of_least(transfers: &[Arc<Transfer>], newcomer: Option<ClientNetwork>) -> Option<usize> {
    let held_by = |network: Option<ClientNetwork>| {
        let same = transfers.iter().filter(|it| it.network == network);
        // A client without a network stands for many.
        network.map_or(0, |_| same.count())
    };
    let uploads = transfers.iter().enumerate();
    let uploads = uploads.filter(|(_, it)| !it.is_whole.load(Ordering::Acquire));
    let (place, least) =
        uploads.min_by_key(|(_, it)| (Reverse(held_by(it.network)), it.bytes_per_second()))?;
    if held_by(least.network) > held_by(newcomer) + 1 {
        return Some(place);
    }
    let uploads = transfers.iter().enumerate();
    let slow = uploads.filter(|(_, it)| !it.is_whole.load(Ordering::Acquire) && it.is_slow());
    let slowest = slow.min_by_key(|(_, it)| it.bytes_per_second());
    slowest.map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use grip_nostr::PublicKey;
    use grip_types::{Identifier, NetworkPrefixes};

    use super::*;

    fn repository() -> RepoAddr {
        let owner = PublicKey::from_byte_array([7; 32]);
        RepoAddr::new(owner, Identifier::parse("repo").unwrap())
    }

    fn network(last: u8) -> Option<ClientNetwork> {
        Some(NetworkPrefixes::default().network([192, 0, 2, last].into()))
    }

    async fn taken(permits: &Arc<PushPermits>, networks: &[u8]) -> Vec<PushPermit> {
        let mut taken = Vec::new();
        for last in networks {
            let network = network(*last).filter(|_| *last != 0);
            let permit = permits.acquire(&repository(), network).await.unwrap();
            permit.transfer.reading();
            taken.push(permit);
        }
        taken
    }

    fn is_displaced(permit: &PushPermit) -> bool {
        permit.transfer.displaced.is_cancelled()
    }

    #[tokio::test(start_paused = true)]
    async fn one_network_gives_way_to_another_at_once() {
        let permits = Arc::new(PushPermits::default());
        let flood = taken(&permits, &[1; 8]).await;
        flood[3].transfer.received(10 << 20);
        let began = Instant::now();
        let owner = permits.acquire(&repository(), network(2)).await.unwrap();
        assert_eq!(began.elapsed(), Duration::ZERO);
        assert_eq!(flood.iter().filter(|it| is_displaced(it)).count(), 1);
        assert!(!is_displaced(&flood[3]) && !is_displaced(&owner));
        assert_eq!(permits.total(), 8);
        drop((flood, owner));
        assert!(permits.repositories.lock().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_trickle_give_way_after_a_moment_wherever_they_come_from() {
        for from in [[1, 2, 3, 4, 5, 6, 7, 8], [0; 8]] {
            let permits = Arc::new(PushPermits::default());
            let flood = taken(&permits, &from).await;
            let began = Instant::now();
            let owner = permits.acquire(&repository(), None).await;
            assert!(owner.is_some());
            assert!(began.elapsed() <= GRACE + LOOK_EVERY);
            assert_eq!(flood.iter().filter(|it| is_displaced(it)).count(), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn quick_uploads_are_left_alone_and_what_is_whole_too() {
        let permits = Arc::new(PushPermits::default());
        let quick = taken(&permits, &[1, 2, 3, 4, 5, 6, 7]).await;
        let whole = taken(&permits, &[8]).await;
        assert!(whole[0].transfer.complete());
        for permit in &quick {
            permit.transfer.received(100 << 20);
        }
        let began = Instant::now();
        assert!(permits.acquire(&repository(), network(9)).await.is_none());
        assert_eq!(began.elapsed(), MAX_WAIT);
        assert!(!quick.iter().chain(&whole).any(is_displaced));
    }

    #[tokio::test(start_paused = true)]
    async fn a_push_that_waits_gets_the_permit_of_one_that_ends() {
        let permits = Arc::new(PushPermits::default());
        let mut quick = taken(&permits, &[1, 2, 3, 4, 5, 6, 7, 8]).await;
        for permit in &quick {
            permit.transfer.received(100 << 20);
        }
        let repository = repository();
        let waiting = permits.acquire(&repository, network(9));
        let ending = async { drop(quick.pop()) };
        let (permit, ()) = tokio::join!(waiting, ending);
        assert!(permit.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_before_we_read_makes_no_upload_slow() {
        let permits = Arc::new(PushPermits::default());
        let mut unread = Vec::new();
        for last in 1..=8 {
            unread.push(permits.acquire(&repository(), network(last)).await.unwrap());
        }
        assert!(permits.acquire(&repository(), network(9)).await.is_none());
        assert!(!unread.iter().any(is_displaced));
    }
}
