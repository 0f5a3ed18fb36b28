//! The leases of a worker, and how long each of them is safe.

use std::{collections::HashMap, sync::Arc, time::Duration};

use grip_tasks::CancellationToken;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use super::Shared;
use crate::Lease;

/// Bounded by the places of the worker: each lease has one.
#[derive(Default)]
pub(super) struct Held {
    jobs: Mutex<HashMap<i64, Entry>>,
    /// Told when a place is free. Whoever waits begins to before it looks.
    pub(super) freed: Notify,
}

struct Entry {
    token: i64,
    ends: Instant,
    /// The lease is somebody else's.
    lost: CancellationToken,
}

/// One job's place; free again when dropped.
pub(super) struct Place {
    shared: Arc<Shared>,
    id: i64,
    pub(super) lost: CancellationToken,
}

impl Held {
    pub(super) fn len(&self) -> usize {
        self.jobs.lock().len()
    }

    /// Ids and tokens of all.
    pub(super) fn names(&self) -> Vec<(i64, i64)> {
        let jobs = self.jobs.lock();
        jobs.iter().map(|(id, entry)| (*id, entry.token)).collect()
    }

    /// Takes note of a renewal: `asked` were to be renewed until `ends`, and `ours` were.
    pub(super) fn renewed(&self, asked: &[(i64, i64)], ours: &[i64], ends: Instant) {
        let mut jobs = self.jobs.lock();
        let mut lost = Vec::new();
        for (id, token) in asked {
            // The place may have a new lease of the same job by now.
            let entry = jobs.get_mut(id).filter(|entry| entry.token == *token);
            let Some(entry) = entry else { continue };
            match ours.contains(id) {
                true => entry.ends = ends,
                false => lost.push(entry.lost.clone()),
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

    fn ends(&self, id: i64) -> Option<Instant> {
        self.jobs.lock().get(&id).map(|entry| entry.ends)
    }
}

impl Place {
    pub(super) fn take(shared: &Arc<Shared>, lease: &Lease) -> Self {
        let lost = CancellationToken::new();
        let entry = Entry {
            token: lease.token,
            ends: lease.ends,
            lost: lost.clone(),
        };
        shared.held.jobs.lock().insert(lease.id, entry);
        Self {
            shared: Arc::clone(shared),
            id: lease.id,
            lost,
        }
    }

    /// Whether no more than so much of the lease is left.
    pub(super) fn is_short(&self, rest: Duration) -> bool {
        let ends = self.shared.held.ends(self.id);
        ends.is_none_or(|ends| ends.saturating_duration_since(Instant::now()) <= rest)
    }

    /// Waits until so much of the lease is left, however often it is renewed meanwhile.
    pub(super) async fn left(&self, rest: Duration) {
        while !self.is_short(rest)
            && let Some(ends) = self.shared.held.ends(self.id)
        {
            tokio::time::sleep_until(ends.checked_sub(rest).unwrap_or(ends)).await;
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.held.jobs.lock().remove(&self.id);
        self.shared.held.freed.notify_waiters();
    }
}
