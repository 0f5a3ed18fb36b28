//! Listing, retry and removal of jobs for operators.

use grip_db::{DbError, Value};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Queue, topic};
use crate::sql;

/// Jobs of one page.
const MOST_LISTED: usize = 1_000;

/// Which jobs are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub kind: Option<String>,
    pub state: Option<State>,
    /// Only those with a higher id: the last one of the page before.
    pub after: Option<i64>,
}

/// What a job is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "JobState")]
pub enum State {
    /// May be claimed now.
    #[default]
    Due,
    /// Is due later.
    Waiting,
    /// Somebody works on it.
    Leased,
    /// Failed for good.
    Dead,
}

/// A job; its payload, which is nobody's business, is not serialised. Times are milliseconds since
/// 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct JobFacts {
    pub id: i64,
    pub kind: String,
    pub key: String,
    #[serde(skip)]
    pub payload: String,
    pub state: State,
    /// When it is due, or when its lease ends; None for one that is dead.
    #[serde(rename = "due")]
    pub due_ms: Option<i64>,
    pub period_ms: Option<i64>,
    pub attempts: i64,
    pub limited: i64,
    pub lost: i64,
    /// How often it was asked for again.
    #[serde(skip)]
    pub asked: i64,
    pub holder: Option<String>,
    pub last_error: Option<String>,
    #[serde(rename = "enqueued")]
    pub enqueued_ms: i64,
    #[serde(rename = "dead")]
    pub dead_ms: Option<i64>,
}

grip_db::from_row!(JobFacts {
    id,
    kind,
    key,
    payload,
    state: _,
    due_ms: "visible_at",
    period_ms,
    attempts,
    limited,
    lost,
    asked,
    holder,
    last_error,
    enqueued_ms: "enqueued_at",
    dead_ms: "dead_at",
});

impl Queue {
    /// Lists jobs by their ids, at most 1,000 at a time.
    pub async fn list(&self, filter: &Filter, limit: usize) -> Result<Vec<JobFacts>, DbError> {
        if filter.kind.as_deref().is_some_and(is_invalid_name) {
            return Ok(Vec::new());
        }
        let now = self.inner.db.now_ms();
        let limit = limit.min(MOST_LISTED) as i64;
        let values = [
            filter.after.unwrap_or(0).into(),
            Value::MaybeText(filter.kind.clone()),
            now.into(),
            limit.into(),
        ];
        let statement = match filter.state {
            None => &sql::LIST_ALL,
            Some(State::Due) => &sql::LIST_DUE,
            Some(State::Waiting) => &sql::LIST_WAITING,
            Some(State::Leased) => &sql::LIST_LEASED,
            Some(State::Dead) => &sql::LIST_DEAD,
        };
        let reading = self.inner.db.fetch_all(statement, &values);
        let rows: Vec<JobFacts> = reading.await?;
        Ok(rows.into_iter().map(|row| row.with_state(now)).collect())
    }

    /// One job.
    pub async fn find(&self, kind: &str, key: &str) -> Result<Option<JobFacts>, DbError> {
        if is_invalid_name(kind) || is_invalid_name(key) {
            return Ok(None);
        }
        let values = [kind.into(), key.into()];
        let reading = self.inner.db.fetch_optional(&sql::FIND, &values);
        let row: Option<JobFacts> = reading.await?;
        let now = self.inner.db.now_ms();
        Ok(row.map(|row| row.with_state(now)))
    }

    /// Makes a job due now, also one that failed for good: it starts over. One that is worked on
    /// runs once more. False if there is none.
    pub async fn retry(&self, kind: &str, key: &str) -> Result<bool, DbError> {
        if is_invalid_name(kind) || is_invalid_name(key) {
            return Ok(false);
        }
        let values = [kind.into(), key.into(), self.inner.db.now_ms().into()];
        let topic = topic(kind);
        let retrying = self.inner.db.write(|mut db| {
            Box::pin(async move {
                let found = db.execute(&sql::RETRY, &values).await? == 1;
                db.notify(&topic).await?;
                Ok(found)
            })
        });
        retrying.await
    }

    /// Gives a job to those who have another capability, whatever its state. False if there is none.
    pub async fn reassign(&self, kind: &str, key: &str, capability: &str) -> Result<bool, DbError> {
        let values = [kind.into(), key.into(), capability.into()];
        let reassigning = self.inner.db.execute(&sql::REASSIGN, &values);
        Ok(reassigning.await? == 1)
    }

    /// Forgets a job, whatever its state; who works on it finds the lease lost. False if there is
    /// none.
    pub async fn remove(&self, kind: &str, key: &str) -> Result<bool, DbError> {
        if is_invalid_name(kind) || is_invalid_name(key) {
            return Ok(false);
        }
        let values = [kind.into(), key.into()];
        let removing = self.inner.db.execute(&sql::REMOVE, &values);
        Ok(removing.await? == 1)
    }
}

/// No job can be called so, and a server would not even be asked about it.
pub(super) fn is_invalid_name(text: &str) -> bool {
    text.contains('\0')
}

impl JobFacts {
    /// The row as it was read, with what follows from it.
    fn with_state(self, now_ms: i64) -> Self {
        let state = match (self.dead_ms, &self.holder) {
            (Some(_), _) => State::Dead,
            (None, _) if self.due_ms <= Some(now_ms) => State::Due,
            (None, Some(_)) => State::Leased,
            (None, None) => State::Waiting,
        };
        let due_ms = self.due_ms.filter(|_| state != State::Dead);
        Self {
            state,
            due_ms,
            ..self
        }
    }
}
