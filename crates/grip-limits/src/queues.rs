//! Fair queues of those who wait for a host.
//!
//! One line per host; in a line everyone is served once before anyone is served twice, and the
//! lines take turns too. A key is in progress at most once per host.
//!
//! Invariant: a line that cannot go costs nothing. It is asked about again only when its host
//! rings, when its time has come, or when a key joins a line that nothing holds back.

use std::{collections::HashSet, fmt, hash::Hash, pin::pin, sync::Arc, time::Duration};

use grip_types::Domain;
use parking_lot::Mutex;
use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};
use url::Url;

use crate::{Lane, Permit, Reason, Refused, Throttle};

mod lines;
mod turn;

use lines::Lines;
pub use turn::Turn;

/// A refusal whose time is already here must not become a tight loop.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// Keys that wait for hosts. Cheap to clone; clones share the lines.
pub struct Queues<K> {
    shared: Arc<Shared<K>>,
}

/// How many may wait. At a bound a newcomer is refused with [`Full`]; those who wait stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueBounds {
    /// Keys in the line of one host: 10,000.
    pub per_domain: usize,
    /// Keys in all lines, counted once per line: 200,000.
    pub total: usize,
}

/// There is no room to wait for a host.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{waiting} already wait for {domain} or other hosts")]
pub struct Full {
    pub domain: Domain,
    /// How many wait, in the line or in all, whichever is at its bound.
    pub waiting: usize,
}

struct Shared<K> {
    throttle: Throttle,
    lane: Lane,
    lines: Mutex<Lines<K>>,
    /// Told when a line became ready or the first timer changed.
    changed: Notify,
}

impl<K: Clone + Eq + Hash + Send + Sync + 'static> Queues<K> {
    pub fn new(throttle: Throttle, lane: Lane, bounds: QueueBounds) -> Self {
        let lines = Mutex::new(Lines::new(bounds));
        let changed = Notify::new();
        let shared = Arc::new(Shared {
            throttle,
            lane,
            lines,
            changed,
        });
        Self { shared }
    }

    /// Puts `key` into the line of `domain`, with the URLs of that host it need not try.
    ///
    /// If it is there already, its tried URLs are merged and its place stays. If it is in progress
    /// there, it gets one more turn afterwards, even if this one ends with [`Turn::done`].
    pub fn enqueue(&self, domain: &Domain, key: K, tried: HashSet<Url>) -> Result<(), Full> {
        let became_ready = self.shared.lines.lock().enqueue(domain, key, tried)?;
        self.shared.tell(became_ready);
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
            let first_timer = match shared.begin_ask(Instant::now()) {
                Step::Ask(domain) => match shared.ask(domain).await {
                    Some(turn) => return turn,
                    None => continue,
                },
                Step::Wait(first_timer) => first_timer,
            };
            tokio::select! {
                () = changed => {}
                _ = freed.changed() => {}
                () = until(first_timer) => {}
            }
        }
    }

    /// Takes `key` out of all lines. Where it is in progress it leaves when that turn ends.
    pub fn remove(&self, key: &K) {
        self.shared.lines.lock().remove(key);
    }

    /// Keys in all lines, those in progress included.
    pub fn len(&self) -> usize {
        self.shared.lines.lock().len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keys in the line of `domain`, those in progress included.
    pub fn waiting(&self, domain: &Domain) -> usize {
        self.shared.lines.lock().waiting(domain)
    }
}

/// What the lines want next.
enum Step {
    Ask(Domain),
    /// Until something changes, or until this moment.
    Wait(Option<Instant>),
}

impl<K: Clone + Eq + Hash> Shared<K> {
    fn begin_ask(&self, now: Instant) -> Step {
        let mut lines = self.lines.lock();
        let (since, latest) = self.throttle.notifier().since(lines.heard);
        lines.heard = latest;
        lines.hear(&since);
        match lines.begin_ask(now) {
            Some(domain) => Step::Ask(domain),
            None => Step::Wait(lines.first_timer()),
        }
    }

    /// Asks for a permit on behalf of the first in line.
    async fn ask(self: &Arc<Self>, domain: Domain) -> Option<Turn<K>> {
        let asking = Asking {
            shared: self,
            domain: &domain,
        };
        let answer = self.throttle.acquire(&domain, self.lane).await;
        std::mem::forget(asking);
        match answer {
            Ok(permit) => self.granted(domain, permit),
            Err(refused) => {
                self.refused(&domain, &refused);
                None
            }
        }
    }

    fn granted(self: &Arc<Self>, domain: Domain, permit: Permit) -> Option<Turn<K>> {
        let taken = self.lines.lock().granted(&domain);
        let Some((key, tried)) = taken else {
            // Everyone left the line while it was asked for.
            permit.unused();
            return None;
        };
        // The line may be ready for the next one, and others may wait for turns too.
        self.tell(true);
        Some(Turn::new(Arc::clone(self), domain, key, tried, permit))
    }

    fn refused(&self, domain: &Domain, refused: &Refused) {
        let now = Instant::now();
        let retry_at = match refused.reason {
            // Only an answer frees a slot: the bell tells, or nobody does and we look.
            Reason::InFlight => self.throttle.recheck().map(|after| now + after),
            _ => Some(refused.retry_at.max(now + SHORTEST_WAIT)),
        };
        let became_first = self.lines.lock().refused(domain, retry_at);
        self.tell(became_first);
    }

    fn tell(&self, changed: bool) {
        if changed {
            self.changed.notify_waiters();
        }
    }
}

/// Puts a line back that was being asked for when its caller gave up.
struct Asking<'a, K: Clone + Eq + Hash> {
    shared: &'a Shared<K>,
    domain: &'a Domain,
}

impl<K: Clone + Eq + Hash> Drop for Asking<'_, K> {
    fn drop(&mut self) {
        let became_ready = self.shared.lines.lock().asked_in_vain(self.domain);
        self.shared.tell(became_ready);
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
