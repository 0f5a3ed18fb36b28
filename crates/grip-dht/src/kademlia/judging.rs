//! Judges what is to be stored, one thing after the other.
//!
//! Invariants:
//! - Nothing reaches the shelf or the network that was not judged against what is held at that
//!   moment: one judgement at a time, and all that changes a value comes this way.
//! - Our own wishes come before the offers of others, in the order they were made.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use grip_tasks::TaskGroup;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::{
    desk::Pass,
    shared::{Shared, count},
};
use crate::{DhtError, Judge, Published, RecordKey, Verdict};

/// A record that another node wants us to hold.
pub(super) struct Offer {
    pub key: RecordKey,
    pub value: Bytes,
    /// Until when to hold it. What we hold is ours to time: how long its bearer wants it held
    /// is not asked, or a stranger could have the record of another vanish.
    pub expires: Instant,
    /// The offering peer's share of the queue; given back when the offer is judged.
    pub _pass: Pass,
}

/// What we want to tell the network.
pub(super) enum Wish {
    Publish(Publication),
    Withdraw {
        key: RecordKey,
        done: oneshot::Sender<()>,
    },
}

pub(super) struct Publication {
    pub key: RecordKey,
    pub value: Option<Bytes>,
    pub done: oneshot::Sender<Result<Published, DhtError>>,
    /// Given back when the publication is through.
    pub permit: OwnedSemaphorePermit,
}

/// What the swarm task is told.
pub(super) enum Order {
    /// Asks what is held under `key`.
    Held {
        key: RecordKey,
        held: oneshot::Sender<Option<Bytes>>,
    },
    Store(Offer),
    /// What is held under `key` was told anew.
    Renew {
        key: RecordKey,
        expires: Instant,
    },
    Wish(Wish),
}

pub(super) struct Judging {
    pub judge: Arc<dyn Judge>,
    pub group: TaskGroup,
    pub shared: Arc<Shared>,
    pub wishes: mpsc::Receiver<Wish>,
    pub offers: mpsc::Receiver<Offer>,
    pub orders: mpsc::Sender<Order>,
}

/// The swarm task is gone: nothing is left to do.
struct Gone;

impl Judging {
    pub(super) async fn run(mut self) {
        let stop = self.group.token();
        stop.run_until_cancelled(async { while self.step().await.is_ok() {} })
            .await;
    }

    async fn step(&mut self) -> Result<(), Gone> {
        tokio::select! {
            biased;
            Some(wish) = self.wishes.recv() => self.wish(wish).await,
            Some(offer) = self.offers.recv() => self.offer(offer).await,
            else => Err(Gone),
        }
    }

    async fn wish(&self, wish: Wish) -> Result<(), Gone> {
        let wish = match wish {
            Wish::Publish(publication) => match self.own(publication).await? {
                Some(publication) => Wish::Publish(publication),
                None => return Ok(()),
            },
            withdraw => withdraw,
        };
        self.order(Order::Wish(wish)).await
    }

    /// Judges a value of our own: an older one must not replace what the network has.
    async fn own(&self, mut publication: Publication) -> Result<Option<Publication>, Gone> {
        let Some(value) = publication.value.take() else {
            return Ok(Some(publication));
        };
        let (verdict, held) = self.verdict(&publication.key, &value).await?;
        publication.value = match verdict {
            Verdict::Keep(value) => Some(value),
            Verdict::Ignore => held.or(Some(value)),
            Verdict::Refuse(reason) => {
                let _ = publication.done.send(Err(DhtError::Refused { reason }));
                return Ok(None);
            }
        };
        Ok(Some(publication))
    }

    async fn offer(&self, mut offer: Offer) -> Result<(), Gone> {
        let counts = &self.shared.counts;
        let (verdict, held) = self.verdict(&offer.key, &offer.value).await?;
        match verdict {
            Verdict::Keep(value) => {
                count(&counts.kept);
                offer.value = value;
                self.order(Order::Store(offer)).await
            }
            Verdict::Ignore => {
                count(&counts.ignored);
                let Offer { key, expires, .. } = offer;
                match held {
                    Some(_) => self.order(Order::Renew { key, expires }).await,
                    None => Ok(()),
                }
            }
            Verdict::Refuse(reason) => {
                count(&counts.refused);
                tracing::debug!(key = %offer.key, reason, "a record was refused");
                Ok(())
            }
        }
    }

    /// Asks the judge, on a thread where he may think; one who panics has refused.
    async fn verdict(
        &self,
        key: &RecordKey,
        offered: &Bytes,
    ) -> Result<(Verdict, Option<Bytes>), Gone> {
        let (sender, held) = oneshot::channel();
        let order = Order::Held {
            key: key.clone(),
            held: sender,
        };
        self.order(order).await?;
        let held = held.await.map_err(|_| Gone)?;
        let (judge, key) = (Arc::clone(&self.judge), key.clone());
        let (offered, before) = (offered.clone(), held.clone());
        let work = move || judge.judge(&key, &offered, before.as_deref());
        let verdict = self.group.spawn_blocking("judge", work).await;
        let verdict = verdict.unwrap_or_else(|_| Verdict::Refuse("judging it failed".to_owned()));
        Ok((verdict, held))
    }

    async fn order(&self, order: Order) -> Result<(), Gone> {
        self.orders.send(order).await.map_err(|_| Gone)
    }
}
