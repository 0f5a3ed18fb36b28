//! Fair queues of keys that wait for a host.
//!
//! One queue per host; in a queue owners take turns, of one owner every key is served once before
//! any is served twice, and the queues take turns too. A key is in progress at most once per host.
//!
//! Invariant: a queue that cannot go costs nothing. It asks for a permit again only after a notice
//! of its host, at the moment that a refusal named, or when a key joins a queue that is idle.

use std::{collections::HashSet, fmt, hash::Hash, pin::pin, sync::Arc, time::Duration};

use grip_types::{Domain, Owner};
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};
use url::Url;

use crate::{Lane, Permit, Reason, Refused, Throttle};

mod table;
mod turn;

use table::QueueTable;
pub use turn::Turn;

/// A refusal whose time is already here must not become a tight loop.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// Keys that wait for hosts. Cheap to clone; clones share the queues.
pub struct Queues<K> {
    shared: Arc<Shared<K>>,
}

/// How many keys may wait. At the bound of a queue the owner with most gives up a place for one who
/// has fewer; else a new one is refused with [`Full`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBounds {
    /// Keys in the queue of one host: 10,000.
    pub per_domain: usize,
    /// Keys in all queues, counted once per queue: 200,000. A sixteenth of them at most of one
    /// owner, and a quarter for owners who are served.
    pub total: usize,
}

/// There is no room to wait for a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{waiting} already wait for {domain} or other hosts")]
pub struct Full {
    pub domain: Domain,
    /// How many wait, in the queue or in all, whichever is at its bound.
    pub waiting: usize,
}

struct Shared<K> {
    throttle: Throttle,
    lane: Lane,
    table: Mutex<QueueTable<K>>,
    /// Told when a queue became ready or the first timer changed.
    changed: Notify,
}

impl<K: Clone + Eq + Hash + Send + Sync + 'static> Queues<K> {
    pub fn new(throttle: Throttle, lane: Lane, bounds: QueueBounds) -> Self {
        let shared = Arc::new(Shared {
            throttle,
            lane,
            table: Mutex::new(QueueTable::new(bounds)),
            changed: Notify::new(),
        });
        Self { shared }
    }

    /// Puts `key` into the queue of `domain`, with the URLs of that host it need not try.
    ///
    /// It stands in the line of one of its `owners`: one who is served, else the one with fewest
    /// keys there. If it is there already, its tried URLs are merged and its place stays. If it is
    /// in progress there, it gets one more turn afterwards, even if this one ends with
    /// [`Turn::done`].
    pub fn enqueue(
        &self,
        domain: &Domain,
        key: K,
        owners: &[Owner],
        tried: HashSet<Url>,
    ) -> Result<(), Full> {
        let mut table = self.shared.table.lock();
        let became_ready = table.enqueue(domain, key, owners, tried)?;
        drop(table);
        self.shared.notify(became_ready);
        Ok(())
    }

    /// Waits until some host has capacity for a key that is not in progress there.
    ///
    /// Cancel safe: giving up loses neither key nor place nor permit. Several callers at once
    /// share the turns.
    pub async fn next(&self) -> Turn<K> {
        let shared = &self.shared;
        let mut freed = shared.throttle.freed();
        loop {
            // Both are armed before looking, so that nothing falls in between.
            let mut changed = pin!(shared.changed.notified());
            changed.as_mut().enable();
            freed.borrow_and_update();
            let (domain, first_timer) = shared.begin_request(Instant::now());
            if let Some(domain) = domain {
                match shared.request(domain).await {
                    Some(turn) => return turn,
                    None => continue,
                }
            }
            tokio::select! {
                () = changed => {}
                _ = freed.changed() => {}
                () = until(first_timer) => {}
            }
        }
    }

    /// Takes `key` out of all queues. Where it is in progress it leaves when that turn ends.
    pub fn remove(&self, key: &K) {
        self.shared.table.lock().remove(key);
    }

    /// Keys in all queues, those in progress included.
    pub fn len(&self) -> usize {
        self.shared.table.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Says whether a request to this host has to wait: for a permit, or behind those in its queue.
    pub fn must_wait(&self, domain: &Domain) -> bool {
        let Shared { throttle, lane, .. } = &*self.shared;
        throttle.is_throttled(domain, *lane) || self.waiting(domain) > 0
    }

    /// Keys in the queue of `domain`, those in progress included.
    pub fn waiting(&self, domain: &Domain) -> usize {
        self.shared.table.lock().waiting(domain)
    }
}

impl<K: Clone + Eq + Hash> Shared<K> {
    /// The queue that asks for a permit now; without one, the moment to look again.
    fn begin_request(&self, now: Instant) -> (Option<Domain>, Option<Instant>) {
        let mut table = self.table.lock();
        let (since, latest) = self.throttle.notifier().since(table.latest_notice);
        table.latest_notice = latest;
        table.apply_notices(&since);
        (table.begin_request(now), table.first_timer())
    }

    /// Asks for a permit on behalf of the first key in the queue.
    async fn request(self: &Arc<Self>, domain: Domain) -> Option<Turn<K>> {
        let requesting = Requesting {
            shared: self,
            domain: &domain,
        };
        let response = self.throttle.acquire(&domain, self.lane).await;
        std::mem::forget(requesting);
        match response {
            Ok(permit) => self.granted(domain, permit),
            Err(refused) => {
                self.refused(&domain, &refused);
                None
            }
        }
    }

    fn granted(self: &Arc<Self>, domain: Domain, permit: Permit) -> Option<Turn<K>> {
        let taken = self.table.lock().granted(&domain);
        let Some((key, tried)) = taken else {
            // All keys left the queue while it asked.
            permit.unused();
            return None;
        };
        // The queue may be ready for the next one, and others may wait for turns too.
        self.notify(true);
        Some(Turn {
            shared: Arc::clone(self),
            domain,
            key,
            tried,
            permit: Some(permit),
            leaves: false,
        })
    }

    fn refused(&self, domain: &Domain, refused: &Refused) {
        let now = Instant::now();
        let retry_at = match refused.reason {
            // Only a response frees a slot: there is a notice, or where there is none, we look.
            Reason::InFlight => self.throttle.recheck().map(|after| now + after),
            _ => Some(refused.retry_at.max(now + SHORTEST_WAIT)),
        };
        let became_first = self.table.lock().refused(domain, retry_at);
        self.notify(became_first);
    }

    fn notify(&self, changed: bool) {
        if changed {
            self.changed.notify_waiters();
        }
    }
}

/// Makes a queue ready again whose caller gave up while it asked for a permit.
struct Requesting<'a, K: Clone + Eq + Hash> {
    shared: &'a Shared<K>,
    domain: &'a Domain,
}

impl<K: Clone + Eq + Hash> Drop for Requesting<'_, K> {
    fn drop(&mut self) {
        self.shared.table.lock().cancel_request(self.domain);
        self.shared.notify(true);
    }
}

async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

impl<K> Clone for Queues<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K> fmt::Debug for Queues<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Queues")
            .field("lane", &self.shared.lane)
            .finish_non_exhaustive()
    }
}

impl Default for QueueBounds {
    fn default() -> Self {
        Self {
            per_domain: 10_000,
            total: 200_000,
        }
    }
}

#[cfg(test)]
mod tests;
