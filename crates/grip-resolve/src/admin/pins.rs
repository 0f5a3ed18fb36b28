//! What is kept, in the database and on the shelf.

use grip_db::DbError;

use super::{Admin, AdminError, Done, order::Record, statements::sql};
use crate::{Ask, Key, Manifest, ManifestId};

impl Admin {
    /// Keeps what `key` resolves to.
    pub(super) async fn pin(&self, key: &Key, record: Record) -> Result<Done, AdminError> {
        let manifest = self.resolver.resolve(key, Ask::default()).await?.manifest;
        if !manifest.fits_a_record() {
            return Err(AdminError::TooLong);
        }
        if !self.resolver.core().shelf.has_room_for(&manifest) {
            return Err(AdminError::TooManyPins);
        }
        let now = self.db.now_ms();
        let record = record.with_outcome(format!("pinned {}", manifest.id()));
        let text = String::from_utf8(manifest.bytes().to_vec()).expect("because it is JSON");
        let row = [
            manifest.id().to_string().into(),
            manifest.name().to_string().into(),
            text.into(),
            record.actor.clone().into(),
            now.into(),
        ];
        let writing = record.clone();
        let written = self
            .db
            .write(move |mut db| {
                Box::pin(async move {
                    if !writing.begin(&mut db, now).await? {
                        return Err(DbError::GivenUp);
                    }
                    db.execute(&sql::PIN, &row).await?;
                    writing.audit(&mut db, now).await
                })
            })
            .await;
        self.settle(&record, written.map(|()| record.done())).await
    }

    /// Keeps no longer what `key` names: one manifest, or all of a repository.
    pub(super) async fn unpin(&self, key: &Key, record: Record) -> Result<Done, AdminError> {
        let now = self.db.now_ms();
        let (statement, named) = match key {
            Key::Name(name) => (sql::UNPIN_NAME, name.to_string()),
            Key::Manifest(id) => (sql::UNPIN_ID, id.to_string()),
        };
        let writing = record.clone();
        let written = self
            .db
            .write(move |mut db| {
                Box::pin(async move {
                    let gone = db.execute(&statement, &[named.into()]).await?;
                    let writing = writing.with_outcome(format!("unpinned {gone}"));
                    if !writing.begin(&mut db, now).await? {
                        return Err(DbError::GivenUp);
                    }
                    writing.audit(&mut db, now).await?;
                    Ok(writing.done())
                })
            })
            .await;
        self.settle(&record, written).await
    }

    /// Has the shelf hold what the database holds of `key`, and the network told of it. If that
    /// cannot be read, the shelf stays as it is.
    pub(super) async fn take_up(&self, key: &Key) {
        let (statement, named) = match key {
            Key::Name(name) => (sql::MANIFESTS_OF_NAME, name.to_string()),
            Key::Manifest(id) => (sql::MANIFESTS_OF_ID, id.to_string()),
        };
        let rows: Result<Vec<(String, String)>, DbError> = self
            .db
            .read(move |mut db| {
                Box::pin(async move { db.fetch_all(&statement, &[named.into()]).await })
            })
            .await;
        let rows = match rows {
            Ok(rows) => rows,
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                tracing::warn!(%key, error, "what is pinned could not be read: it stays as it was");
                return;
            }
        };
        let kept: Vec<Manifest> = rows.iter().filter_map(|row| self.read(row)).collect();
        let core = self.resolver.core();
        for name in core.shelf.set_pins(key, &kept) {
            core.publisher.touch(name);
        }
    }

    /// A pin as the shelf has it already; else it is read.
    fn read(&self, (id, text): &(String, String)) -> Option<Manifest> {
        let known = ManifestId::parse(id).ok();
        let known = known.and_then(|id| self.resolver.core().shelf.pin_of(&id));
        known.or_else(|| {
            Manifest::decode(text.as_bytes())
                .inspect_err(|error| tracing::warn!(id, %error, "a pin cannot be read"))
                .ok()
        })
    }
}
