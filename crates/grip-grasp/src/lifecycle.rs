//! The daily pass: requests to delete and to vanish that are served no longer, or forgotten (G01-103);
//! events and repositories that were taken out of service and kept long enough (G01-112, G01-125).

use std::{collections::BTreeSet, fmt, sync::Arc, time::Duration};

use grip_nostr::{EventId, Timestamp};
use grip_store::Retention;
use grip_types::ErrorChain;
use parking_lot::Mutex;

use crate::{
    Grasp,
    admission::ViewError,
    error::GraspError,
    grasp::{Core, timestamp},
};

/// Requests, and versions of the history, that end in one commit.
const BATCH: usize = 500;
/// Requests whose use is noted between two sweeps. Of more the use is not counted: each of them is
/// known to have been of use at a later replay.
const MAX_USED: usize = 10_000;

/// How long what was taken back is remembered and kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifecycle {
    /// How long requests to delete and to vanish are served and refuse.
    pub retention: Retention,
    /// How long removed events and archived repositories are kept.
    pub holding: Duration,
    /// How often what is due is looked for.
    pub every: Duration,
}

impl Default for Lifecycle {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 3600);
        Self {
            retention: Retention::default(),
            holding: day * 90,
            every: day,
        }
    }
}

/// What a pass came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Aged {
    /// Requests that are not served any more.
    pub retired: usize,
    /// Requests that are forgotten.
    pub forgotten: usize,
    /// Held events that were destroyed.
    pub events: u64,
    /// Archived repositories that were destroyed.
    pub archives: usize,
    /// What lies in the archive and cannot be told: left alone.
    pub unknown: usize,
    /// When the next of what is kept is due.
    pub next: Option<Timestamp>,
}

impl fmt::Display for Aged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            retired,
            forgotten,
            events,
            archives,
            unknown,
            next,
        } = self;
        write!(
            f,
            "{retired} requests retired and {forgotten} forgotten, {events} held events and \
             {archives} archived repositories destroyed, {unknown} unknown entries in the archive"
        )?;
        match next {
            Some(next) => write!(f, ", next at {}", next.as_secs()),
            None => Ok(()),
        }
    }
}

/// Requests that were of use and are not noted yet. What a crash loses of it is less than a minute of
/// spans of months.
#[derive(Default)]
pub(crate) struct UsedRequests {
    ids: Mutex<BTreeSet<EventId>>,
}

impl UsedRequests {
    pub(crate) fn note(&self, id: EventId) {
        let mut ids = self.ids.lock();
        if ids.len() < MAX_USED {
            ids.insert(id);
        }
    }

    fn take(&self) -> Vec<EventId> {
        std::mem::take(&mut *self.ids.lock()).into_iter().collect()
    }
}

impl Grasp {
    /// Ends what is due at `now`. A task does this once a day.
    pub async fn age(&self, now: Timestamp) -> Aged {
        match self.core.age(now).await {
            Ok(aged) => aged,
            Err(error) => {
                error.log("failed to end what was kept long enough; the next pass tries again");
                Aged::default()
            }
        }
    }
}

impl Core {
    pub(crate) async fn age_now(self: Arc<Self>) -> Result<Aged, String> {
        let aged = self.age(timestamp()).await;
        aged.map_err(|error| ErrorChain(&error).to_string())
    }

    async fn age(self: &Arc<Self>, now: Timestamp) -> Result<Aged, GraspError> {
        let mut aged = Aged::default();
        if !self.policy.load().ignores_deletions {
            self.credit_requests().await?;
            self.age_requests(now, &mut aged).await?;
        }
        self.forget_stale_history().await?;
        self.end_holding(now, &mut aged).await?;
        Ok(aged)
    }

    /// Notes which requests were of use; those that cannot be noted now are the next time.
    pub(crate) async fn credit_requests(&self) -> Result<(), GraspError> {
        let used = self.used_requests.take();
        let mut outcome = Ok(());
        for ids in used.chunks(BATCH) {
            let credited = match outcome {
                Ok(()) => self.commit.use_requests(ids.to_vec()).await,
                failed => failed,
            };
            if credited.is_err() {
                ids.iter().for_each(|id| self.used_requests.note(*id));
            }
            outcome = credited;
        }
        outcome
    }

    async fn age_requests(
        self: &Arc<Self>,
        now: Timestamp,
        aged: &mut Aged,
    ) -> Result<(), GraspError> {
        let retention = self.lifecycle.retention;
        loop {
            let look = move |core: &Self| {
                let events = core.store.read().map_err(ViewError::new)?;
                let due = events.requests_due(now, &retention, BATCH);
                due.map_err(ViewError::new)
            };
            let due = self.blocking("grasp.look", look).await??;
            if due.is_empty() {
                return Ok(());
            }
            let done = self.commit.age_requests(due, now, retention).await?;
            aged.retired += done.retired;
            aged.forgotten += done.forgotten;
            if done.retired + done.forgotten == 0 {
                return Ok(());
            }
        }
    }

    async fn forget_stale_history(&self) -> Result<(), GraspError> {
        while self.commit.forget_stale_history(BATCH).await? == BATCH {}
        Ok(())
    }
}
