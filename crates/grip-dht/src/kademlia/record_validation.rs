//! Validation of everything that is to be stored, one record after the other.
//!
//! Invariants:
//! - Nothing reaches the store or the network that was not validated against what is held at that
//!   moment: one validation at a time, and every change of a value comes this way.
//! - Our own updates come before the offers of others, in the order they were made.

use std::{sync::Arc, time::Instant};

use bytes::Bytes;
use grip_tasks::TaskGroup;
use tokio::sync::{mpsc, oneshot};

use super::{
    publications::Caller,
    record_store::Source,
    request_handler::PeerPermit,
    stats::{Stats, count},
};
use crate::{DhtError, RecordKey, RecordValidator, Verdict};

/// A record that another node wants us to hold.
pub(super) struct Offer {
    pub key: RecordKey,
    pub value: Bytes,
    /// Who is charged for it.
    pub source: Source,
    /// Set by us: the expiry that its sender wants is ignored, or a stranger could have another's
    /// record vanish.
    pub expires: Instant,
    /// The peer's part of the queue; released after the validation.
    pub _permit: PeerPermit,
}

/// A change of what we publish.
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
    pub caller: Caller,
}

/// Commands to the swarm task.
pub(super) enum StoreCommand {
    /// Reads what is held under `key`.
    Read {
        key: RecordKey,
        held: oneshot::Sender<Option<Bytes>>,
    },
    Store(Offer),
    /// Postpones the expiry of the record under `key`.
    Renew {
        key: RecordKey,
        expires: Instant,
    },
    Own(OwnUpdate),
}

pub(super) struct ValidationTask {
    pub validator: Arc<dyn RecordValidator>,
    pub group: TaskGroup,
    pub stats: Arc<Stats>,
    pub own_updates: mpsc::Receiver<OwnUpdate>,
    pub offers: mpsc::Receiver<Offer>,
    pub store_commands: mpsc::Sender<StoreCommand>,
}

/// The swarm task has stopped: nothing is left to do.
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
            Some(update) = self.own_updates.recv() => self.own_update(update).await,
            Some(offer) = self.offers.recv() => self.offer(offer).await,
            else => Err(SwarmStopped),
        }
    }

    async fn own_update(&self, mut update: OwnUpdate) -> Result<(), SwarmStopped> {
        if let OwnUpdate::Publish(publication) = &mut update
            && let Some(value) = publication.value.take()
        {
            // An older value must not replace what the network has.
            let (verdict, held) = self.validate(&publication.key, &value).await?;
            publication.value = match verdict {
                Verdict::Keep(value) => Some(value),
                Verdict::Ignore => held.or(Some(value)),
                Verdict::Refuse(reason) => {
                    refuse(update, reason);
                    return Ok(());
                }
            };
        }
        self.send(StoreCommand::Own(update)).await
    }

    async fn offer(&self, mut offer: Offer) -> Result<(), SwarmStopped> {
        let counts = &self.stats.counts;
        let (verdict, held) = self.validate(&offer.key, &offer.value).await?;
        match verdict {
            Verdict::Keep(value) => {
                count(&counts.kept_total);
                offer.value = value;
                self.send(StoreCommand::Store(offer)).await
            }
            Verdict::Ignore => {
                count(&counts.ignored_total);
                let Offer { key, expires, .. } = offer;
                match held {
                    Some(_) => self.send(StoreCommand::Renew { key, expires }).await,
                    None => Ok(()),
                }
            }
            Verdict::Refuse(reason) => {
                count(&counts.refused_total);
                tracing::debug!(key = %offer.key, reason, "refused record");
                Ok(())
            }
        }
    }

    /// Runs the validator on a blocking thread; a panic is a refusal.
    async fn validate(
        &self,
        key: &RecordKey,
        offered: &Bytes,
    ) -> Result<(Verdict, Option<Bytes>), SwarmStopped> {
        let (sender, held) = oneshot::channel();
        let command = StoreCommand::Read {
            key: key.clone(),
            held: sender,
        };
        self.send(command).await?;
        let held = held.await.map_err(|_| SwarmStopped)?;
        let (validator, key) = (Arc::clone(&self.validator), key.clone());
        let (offered, before) = (offered.clone(), held.clone());
        let work = move || validator.validate(&key, &offered, before.as_deref());
        let verdict = self.group.spawn_blocking("judge", work).await;
        let verdict = verdict.unwrap_or_else(|_| Verdict::Refuse("validation failed".to_owned()));
        Ok((verdict, held))
    }

    async fn send(&self, command: StoreCommand) -> Result<(), SwarmStopped> {
        let sent = self.store_commands.send(command).await;
        sent.map_err(|_| SwarmStopped)
    }
}

fn refuse(update: OwnUpdate, reason: String) {
    if let OwnUpdate::Publish(publication) = update {
        let refused = Err(DhtError::Refused { reason });
        let _ = publication.caller.done.send(refused);
    }
}
