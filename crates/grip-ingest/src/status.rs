//! Types of the status reports.

mod forecast;

use std::collections::BTreeMap;

use grip_queue::KindStats;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::forecast::Forecast;
pub(crate) use self::forecast::forecast;

/// How events are taken in.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "WatchStatus")]
pub struct Status {
    pub sources: Vec<SourceStatus>,
    /// The work that waits, by kind.
    pub work: Vec<KindStats>,
    pub budgets: Vec<Forecast>,
    pub open_gaps: i64,
    /// What could not be read, the latest first.
    pub rejected: Vec<RejectedEvent>,
    /// Long work over all rows.
    pub progress: Vec<Progress>,
}

/// A list that is read again and again, or another way by which events come.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "WatchedSource")]
pub struct SourceStatus {
    pub source: String,
    /// Whether it is read by this instance.
    pub is_configured: bool,
    pub newest_id: Option<String>,
    pub newest_at: Option<i64>,
    pub polled_at: Option<i64>,
    pub changed_at: Option<i64>,
    pub polls: i64,
    /// Holes that were ever found in it.
    pub gaps: i64,
    /// When it is read next.
    pub due_at: Option<i64>,
    /// Why it was not read the last time.
    #[serde(rename = "trouble")]
    pub last_error: Option<String>,
    /// How many events came, by type.
    pub counts: BTreeMap<String, i64>,
}

impl SourceStatus {
    /// A way by which events come without being asked for.
    pub(crate) fn other((source, counts): (String, BTreeMap<String, i64>)) -> Self {
        Self {
            source,
            counts,
            ..Self::default()
        }
    }
}

/// Something that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct RejectedEvent {
    pub source: String,
    pub reason: String,
    pub times: i64,
    pub bytes: i64,
    pub last_at: i64,
}

grip_db::from_row!(RejectedEvent {
    source,
    reason,
    times,
    bytes,
    last_at
});

/// How far long work is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "WatchProgress")]
pub struct Progress {
    pub work: String,
    pub place: String,
    pub done: i64,
    pub failed: i64,
    pub began_at: i64,
    pub updated_at: i64,
    pub finished_at: Option<i64>,
}

grip_db::from_row!(Progress {
    work,
    place,
    done,
    failed,
    began_at,
    updated_at,
    finished_at
});

/// How much there is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(rename = "WatchStats")]
pub struct Stats {
    /// Pushes that ever came.
    pub pushes_total: i64,
    pub pushes_last_hour: i64,
    /// All events that ever came, by type.
    pub by_type: BTreeMap<String, i64>,
    pub users: i64,
    pub repositories: i64,
    pub rejected: i64,
    pub open_gaps: i64,
    pub first_at: Option<i64>,
    pub last_at: Option<i64>,
}
