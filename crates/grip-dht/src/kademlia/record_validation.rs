//! Judges what is to be stored, one thing after the other.
//!
//! Invariants:
//! - Nothing reaches the store or the network that was not judged against what is held at that
//!   moment: one judgement at a time, and all that changes a value comes this way.
//! - Our own own_updates come before the offers of others, in the command they were made.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use grip_tasks::TaskGroup;
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

use super::{
    request_handler::Permit,
    stats::{Stats, count},
};
use crate::{DhtError, Published, RecordKey, RecordValidator, Verdict};

/// A record that another node wants us to hold.
pub(super) struct Offer {
    pub key: RecordKey,
    pub value: Bytes,
    /// Until when to hold it. What we hold is ours to time: how long its bearer wants it held
    /// is not asked, or a stranger could have the record of another vanish.
    pub expires: Instant,
    /// The offering peer's share of the queue; given back when the offer is judged.
    pub _permit: Permit,
}

/// What we want to tell the network.
pub(super) enum OwnUpdate {
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
pub(super) enum StoreCommand {
    /// Asks what is held under `key`.
    Held {
        key: RecordKey,
        held: oneshot::Sender<Option<Bytes>>,
    },
    Store(Offer),
    /// What is held under `key` was told again.
    Renew {
        key: RecordKey,
        expires: Instant,
    },
    OwnUpdate(OwnUpdate),
}

pub(super) struct ValidationTask {
    pub judge: Arc<dyn RecordValidator>,
    pub group: TaskGroup,
    pub stats: Arc<Stats>,
    pub own_updates: mpsc::Receiver<OwnUpdate>,
    pub offers: mpsc::Receiver<Offer>,
    pub store_commands: mpsc::Sender<StoreCommand>,
}

/// The swarm task is gone: nothing is left to do.
struct SwarmStopped;

impl ValidationTask {
    pub(super) async fn run(mut self) {
        let stop = self.group.token();
        stop.run_until_cancelled(async { while self.step().await.is_ok() {} })
            .await;
    }

    async fn step(&mut self) -> Result<(), SwarmStopped> {
        tokio::select! {
            biased;
            Some(update) = self.own_updates.recv() => self.update(update).await,
            Some(offer) = self.offers.recv() => self.offer(offer).await,
            else => Err(SwarmStopped),
        }
    }

    async fn update(&self, update: OwnUpdate) -> Result<(), SwarmStopped> {
        let update = match update {
            OwnUpdate::Publish(publication) => match self.own(publication).await? {
                Some(publication) => OwnUpdate::Publish(publication),
                None => return Ok(()),
            },
            withdraw => withdraw,
        };
        self.command(StoreCommand::OwnUpdate(update)).await
    }

    /// Judges a value of our own: an older one must not replace what the network has.
    async fn own(&self, mut publication: Publication) -> Result<Option<Publication>, SwarmStopped> {
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

    async fn offer(&self, mut offer: Offer) -> Result<(), SwarmStopped> {
        let counts = &self.stats.counts;
        let (verdict, held) = self.verdict(&offer.key, &offer.value).await?;
        match verdict {
            Verdict::Keep(value) => {
                count(&counts.kept);
                offer.value = value;
                self.command(StoreCommand::Store(offer)).await
            }
            Verdict::Ignore => {
                count(&counts.ignored);
                let Offer { key, expires, .. } = offer;
                match held {
                    Some(_) => self.command(StoreCommand::Renew { key, expires }).await,
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
    ) -> Result<(Verdict, Option<Bytes>), SwarmStopped> {
        let (sender, held) = oneshot::channel();
        let command = StoreCommand::Held {
            key: key.clone(),
            held: sender,
        };
        self.command(command).await?;
        let held = held.await.map_err(|_| SwarmStopped)?;
        let (judge, key) = (Arc::clone(&self.judge), key.clone());
        let (offered, before) = (offered.clone(), held.clone());
        let work = move || judge.validate(&key, &offered, before.as_deref());
        let verdict = self.group.spawn_blocking("judge", work).await;
        let verdict = verdict.unwrap_or_else(|_| Verdict::Refuse("judging it failed".to_owned()));
        Ok((verdict, held))
    }

    async fn command(&self, command: StoreCommand) -> Result<(), SwarmStopped> {
        self.store_commands
            .send(command)
            .await
            .map_err(|_| SwarmStopped)
    }
}
