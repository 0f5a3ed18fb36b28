//! The retention job.

use std::time::Duration;

use grip_db::{DbError, Value};
use grip_queue::Outcome;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    jobs::{Context, JobError, millis},
    store::retention::{self as old, OldRows},
};

/// How much went, or would go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
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
        let from = |keep: Option<Duration>| {
            let from = keep.map(|keep| now.saturating_sub(millis(keep)));
            from.map(|from| vec![Value::from(from)])
        };
        // All events that stay count as naming somebody.
        let events_from = from(keep.events).unwrap_or(vec![i64::MIN.into()]);
        let unnamed = from(keep.enriched).map(|from| [from, events_from].concat());
        let drop = async |rows: OldRows, values: &Option<Vec<Value>>| match (values, dry_run) {
            (None, _) => Ok(0),
            (Some(values), true) => self.store.count_old(rows, values).await,
            (Some(values), false) => self.store.drop_old(rows, values).await,
        };
        Ok(Retained {
            events: drop(old::EVENTS, &from(keep.events)).await?,
            users: drop(old::USERS, &unnamed).await?,
            repositories: drop(old::REPOSITORIES, &unnamed).await?,
            rejected: drop(old::REJECTED, &from(keep.rejected)).await?,
            closed_gaps: drop(old::CLOSED_GAPS, &from(keep.closed_gaps)).await?,
            open_gaps: drop(old::OPEN_GAPS, &from(keep.open_gaps)).await?,
        })
    }

    pub(crate) async fn retain(&self) -> Result<Outcome, JobError> {
        let gone = self.retention(false).await?;
        if gone != Retained::default() {
            tracing::info!(?gone, "old events and what belongs to them are let go");
        }
        Ok(Outcome::Done)
    }
}
