//! Progress of long work over all rows, which goes on where it was interrupted.

use grip_db::{Connection, DbError, Value};

use super::{Store, sql};
use crate::status::Progress;

/// What one part of it has done.
pub(super) struct Step {
    pub(super) place: String,
    pub(super) done: usize,
    pub(super) failed: usize,
    pub(super) is_last: bool,
}

impl Step {
    /// Notes it as a part of the caller's transaction.
    pub(super) async fn note(
        self,
        db: &mut Connection<'_>,
        work: &str,
        now: i64,
    ) -> Result<(), DbError> {
        let values = [
            work.into(),
            self.place.into(),
            (self.done as i64).into(),
            (self.failed as i64).into(),
            now.into(),
            Value::MaybeInt(self.is_last.then_some(now)),
        ];
        db.execute(&sql::STEP_WORK, &values).await?;
        Ok(())
    }
}

impl Store {
    /// Notes that work begins at the first row, as a part of the caller's transaction.
    pub(crate) async fn begin_work(
        &self,
        db: &mut Connection<'_>,
        work: &str,
    ) -> Result<(), DbError> {
        let values = [work.into(), self.now_ms().into()];
        db.execute(&sql::BEGIN_WORK, &values).await?;
        Ok(())
    }

    pub(crate) async fn all_work(&self) -> Result<Vec<Progress>, DbError> {
        self.db.fetch_all(&sql::ALL_WORK, &[]).await
    }

    /// The last row that was done.
    pub(super) async fn work_cursor(&self, work: &str) -> Result<String, DbError> {
        let found: Option<Progress> = self.db.fetch_optional(&sql::WORK, &[work.into()]).await?;
        Ok(found.map(|found| found.place).unwrap_or_default())
    }
}
