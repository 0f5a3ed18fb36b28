//! The retention job.

use std::time::Duration;

use grip_db::DbError;
use grip_queue::Outcome;
use serde::{Deserialize, Serialize};

use crate::{
    jobs::{Context, JobError, millis},
    store::Old,
};

/// How much went, or would go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Retained {
    pub events: u64,
    pub users: u64,
    pub repositories: u64,
    pub rejected: u64,
    pub closed_gaps: u64,
    pub open_gaps: u64,
}

impl Context {
    /// Lets go of what is old, or only counts it.
    pub(crate) async fn retention(&self, dry_run: bool) -> Result<Retained, DbError> {
        let keep = &self.options.keep;
        let now = self.store.now_ms();
        let from = |keep: Option<Duration>| keep.map(|keep| now.saturating_sub(millis(keep)));
        // All events that stay count as naming somebody.
        let events_from = from(keep.events).unwrap_or(i64::MIN);
        let enriched = from(keep.enriched);
        let events = from(keep.events).map(|from| Old::Events { from });
        let users = enriched.map(|from| Old::Users { from, events_from });
        let repositories = enriched.map(|from| Old::Repositories { from, events_from });
        let rejected = from(keep.rejected).map(|from| Old::Rejected { from });
        let closed = from(keep.closed_gaps).map(|from| Old::ClosedGaps { from });
        let open = from(keep.open_gaps).map(|from| Old::OpenGaps { from });
        Ok(Retained {
            events: self.let_go(events, dry_run).await?,
            users: self.let_go(users, dry_run).await?,
            repositories: self.let_go(repositories, dry_run).await?,
            rejected: self.let_go(rejected, dry_run).await?,
            closed_gaps: self.let_go(closed, dry_run).await?,
            open_gaps: self.let_go(open, dry_run).await?,
        })
    }

    async fn let_go(&self, old: Option<Old>, dry_run: bool) -> Result<u64, DbError> {
        match (old, dry_run) {
            (None, _) => Ok(0),
            (Some(old), true) => self.store.count_old(old).await,
            (Some(old), false) => self.store.drop_old(old).await,
        }
    }

    pub(crate) async fn retain(&self) -> Result<Outcome, JobError> {
        let gone = self.retention(false).await?;
        if gone != Retained::default() {
            tracing::info!(?gone, "old events and what belongs to them are let go");
        }
        Ok(Outcome::Done)
    }
}
