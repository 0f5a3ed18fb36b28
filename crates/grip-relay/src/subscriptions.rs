//! Live subscriptions, and the fan-out of new events to them.
//!
//! A subscription begins as *loading*: it is registered before the snapshot of stored events is
//! read, and what arrives meanwhile is kept back until `EOSE` is queued. So no event falls into
//! the gap between stored and live, and none that the snapshot held is sent again.

mod index;

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use bytes::Bytes;
use grip_nostr::{Event, Filter, Timestamp, expiration};
use parking_lot::Mutex;

use crate::{
    Stats, reply,
    send_queue::{NEVER, SendQueue},
};
use index::Index;

/// All live subscriptions. Bounded by connections times subscriptions per connection.
pub(crate) struct Subscriptions {
    subs: Mutex<Index<Sub>>,
    /// Number of the newest batch whose commit has begun.
    begun: AtomicU64,
    stats: Arc<Stats>,
}

/// Names a subscription; stale once it is closed.
pub(crate) type Key = index::Key;

struct Sub {
    send_queue: Arc<SendQueue>,
    /// `["EVENT","…",`
    head: Bytes,
    filters: Arc<[Filter]>,
    phase: Phase,
}

enum Phase {
    /// The snapshot is being read. Bounded by the send_queue limit in bytes: beyond it the reader is
    /// cut.
    Loading {
        held: Vec<Live>,
        bytes: usize,
    },
    /// The snapshot may hold events of batches up to `until` that are yet to be fanned out.
    Settling {
        until: u64,
        sent: HashSet<[u8; 32]>,
    },
    Live,
}

/// A new event with its JSON, made once for all subscribers.
#[derive(Clone)]
struct Live {
    id: [u8; 32],
    json: Bytes,
    expires: u64,
    batch: u64,
}

impl Subscriptions {
    pub(crate) fn new(stats: Arc<Stats>) -> Self {
        Self {
            subs: Mutex::new(Index::default()),
            begun: AtomicU64::new(0),
            stats,
        }
    }

    /// Registers a loading subscription: nothing is sent to it before [`Subscriptions::go_live`].
    pub(crate) fn subscribe(
        &self,
        send_queue: &Arc<SendQueue>,
        sub: &str,
        filters: Arc<[Filter]>,
    ) -> Key {
        let sub = Sub {
            send_queue: Arc::clone(send_queue),
            head: reply::event_head(sub),
            filters: Arc::clone(&filters),
            phase: Phase::Loading {
                held: Vec::new(),
                bytes: 0,
            },
        };
        self.stats.subscriptions.add(1);
        self.subs.lock().insert(sub, &filters)
    }

    pub(crate) fn unsubscribe(&self, key: Key) {
        let mut subs = self.subs.lock();
        let Some(filters) = subs.get_mut(key).map(|sub| Arc::clone(&sub.filters)) else {
            return;
        };
        let removed = subs.remove(key, &filters);
        drop(subs);
        // Freed outside the lock: it may be large.
        drop(removed);
        self.stats.subscriptions.sub(1);
    }

    /// Sends what came while the snapshot was read, and from now on all that comes.
    ///
    /// `sent` are the events of the snapshot; call it after their `EOSE` was queued.
    pub(crate) fn go_live(&self, key: Key, sent: &[[u8; 32]]) {
        let mut subs = self.subs.lock();
        // The snapshot is older than this moment, so it holds no event of a later batch.
        let until = self.begun.load(SeqCst);
        let published = subs.published();
        let Some(sub) = subs.get_mut(key) else {
            return;
        };
        let Phase::Loading { held, .. } = std::mem::replace(&mut sub.phase, Phase::Live) else {
            return;
        };
        let settling = until > published;
        if held.is_empty() && !settling {
            return;
        }
        let sent: HashSet<[u8; 32]> = sent.iter().copied().collect();
        let now = Timestamp::now().as_secs();
        for live in held
            .iter()
            .filter(|live| !sent.contains(&live.id) && live.expires > now)
        {
            let frame = reply::event(&sub.head, &live.json);
            self.delivered(sub.send_queue.offer(frame, live.expires));
        }
        if settling && !sent.is_empty() {
            sub.phase = Phase::Settling { until, sent };
            subs.settles(key);
        }
    }

    /// Says that the writer begins a batch: its events may be seen by snapshots from now on.
    pub(crate) fn begin(&self) -> u64 {
        self.begun.fetch_add(1, SeqCst) + 1
    }

    /// Hands the events of a committed batch to their subscribers. One caller: the writer.
    pub(crate) fn publish<'e>(&self, batch: u64, events: impl Iterator<Item = &'e Event>) {
        let now = Timestamp::now().as_secs();
        for event in events {
            let expires = expiration(event).map_or(NEVER, |at| at.as_secs());
            if expires > now {
                self.publish_one(batch, event, expires);
            }
        }
        self.subs.lock().end_batch(batch, |sub| {
            if matches!(sub.phase, Phase::Settling { until, .. } if until <= batch) {
                sub.phase = Phase::Live;
            }
        });
    }

    fn publish_one(&self, batch: u64, event: &Event, expires: u64) {
        let mut live: Option<Live> = None;
        // Subscribers with the same subscription id share one frame.
        let mut last: Option<(Bytes, Bytes)> = None;
        let mut subs = self.subs.lock();
        subs.for_candidates(event, |sub| {
            if !sub.filters.iter().any(|filter| filter.matches(event)) {
                return;
            }
            let live = live.get_or_insert_with(|| Live {
                id: event.id.to_bytes(),
                json: serde_json::to_vec(event)
                    .expect("an event can be written into memory")
                    .into(),
                expires,
                batch,
            });
            match &mut sub.phase {
                Phase::Loading { held, bytes } => {
                    *bytes += live.json.len();
                    held.push(live.clone());
                    if *bytes > sub.send_queue.limit() {
                        sub.send_queue.overflow();
                        held.clear();
                    }
                }
                Phase::Settling { until, sent }
                    if live.batch <= *until && sent.contains(&live.id) => {}
                Phase::Settling { .. } | Phase::Live => {
                    let frame = match &last {
                        Some((head, frame)) if *head == sub.head => frame.clone(),
                        _ => reply::event(&sub.head, &live.json),
                    };
                    last = Some((sub.head.clone(), frame.clone()));
                    self.delivered(sub.send_queue.offer(frame, expires));
                }
            }
        });
    }

    fn delivered(&self, taken: bool) {
        if taken {
            self.stats.deliveries.add(1);
        }
    }
}

#[cfg(test)]
mod tests;
