//! Leases of a worker: which jobs it may still work on, and how long each is safe.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use grip_tasks::CancellationToken;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use super::Shared;
use crate::Lease;

/// The leases of the jobs under way, at most `at_once`.
///
/// A job may be here twice for a moment: where the clock of the database jumped ahead, or the
/// end of the work could not be written in time, the worker itself may be who claims it next.
#[derive(Default)]
pub(super) struct HeldLeases {
    jobs: Mutex<BTreeMap<Name, Entry>>,
    /// Notified when a lease ends. Waiters register before they look.
    pub(super) freed: Notify,
}

/// A lease by the id of its job and its token; later leases have higher ones.
type Name = (i64, i64);

struct Entry {
    ends: Instant,
    /// The lease is somebody else's.
    lost: CancellationToken,
}

/// A lease under work; removed when dropped.
pub(super) struct HeldLease {
    shared: Arc<Shared>,
    name: Name,
    pub(super) lost: CancellationToken,
}

impl HeldLeases {
    pub(super) fn len(&self) -> usize {
        self.jobs.lock().len()
    }

    /// Ids and tokens of all that are not known to be lost.
    pub(super) fn names(&self) -> Vec<Name> {
        let jobs = self.jobs.lock();
        let ours = jobs.iter().filter(|(_, entry)| !entry.lost.is_cancelled());
        ours.map(|(name, _)| *name).collect()
    }

    /// Takes note of a renewal: `asked` were to be renewed until `ends`, and `ours` were.
    pub(super) fn renewed(&self, asked: &[Name], ours: &[i64], ends: Instant) {
        let mut jobs = self.jobs.lock();
        let mut lost = Vec::new();
        for name in asked {
            let Some(entry) = jobs.get_mut(name) else {
                continue;
            };
            if ours.contains(&name.0) {
                entry.ends = ends;
            } else {
                lost.push(entry.lost.clone());
            }
        }
        drop(jobs);
        lost.iter().for_each(CancellationToken::cancel);
    }

    /// Waits until no job is under way.
    pub(super) async fn emptied(&self) {
        loop {
            let freed = self.freed.notified();
            if self.len() == 0 {
                return;
            }
            freed.await;
        }
    }

    fn ends(&self, name: Name) -> Option<Instant> {
        self.jobs.lock().get(&name).map(|entry| entry.ends)
    }

    /// Puts a lease in, and tells who works on the same job under an older one that it is lost.
    fn put(&self, name: Name, entry: Entry) {
        let mut jobs = self.jobs.lock();
        let older = jobs.range((name.0, i64::MIN)..name);
        let older: Vec<_> = older.map(|(_, entry)| entry.lost.clone()).collect();
        jobs.insert(name, entry);
        drop(jobs);
        older.iter().for_each(CancellationToken::cancel);
    }

    fn has_older(&self, name: Name) -> bool {
        let jobs = self.jobs.lock();
        jobs.range((name.0, i64::MIN)..name).next().is_some()
    }
}

impl HeldLease {
    pub(super) fn take(shared: &Arc<Shared>, lease: &Lease) -> Self {
        let lost = CancellationToken::new();
        let name = (lease.id, lease.token);
        let entry = Entry {
            ends: lease.ends,
            lost: lost.clone(),
        };
        shared.held.put(name, entry);
        Self {
            shared: Arc::clone(shared),
            name,
            lost,
        }
    }

    /// Waits until nobody works on the job under an older lease.
    pub(super) async fn alone(&self) {
        loop {
            let freed = self.shared.held.freed.notified();
            if !self.shared.held.has_older(self.name) {
                return;
            }
            freed.await;
        }
    }

    /// Whether no more than so much of the lease is left.
    pub(super) fn is_short(&self, rest: Duration) -> bool {
        let ends = self.shared.held.ends(self.name);
        ends.is_none_or(|ends| ends.saturating_duration_since(Instant::now()) <= rest)
    }

    /// Waits until so much of the lease is left, however often it is renewed meanwhile.
    pub(super) async fn left(&self, rest: Duration) {
        while !self.is_short(rest)
            && let Some(ends) = self.shared.held.ends(self.name)
        {
            tokio::time::sleep_until(ends.checked_sub(rest).unwrap_or(ends)).await;
        }
    }
}

impl Drop for HeldLease {
    fn drop(&mut self) {
        self.shared.held.jobs.lock().remove(&self.name);
        self.shared.held.freed.notify_waiters();
    }
}
