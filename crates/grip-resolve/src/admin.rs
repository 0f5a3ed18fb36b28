//! What an operator may do: pin, unpin, read everything anew.
//!
//! Invariants:
//! - A change, its audit row and its idempotency key are one transaction.
//! - An order with a key that was used before is not carried out again; it gets the same answer.
//! - One order at a time, each to its end, whoever waits for it: so what is on the shelf is what
//!   the database says.
//! - Who may give orders is decided before they come here.

mod facts;
mod order;
mod pins;
mod statements;

use std::{panic::resume_unwind, time::Duration};

use grip_db::{Db, DbError};
use grip_tasks::{Busy, Lanes};
use serde::Serialize;

pub use facts::{Audited, Pin};
use order::Record;
pub use order::{Command, InvalidOrder, Order};
use statements::sql;

use crate::{Manifest, ResolveError, Resolver, manifest::MAX_RECORD_BYTES, shelf::MAX_PINS};

/// How long an idempotency key counts: a day.
const KEY_MS: i64 = 24 * 60 * 60 * 1_000;
/// Orders that wait for the one under way. Beyond it they are refused.
const MAX_WAITING: usize = 16;

/// Carries out orders. Cheap to clone.
#[derive(Clone)]
pub struct Admin {
    db: Db,
    resolver: Resolver,
    turns: Lanes<()>,
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
        Ok(Self {
            db,
            resolver,
            turns: Lanes::new(MAX_WAITING),
        })
    }

    /// Carries out an order, after those that came before it.
    ///
    /// Cancel safe: once begun it goes on to its end, and `ended` hears what came of it, whether
    /// or not anybody waits. If `ended` is dropped unheard, the node was stopped in the middle.
    pub async fn carry_out(
        &self,
        command: Command,
        order: Order,
        ended: impl FnOnce(&Result<Done, AdminError>) + Send + 'static,
    ) -> Result<Done, AdminError> {
        let admin = self.clone();
        let carrying = async move {
            let done = admin.in_turn(&command, &order).await;
            ended(&done);
            done
        };
        let group = &self.resolver.core().group;
        match group.spawn("resolve.order", carrying).await {
            Ok(done) => done,
            Err(error) if error.is_panic() => resume_unwind(error.into_panic()),
            Err(_) => Err(ResolveError::Canceled.into()),
        }
    }

    async fn in_turn(&self, command: &Command, order: &Order) -> Result<Done, AdminError> {
        let busy = |Busy| ResolveError::Busy {
            retry_after: Duration::from_secs(1),
        };
        let _turn = self.turns.enter(&()).await.map_err(busy)?;
        let record = Record::new(order, command)?;
        let done = match (self.repeated(&record).await?, command) {
            (Some(done), _) => Ok(done),
            (None, Command::Pin(key)) => self.pin(key, record).await,
            (None, Command::Unpin(key)) => self.unpin(key, record).await,
            (None, Command::Reindex) => self.reindex(record).await,
        };
        // Whatever came of it: a failure may come after the change, and a change that was made
        // before may not have come to the shelf.
        if let Command::Pin(key) | Command::Unpin(key) = command {
            self.take_up(key).await;
        }
        done
    }

    async fn reindex(&self, record: Record) -> Result<Done, AdminError> {
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
}

#[cfg(test)]
mod tests;
