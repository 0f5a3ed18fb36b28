//! Causes of failure: jobs grouped by what they failed for, and their revival in bulk.

use std::collections::BTreeSet;

use grip_db::{DbError, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Queue, listing::is_invalid_name, topic};
use crate::sql;

/// Causes of one answer.
const MOST_CAUSES: i64 = 200;
/// Jobs that one transaction revives, so that nobody else who writes waits for all of them.
const AT_ONCE: usize = 1_000;

/// Jobs of one kind that failed for the same reason. Times are milliseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(default)]
pub struct Cause {
    pub kind: String,
    pub reason: String,
    /// Jobs that failed for good.
    pub dead: i64,
    /// Jobs that are tried again with their next period.
    pub waiting: i64,
    /// When the first and the last of the dead ones were given up; 0 where none was.
    #[serde(rename = "first")]
    pub first_ms: i64,
    #[serde(rename = "last")]
    pub last_ms: i64,
}

grip_db::from_row!(Cause {
    kind,
    reason,
    dead,
    waiting,
    first_ms,
    last_ms,
});

impl Queue {
    /// What jobs failed for, the most frequent cause first. Reads every job that failed.
    pub async fn causes(&self, kind: Option<&str>) -> Result<Vec<Cause>, DbError> {
        if kind.is_some_and(is_invalid_name) {
            return Ok(Vec::new());
        }
        let values = [maybe(kind), MOST_CAUSES.into()];
        self.inner.db.fetch_all(&sql::CAUSES, &values).await
    }

    /// Makes jobs due now that failed for good, and says how many. With a `cause`, only those that
    /// failed for it, and also those that wait for their next period because of it.
    pub async fn revive(&self, kind: Option<&str>, cause: Option<&str>) -> Result<usize, DbError> {
        if kind.is_some_and(is_invalid_name) || cause.is_some_and(is_invalid_name) {
            return Ok(0);
        }
        let now = self.inner.db.now_ms();
        let mut total = 0;
        loop {
            let values = [
                maybe(kind),
                maybe(cause),
                now.into(),
                (AT_ONCE as i64).into(),
            ];
            let reviving = self.inner.db.write(move |mut db| {
                Box::pin(async move {
                    let revived: Vec<(String,)> = db.fetch_all(&sql::REVIVE, &values).await?;
                    let kinds: BTreeSet<&str> = revived.iter().map(|(kind,)| &**kind).collect();
                    for kind in kinds {
                        db.notify(&topic(kind)).await?;
                    }
                    Ok(revived.len())
                })
            });
            let revived = reviving.await?;
            total += revived;
            if revived < AT_ONCE {
                return Ok(total);
            }
        }
    }
}

fn maybe(text: Option<&str>) -> Value {
    Value::MaybeText(text.map(str::to_owned))
}
