//! What an operator may do: pin, unpin, read everything anew.
//!
//! Invariants:
//! - A change, its audit row and its idempotency key are one transaction.
//! - An order with a key that was used before is not carried out again; it gets the same answer.
//! - Who may give orders is decided before they come here.

mod facts;
mod order;
mod statements;

use grip_db::{Db, DbError};
use serde::Serialize;

pub use facts::{Audited, Pin};
use order::Record;
pub use order::{InvalidOrder, Order};
use statements::sql;

use crate::{
    Ask, Key, Manifest, ManifestId, ResolveError, Resolver, manifest::MAX_RECORD_BYTES,
    shelf::MAX_PINS,
};

/// How long an idempotency key counts: a day.
const KEY_MS: i64 = 24 * 60 * 60 * 1_000;

/// Carries out orders. Cheap to clone.
#[derive(Clone)]
pub struct Admin {
    db: Db,
    resolver: Resolver,
}

/// What came of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Done {
    pub action: &'static str,
    /// The key, or what was meant.
    pub subject: String,
    /// What it came to, in one word and, where there is one, an id.
    pub outcome: String,
    /// It was carried out before, under the same idempotency key.
    pub repeated: bool,
}

/// Why an order was not carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    #[error(transparent)]
    Order(#[from] InvalidOrder),
    #[error("this idempotency key was used for another order")]
    KeyReused,
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    #[error("{MAX_PINS} manifests are pinned already: unpin some first")]
    TooManyPins,
    #[error("the manifest is longer than {MAX_RECORD_BYTES} bytes, so it cannot be pinned")]
    TooLong,
    #[error("the database failed")]
    Db(#[from] DbError),
}

impl Admin {
    /// Takes up the pins of earlier runs.
    pub async fn open(db: Db, resolver: Resolver) -> Result<Self, DbError> {
        let rows: Vec<(String, String)> = db
            .read(|mut db| Box::pin(async move { db.fetch_all(&sql::MANIFESTS, &[]).await }))
            .await?;
        for (id, manifest) in rows {
            match Manifest::decode(manifest.as_bytes()) {
                Ok(manifest) if resolver.core().shelf.pin(&manifest) => {}
                Ok(_) => tracing::warn!(id, "there are too many pins: one is left out"),
                Err(error) => tracing::warn!(id, %error, "a pin cannot be read and is left out"),
            }
        }
        resolver.core().publisher.reindex();
        Ok(Self { db, resolver })
    }

    /// Keeps what `key` resolves to, and provides it from here on.
    pub async fn pin(&self, key: &Key, order: &Order) -> Result<Done, AdminError> {
        let record = Record::new(order, "pin", key.to_string())?;
        if let Some(done) = self.repeated(&record).await? {
            return Ok(done);
        }
        let manifest = self.resolver.resolve(key, Ask::default()).await?.manifest;
        if !manifest.fits_a_record() {
            return Err(AdminError::TooLong);
        }
        let shelf = &self.resolver.core().shelf;
        if !shelf.pin(&manifest) {
            return Err(AdminError::TooManyPins);
        }
        let pinned = self.write_pin(record, &manifest).await;
        if pinned.is_err() {
            self.take_up_again(&manifest).await;
        }
        self.resolver.core().publisher.touch(manifest.name());
        pinned
    }

    async fn write_pin(&self, record: Record, manifest: &Manifest) -> Result<Done, AdminError> {
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
    pub async fn unpin(&self, key: &Key, order: &Order) -> Result<Done, AdminError> {
        let record = Record::new(order, "unpin", key.to_string())?;
        if let Some(done) = self.repeated(&record).await? {
            return Ok(done);
        }
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
                    let gone: Vec<(String,)> = db.fetch_all(&statement, &[named.into()]).await?;
                    let writing = writing.with_outcome(format!("unpinned {}", gone.len()));
                    if !writing.begin(&mut db, now).await? {
                        return Err(DbError::GivenUp);
                    }
                    writing.audit(&mut db, now).await?;
                    Ok((writing.done(), gone))
                })
            })
            .await;
        let (written, gone) = match written {
            Ok((done, gone)) => (Ok(done), gone),
            Err(error) => (Err(error), Vec::new()),
        };
        let gone = gone.iter().filter_map(|(id,)| ManifestId::parse(id).ok());
        gone.for_each(|id| self.let_go(id));
        self.settle(&record, written).await
    }

    /// Has everything that is served read and told anew, and forgets what was resolved.
    pub async fn reindex(&self, order: &Order) -> Result<Done, AdminError> {
        let record = Record::new(order, "reindex", "everything".to_owned())?;
        if let Some(done) = self.repeated(&record).await? {
            return Ok(done);
        }
        let now = self.db.now_ms();
        let record = record.with_outcome("begun".to_owned());
        let writing = record.clone();
        let written = self
            .db
            .write(move |mut db| {
                Box::pin(async move {
                    if !writing.begin(&mut db, now).await? {
                        return Err(DbError::GivenUp);
                    }
                    writing.audit(&mut db, now).await
                })
            })
            .await;
        if written.is_ok() {
            self.resolver.forget_all();
            self.resolver.core().publisher.reindex();
        }
        self.settle(&record, written.map(|()| record.done())).await
    }

    /// The answer to the same order, if it was carried out before.
    async fn repeated(&self, record: &Record) -> Result<Option<Done>, AdminError> {
        let Some(asked) = record.lookup() else {
            return Ok(None);
        };
        let found: Option<(String, String, String)> = self
            .db
            .read(move |mut db| {
                Box::pin(async move { db.fetch_optional(&sql::FIND_ORDER, &asked).await })
            })
            .await?;
        let Some((action, subject, outcome)) = found else {
            return Ok(None);
        };
        if action != record.action || subject != record.subject {
            return Err(AdminError::KeyReused);
        }
        let done = record.clone().with_outcome(outcome).done();
        Ok(Some(Done {
            repeated: true,
            ..done
        }))
    }

    /// Work is given up only where the same key came in between: then the answer is that one's.
    async fn settle(
        &self,
        record: &Record,
        written: Result<Done, DbError>,
    ) -> Result<Done, AdminError> {
        match written {
            Ok(done) => Ok(done),
            Err(DbError::GivenUp) => {
                let before = self.repeated(record).await?;
                before.ok_or(AdminError::KeyReused)
            }
            Err(error) => Err(AdminError::Db(error)),
        }
    }

    /// A pin that could not be written counts only if it was there before.
    async fn take_up_again(&self, manifest: &Manifest) {
        let id = manifest.id().to_string();
        let pins = self.pins().await.unwrap_or_default();
        if !pins.iter().any(|pin| pin.id == id) {
            self.resolver.core().shelf.unpin(manifest);
        }
    }

    fn let_go(&self, id: ManifestId) {
        let core = self.resolver.core();
        if let Some(pin) = core.shelf.pin_of(&id) {
            core.shelf.unpin(&pin);
            core.publisher.touch(pin.name());
        }
    }
}

#[cfg(test)]
mod tests;
