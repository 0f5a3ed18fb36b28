//! Sums of versions that not everybody may know of.
//!
//! The log is public, so these are not in it. They are kept all the same, so that a tag which moves
//! on another host gives nobody other files under the same version.

use grip_go::{ModulePath, Version};

use super::{NewRecord, Record, SumDb, SumDbError, sql::sql};

impl SumDb {
    /// The sums that a version of a restricted repository had when it was first served.
    pub(crate) async fn find_restricted(
        &self,
        path: &ModulePath,
        version: &Version,
    ) -> Result<Option<Record>, SumDbError> {
        let asked = [path.as_str().into(), version.as_str().into()];
        let db = &self.inner.db;
        Ok(db.fetch_optional(&sql::FIND_RESTRICTED, &asked).await?)
    }

    /// Keeps the sums of a version, and returns those that count: of before where there are any.
    pub(crate) async fn keep_restricted(&self, new: NewRecord) -> Result<Record, SumDbError> {
        let now_ms = self.inner.db.now_ms();
        let NewRecord { path, version, .. } = new.clone();
        let kept = self.inner.db.write(move |mut db| {
            let new = new.clone();
            Box::pin(async move {
                let row = [
                    new.path.into(),
                    new.version.into(),
                    new.sums.zip.into(),
                    new.sums.go_mod.into(),
                    new.repo.into(),
                    new.tag.into(),
                    new.commit.into(),
                    now_ms.into(),
                ];
                db.execute(&sql::KEEP_RESTRICTED, &row).await?;
                let asked = [path.into(), version.into()];
                db.fetch_one(&sql::FIND_RESTRICTED, &asked).await
            })
        });
        Ok(kept.await?)
    }
}
