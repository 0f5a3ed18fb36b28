//! Tells the network of what is served here.
//!
//! One owned task. A change is told at once, everything again after half of the time that records
//! live, what is gone is withdrawn. A few at a time, with a pause between the beginnings, so that a
//! node with many repositories is a steady neighbour.
//!
//! Invariants:
//! - What is told was read from the shelf then; what could not be read is neither told nor
//!   withdrawn, but tried again.
//! - A repository is told of once at a time, so that the last word on it is the newest.

mod run;
mod tell;

use std::{collections::BTreeSet, sync::Arc};

use grip_nostr::RepoAddr;
use parking_lot::Mutex;
use tokio::sync::Notify;

use self::run::Run;
use crate::resolver::Core;

/// Repositories that wait to be told of. Beyond it they are not told apart: all are looked at.
const MAX_DUE: usize = 10_000;

/// What the publisher is at.
#[derive(Default)]
pub(crate) struct Publisher {
    reindex: Notify,
    /// Wakes the task for [`Facts::touched`].
    touch: Notify,
    state: Mutex<Facts>,
}

#[derive(Default)]
struct Facts {
    /// Repositories that were touched; at most [`MAX_DUE`], beyond it everything is read anew.
    touched: BTreeSet<RepoAddr>,
    due: usize,
    pass: Option<usize>,
    passes: u64,
}

/// How the telling stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Repositories that the network was told of.
    pub told: usize,
    /// Those that have changed, or failed, and wait.
    pub due: usize,
    /// How many the pass under way has seen, if there is one.
    pub pass: Option<usize>,
    /// Complete passes over everything.
    pub passes_total: u64,
}

impl Publisher {
    /// Has everything read and told anew.
    pub fn reindex(&self) {
        self.reindex.notify_one();
    }

    /// Has one repository told anew, because its pins have changed.
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
            told: core.shelf.told(|told| told.len()),
            due: state.due,
            pass: state.pass,
            passes_total: state.passes,
        }
    }

    pub async fn run(core: Arc<Core>) {
        let stop = core.group.token();
        let run = Run::new(core);
        stop.run_until_cancelled(run.go()).await;
    }
}

#[cfg(test)]
mod tests;
