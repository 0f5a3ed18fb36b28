//! Removal of old rows, and totals.

use grip_db::{DbError, Statement, Value};

use super::{Store, sql};

/// Rows that go in one transaction, so that nobody waits long.
const AT_ONCE: i64 = 2_000;

/// What may go, with the moment from which on things stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Old {
    Events {
        from: i64,
    },
    /// Also not those that events of a time name.
    Users {
        from: i64,
        events_from: i64,
    },
    Repositories {
        from: i64,
        events_from: i64,
    },
    Rejected {
        from: i64,
    },
    ClosedGaps {
        from: i64,
    },
    OpenGaps {
        from: i64,
    },
}

/// Numbers over all that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, sqlx::FromRow)]
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

impl Old {
    fn statements(self) -> (&'static Statement, &'static Statement, Vec<Value>) {
        match self {
            Self::Events { from } => (&sql::OLD_EVENTS, &sql::DROP_EVENTS, vec![from.into()]),
            Self::Users { from, events_from } => (
                &sql::OLD_USERS,
                &sql::DROP_USERS,
                vec![from.into(), events_from.into()],
            ),
            Self::Repositories { from, events_from } => (
                &sql::OLD_REPOSITORIES,
                &sql::DROP_REPOSITORIES,
                vec![from.into(), events_from.into()],
            ),
            Self::Rejected { from } => (&sql::OLD_REJECTED, &sql::DROP_REJECTED, vec![from.into()]),
            Self::ClosedGaps { from } => (
                &sql::OLD_CLOSED_GAPS,
                &sql::DROP_CLOSED_GAPS,
                vec![from.into()],
            ),
            Self::OpenGaps { from } => {
                (&sql::OLD_OPEN_GAPS, &sql::DROP_OPEN_GAPS, vec![from.into()])
            }
        }
    }
}

impl Store {
    /// How many would go.
    pub(crate) async fn count_old(&self, old: Old) -> Result<u64, DbError> {
        let (count, _, values) = old.statements();
        let (found,): (i64,) = self
            .db
            .read(|mut db| Box::pin(async move { db.fetch_one(count, &values).await }))
            .await?;
        Ok(found.unsigned_abs())
    }

    /// Lets them go, some at a time; says how many went.
    pub(crate) async fn drop_old(&self, old: Old) -> Result<u64, DbError> {
        let (_, drop, values) = old.statements();
        let mut gone = 0;
        loop {
            let mut values = values.clone();
            values.push(AT_ONCE.into());
            let some = self
                .db
                .write_one(move |mut db| Box::pin(async move { db.execute(drop, &values).await }))
                .await?;
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
