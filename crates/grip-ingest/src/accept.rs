//! Acceptance of events from any source, and the counts of what became of them.

use std::collections::BTreeMap;

use bytes::Bytes;
use grip_db::DbError;
use grip_tasks::TaskGroup;
use sha2::{Digest as _, Sha256};

use crate::extract::{self, Event, Malformed, Push, TagEvent};

/// Longer batches are read on a thread of their own.
const LONG_BYTES: usize = 256 << 10;
/// Of what cannot be read, so much is kept.
const KEPT_BYTES: usize = 64 << 10;
/// The same of a delivery, which is signed; a longer one is read again once it is redelivered.
const KEPT_DELIVERY_BYTES: usize = 1 << 20;

/// Something that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// An event in the words of the lists of events.
    Event(Bytes),
    /// A webhook's word about a push.
    Delivery { id: String, body: Bytes },
}

/// What became of events that arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Accepted {
    /// Pushes that are new.
    pub new: u64,
    /// Pushes that were there already.
    pub known: u64,
    /// Events that are no pushes: counted, not kept.
    pub other: u64,
    /// Kept aside with the reason.
    pub rejected: u64,
}

/// What arrived, read.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// In the order of their ids, each once: all who write take rows in the same order.
    pub(crate) pushes: BTreeMap<String, Push>,
    /// How often others came, by type.
    pub(crate) others: BTreeMap<&'static str, i64>,
    /// The latest word about the tags of each repository.
    pub(crate) tags: BTreeMap<String, TagEvent>,
    /// By digest.
    pub(crate) rejected: BTreeMap<String, Rejected>,
    /// Pushes that came twice in this batch.
    pub(crate) twice: u64,
}

/// What cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rejected {
    pub(crate) reason: String,
    pub(crate) raw: String,
    pub(crate) bytes: i64,
    /// The webhook's id of the delivery, if one brought it: without it nobody could read it again.
    pub(crate) delivery_id: Option<String>,
}

impl Arrival {
    pub(crate) fn body(&self) -> &Bytes {
        match self {
            Self::Event(body) | Self::Delivery { body, .. } => body,
        }
    }

    fn read(&self) -> Result<Event, Malformed> {
        match self {
            Self::Event(body) => extract::event(body),
            Self::Delivery { id, body } => {
                extract::delivery(id, body).map(|push| Event::Push(Box::new(push)))
            }
        }
    }
}

/// Reads all of them without holding up others.
pub(crate) async fn read(group: &TaskGroup, arrivals: Vec<Arrival>) -> Result<Batch, DbError> {
    let bytes = arrivals.iter().map(|arrival| arrival.body().len()).sum();
    off_runtime(group, bytes, move || Batch::read(&arrivals)).await
}

/// Does what takes longer the more bytes there are, on a thread of its own if there are many.
pub(crate) async fn off_runtime<T: Send + 'static>(
    group: &TaskGroup,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, DbError> {
    if bytes <= LONG_BYTES {
        return Ok(work());
    }
    let working = group.spawn_blocking("read", work);
    working.await.map_err(|_| DbError::Panicked)
}

impl Batch {
    /// Reads all of them. Takes its time where they are long.
    pub(crate) fn read(arrivals: &[Arrival]) -> Self {
        let mut batch = Self::default();
        for arrival in arrivals {
            match arrival.read() {
                Ok(event) => batch.add(event),
                Err(why) => batch.reject_arrival(arrival, &why),
            }
        }
        batch
    }

    pub(crate) fn add(&mut self, event: Event) {
        match event {
            Event::Push(push) => {
                if self.pushes.insert(push.id.clone(), *push).is_some() {
                    self.twice += 1;
                }
            }
            Event::Tag(tag) => {
                *self.others.entry(tag.kind).or_default() += 1;
                self.tags.insert(tag.repository_name.clone(), tag);
            }
            Event::Other { kind, .. } => *self.others.entry(kind).or_default() += 1,
        }
    }

    fn reject_arrival(&mut self, arrival: &Arrival, why: &Malformed) {
        match arrival {
            Arrival::Event(body) => self.reject(body, why),
            Arrival::Delivery { id, body } => {
                self.keep_aside(body, why, Some(id.clone()), KEPT_DELIVERY_BYTES);
            }
        }
    }

    pub(crate) fn reject(&mut self, body: &[u8], why: &Malformed) {
        self.keep_aside(body, why, None, KEPT_BYTES);
    }

    fn keep_aside(
        &mut self,
        body: &[u8],
        why: &Malformed,
        delivery_id: Option<String>,
        most: usize,
    ) {
        let digest = faster_hex::hex_string(&Sha256::digest(body));
        let kept = &body[..body.len().min(most)];
        let rejected = Rejected {
            delivery_id,
            reason: why.to_string(),
            raw: String::from_utf8_lossy(kept).replace('\0', "\u{fffd}"),
            bytes: i64::try_from(body.len()).unwrap_or(i64::MAX),
        };
        self.rejected.insert(digest, rejected);
    }
}
