//! Holes in what we have seen.

use serde::{Deserialize, Serialize};

/// Something may have happened that we did not see, after one event and before another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, sqlx::FromRow)]
#[serde(default)]
pub struct Gap {
    pub id: i64,
    pub source: String,
    /// The latest event that was seen before; none where the list was empty.
    pub after_id: Option<String>,
    pub after_at: Option<i64>,
    /// The oldest event that was seen again.
    pub before_id: Option<String>,
    pub before_at: Option<i64>,
    pub found_at: i64,
    pub closed_at: Option<i64>,
    pub closed_by: Option<String>,
}
