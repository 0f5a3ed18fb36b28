//! The running sync, as the rest of the node sees it.

use std::sync::{Arc, atomic::Ordering::Relaxed};

use grip_limits::{Queues, Throttle};
use grip_purgatory::{FindProviders, SyncContext, UrlAttempt};
use grip_tasks::TaskGroup;
use grip_types::Identifier;
use serde::Serialize;
use tokio::time::Instant;

use crate::{
    download_budget::DownloadBudget, engine::Engine, fetch::Fetch, options::Options, scheduler,
    search_memory::SearchMemory, task_permits::TaskPermits,
};

/// What the sync is made of.
pub struct Parts<C, F> {
    pub context: C,
    /// Asked for further hosts when nobody named has what is missing.
    pub providers: Arc<dyn FindProviders>,
    pub fetch: F,
    pub throttle: Throttle,
    pub options: Options,
    /// Owns the tasks; its stop gives up the fetches under way, of which nothing stays behind.
    pub group: TaskGroup,
}

/// The running sync. Cheap to clone; the group of its parts stops it, not the drop of this.
#[derive(Clone)]
pub struct Sync {
    memory: Arc<SearchMemory>,
    tasks: Arc<TaskPermits>,
    budget: Arc<DownloadBudget>,
    queues: Queues<Identifier>,
}

/// How the sync is doing. Totals count from the start of the process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Status {
    /// Places of identifiers in the lines of hosts that are at their limits.
    pub in_line: usize,
    /// Tasks at work.
    pub running: usize,
    /// Those of them whose host is slow.
    pub slow: usize,
    pub attempts_total: u64,
    /// URLs asked.
    pub requests_total: u64,
    pub failures_total: u64,
    pub oids_fetched_total: u64,
    /// Events whose wait ended by fetched data.
    pub released_total: u64,
    /// Bytes received from other hosts.
    pub received_bytes_total: u64,
    /// Of the bytes that may be downloaded in a window, those in use, and all of them.
    pub download_used_bytes: u64,
    pub download_limit_bytes: u64,
    /// Lookups of further providers, because nobody named had it.
    pub further_total: u64,
}

impl Sync {
    /// Starts looking for what waits.
    pub fn start<C: SyncContext, F: Fetch>(parts: Parts<C, F>) -> Self {
        let group = parts.group.clone();
        let engine = Arc::new(Engine::new(parts, group.token()));
        group.spawn(
            "attempts",
            scheduler::start_attempts(Arc::clone(&engine), group.clone()),
        );
        group.spawn(
            "turns",
            scheduler::start_turns(Arc::clone(&engine), group.clone()),
        );
        Self {
            memory: Arc::clone(&engine.memory),
            tasks: Arc::clone(&engine.tasks),
            budget: Arc::clone(&engine.budget),
            queues: engine.queues.clone(),
        }
    }

    /// What may be downloaded, by the sync and by other requests that are made for an author.
    pub fn budget(&self) -> &Arc<DownloadBudget> {
        &self.budget
    }

    pub fn status(&self) -> Status {
        let counters = &self.memory.counters;
        let (used, limit, received) = self.budget.usage(Instant::now());
        Status {
            received_bytes_total: received,
            download_used_bytes: used,
            download_limit_bytes: limit,
            in_line: self.queues.len(),
            running: counters.running.load(Relaxed),
            slow: self.tasks.slow(),
            attempts_total: counters.attempts.load(Relaxed),
            requests_total: counters.requests.load(Relaxed),
            failures_total: counters.failures.load(Relaxed),
            oids_fetched_total: counters.oids_fetched.load(Relaxed),
            released_total: counters.released.load(Relaxed),
            further_total: counters.further.load(Relaxed),
        }
    }

    /// The last attempts for an identifier, newest first.
    pub fn attempts_of(&self, identifier: &Identifier) -> Vec<UrlAttempt> {
        self.memory.attempts_of(identifier)
    }

    /// The last attempts for anybody, newest first.
    pub fn recent_attempts(&self, limit: usize) -> Vec<UrlAttempt> {
        self.memory.recent(limit)
    }
}
