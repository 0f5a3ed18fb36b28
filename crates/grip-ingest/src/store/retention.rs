//! Removal of old rows, and totals.

use grip_db::{DbError, Statement, Value};

use super::{Store, sql};

/// Rows that go in one transaction, so that nobody waits long.
const AT_ONCE: i64 = 2_000;

/// Rows that may go: the statement that counts them, and the one that drops some of them. Both
/// take the moment from which on they stay.
pub(crate) type OldRows = [&'static Statement; 2];

pub(crate) static EVENTS: OldRows = [&sql::OLD_EVENTS, &sql::DROP_EVENTS];
/// These take the moment from which on events stay as well: who is named by one stays.
pub(crate) static USERS: OldRows = [&sql::OLD_USERS, &sql::DROP_USERS];
pub(crate) static REPOSITORIES: OldRows = [&sql::OLD_REPOSITORIES, &sql::DROP_REPOSITORIES];
pub(crate) static REJECTED: OldRows = [&sql::OLD_REJECTED, &sql::DROP_REJECTED];
pub(crate) static CLOSED_GAPS: OldRows = [&sql::OLD_CLOSED_GAPS, &sql::DROP_CLOSED_GAPS];
pub(crate) static OPEN_GAPS: OldRows = [&sql::OLD_OPEN_GAPS, &sql::DROP_OPEN_GAPS];

/// Numbers over all that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) users: i64,
    pub(crate) repositories: i64,
    pub(crate) rejected: i64,
    pub(crate) open_gaps: i64,
    /// Since the moment that was asked for.
    pub(crate) pushes_since: i64,
    /// When the first and the last push came.
    pub(crate) first_at: Option<i64>,
    pub(crate) last_at: Option<i64>,
}

grip_db::from_row!(Totals {
    users,
    repositories,
    rejected,
    open_gaps,
    pushes_since,
    first_at,
    last_at,
});

impl Store {
    /// Says how many would go.
    pub(crate) async fn count_old(
        &self,
        [count, _]: OldRows,
        values: &[Value],
    ) -> Result<u64, DbError> {
        let (found,): (i64,) = self.db.fetch_one(count, values).await?;
        Ok(found.unsigned_abs())
    }

    /// Lets them go, some at a time; says how many went.
    pub(crate) async fn drop_old(
        &self,
        [_, drop]: OldRows,
        values: &[Value],
    ) -> Result<u64, DbError> {
        let values = [values, &[AT_ONCE.into()]].concat();
        let mut gone = 0;
        loop {
            let some = self.db.execute(drop, &values).await?;
            gone += some;
            if some < AT_ONCE.unsigned_abs() {
                return Ok(gone);
            }
        }
    }

    /// Numbers over all that is kept; pushes since a moment.
    pub(crate) async fn totals(&self, since_ms: i64) -> Result<Totals, DbError> {
        self.db.fetch_one(&sql::TOTALS, &[since_ms.into()]).await
    }

    /// How many events came, by source and type.
    pub(crate) async fn counts(&self) -> Result<Vec<(String, String, i64)>, DbError> {
        self.db.fetch_all(&sql::COUNTS, &[]).await
    }

    /// What could not be read, the latest first.
    pub(crate) async fn recent_rejections(
        &self,
        limit: usize,
    ) -> Result<Vec<crate::status::RejectedEvent>, DbError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.db
            .fetch_all(&sql::REJECTED_LATELY, &[limit.into()])
            .await
    }
}
