//! Deliveries of GitHub's webhooks.
//!
//! Invariants:
//! - Nothing is read of a delivery that is not signed with one of the secrets.
//! - A delivery that could not be read has not come before: it can be delivered again.
//! - A delivery is taken in once: its id and all that follows from it are one transaction, so the
//!   same delivery changes nothing when it comes again, also after a restart. Ids are remembered
//!   for longer than GitHub delivers again; a push is known by its id for as long as it is kept.

mod delivery;
mod signature;

use std::{sync::Arc, time::Duration};

use grip_db::{Db, DbError};
use grip_queue::Queue;
use grip_tasks::TaskGroup;

pub use self::{
    delivery::{About, BadDelivery, Delivery, MAX_BODY, Parsed, parse},
    signature::{InvalidSecret, Refused, Secrets},
};
use crate::{
    accept::{Batch, off_runtime},
    jobs::millis,
    store::{accept_in, retry_on_conflict},
};

/// What it is called among the sources of events.
const SOURCE: &str = "webhook";
/// How long the ids of deliveries are remembered. GitHub delivers again for three days.
const REMEMBERED: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Ids that are forgotten at a time.
const FORGOTTEN_AT_ONCE: i64 = 100;

grip_db::statements! {
    pub(crate) mod sql {
        ADD_DELIVERY = "INSERT INTO ingest_deliveries (id, event, at) VALUES ($1, $2, $3) \
                        ON CONFLICT (id) DO NOTHING";
        FORGET_DELIVERIES = "DELETE FROM ingest_deliveries WHERE id IN (SELECT id \
                             FROM ingest_deliveries WHERE at < $1 ORDER BY at LIMIT $2)";
    }
}

/// Takes deliveries in. Cheap to clone.
#[derive(Clone)]
pub struct Webhook {
    parts: Arc<Parts>,
}

struct Parts {
    secrets: Secrets,
    db: Db,
    queue: Queue,
    live_for: Duration,
    group: TaskGroup,
}

/// What became of a delivery.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Received {
    /// GitHub has tried whether somebody is there.
    Pong { zen: String },
    /// A push was kept, and what follows from it is asked for.
    Push,
    /// A push cannot be read; it is kept aside with the reason.
    KeptAside { reason: String },
    /// It is about something that is only counted.
    Counted,
    /// It came before: nothing has changed.
    Known,
}

/// Why a delivery was not taken in.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// To be answered with 401.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// To be answered with 400, or 413 where it is too big.
    #[error(transparent)]
    Bad(#[from] BadDelivery),
    /// To be answered with 503: GitHub can be asked to deliver again.
    #[error("the delivery cannot be kept")]
    Database(#[from] DbError),
}

impl Webhook {
    /// `live_for`: older pushes wake nobody.
    pub fn new(
        secrets: Secrets,
        db: Db,
        queue: Queue,
        live_for: Duration,
        group: TaskGroup,
    ) -> Self {
        let parts = Parts {
            secrets,
            db,
            queue,
            live_for,
            group,
        };
        Self {
            parts: Arc::new(parts),
        }
    }

    /// Takes a delivery in. What it brought is on the disk when this returns.
    ///
    /// Cancel safe: all of it is kept, or nothing.
    pub async fn receive(&self, delivery: Delivery) -> Result<Received, WebhookError> {
        if delivery.body.len() > MAX_BODY {
            return Err(BadDelivery::TooBig.into());
        }
        let (parts, bytes) = (Arc::clone(&self.parts), delivery.body.len());
        let reading = off_runtime(&self.parts.group, bytes, move || parts.read(&delivery));
        let read = reading.await??;
        let is_new = self.parts.keep(&read).await?;
        Ok(if is_new {
            read.received
        } else {
            Received::Known
        })
    }
}

/// A delivery that is GitHub's, read.
struct Read {
    id: String,
    name: &'static str,
    /// What becomes of it, unless it came before.
    received: Received,
    batch: Arc<Batch>,
}

impl Parts {
    fn read(&self, delivery: &Delivery) -> Result<Read, WebhookError> {
        let signature = delivery.signature.as_deref();
        self.secrets.check(signature, &delivery.body)?;
        let Parsed { id, about } = parse(delivery)?;
        let mut batch = Batch::default();
        let (name, received) = match about {
            About::Ping { zen } => ("ping", Received::Pong { zen }),
            About::Push(arrival) => {
                batch = Batch::read(&[arrival]);
                let rejected = batch.rejected.values().next();
                let received = rejected.map_or(Received::Push, |rejected| Received::KeptAside {
                    reason: rejected.reason.clone(),
                });
                ("push", received)
            }
            About::Other(name) => {
                batch.others.insert(name, 1);
                (name, Received::Counted)
            }
        };
        let batch = Arc::new(batch);
        Ok(Read {
            id,
            name,
            received,
            batch,
        })
    }

    /// Keeps what a delivery brought; false if it came before. One that could not be read has not
    /// come: it is read when it is delivered again, or by a re-extraction.
    async fn keep(&self, read: &Read) -> Result<bool, DbError> {
        let (live_for, now) = (self.live_for, self.db.now_ms());
        let before = now.saturating_sub(millis(REMEMBERED));
        retry_on_conflict(|| {
            let (queue, batch) = (self.queue.clone(), Arc::clone(&read.batch));
            let (id, name) = (read.id.clone(), read.name);
            let is_read = !matches!(read.received, Received::KeptAside { .. });
            self.db.write(move |mut db| {
                Box::pin(async move {
                    let values = [id.into(), name.into(), now.into()];
                    if is_read && db.execute(&sql::ADD_DELIVERY, &values).await? == 0 {
                        return Ok(false);
                    }
                    let values = [before.into(), FORGOTTEN_AT_ONCE.into()];
                    db.execute(&sql::FORGET_DELIVERIES, &values).await?;
                    accept_in(&mut db, &queue, SOURCE, &batch, live_for).await?;
                    Ok(true)
                })
            })
        })
        .await
    }
}

#[cfg(test)]
mod tests;
