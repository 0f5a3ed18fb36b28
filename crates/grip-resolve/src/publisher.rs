//! Publisher of what this node serves: records for the network, kept up to date.
//!
//! One owned task. A change is published at once, everything again after a third of the time that
//! records live, and what is gone is withdrawn. A few at a time, with a pause between the starts, so
//! that a node with many repositories is a steady neighbour. It is the only republisher: the network
//! stores a record once.
//!
//! Invariants:
//! - What is published was read at that moment; what could not be read is neither published nor
//!   withdrawn, but retried.
//! - A repository has one publication at a time, so that the last one is the newest.

mod publish;
mod schedule;

use std::{collections::BTreeSet, sync::Arc};

use grip_nostr::RepoAddr;
use parking_lot::Mutex;
use tokio::sync::Notify;

use self::schedule::Schedule;
use crate::resolver::Core;

/// Most repositories that wait to be published; beyond it everything is scanned instead.
const MAX_DUE: usize = 10_000;

/// Wake-ups for the publisher's task, and its status.
#[derive(Default)]
pub(crate) struct Publisher {
    reindex: Notify,
    /// Wakes the task for [`State::touched`].
    touch: Notify,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Repositories whose pins have changed; at most [`MAX_DUE`].
    touched: BTreeSet<RepoAddr>,
    due: usize,
    scan: Option<usize>,
    scans: u64,
}

/// The publisher at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Repositories that are published.
    pub published: usize,
    /// Repositories that have changed, or failed, and wait.
    pub due: usize,
    /// How many repositories the current scan has seen, if there is one.
    pub scan: Option<usize>,
    /// Complete scans over everything.
    pub scans_total: u64,
}

impl Publisher {
    /// Reads and publishes everything again.
    pub fn reindex(&self) {
        self.reindex.notify_one();
    }

    /// Publishes one repository again, because its pins have changed.
    pub fn touch(&self, name: RepoAddr) {
        let mut state = self.state.lock();
        if state.touched.len() < MAX_DUE {
            state.touched.insert(name);
            self.touch.notify_one();
        } else {
            self.reindex();
        }
    }

    pub fn status(&self, core: &Core) -> Status {
        let state = self.state.lock();
        Status {
            published: core.local_manifests.published(|published| published.len()),
            due: state.due,
            scan: state.scan,
            scans_total: state.scans,
        }
    }

    pub async fn run(core: Arc<Core>) {
        let stop = core.group.token();
        stop.run_until_cancelled(Schedule::new(core).run()).await;
    }
}

#[cfg(test)]
mod tests;
