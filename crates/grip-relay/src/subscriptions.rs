//! Live subscriptions, and the fan-out of new events to them.
//!
//! A subscription begins as *loading*: it is registered before stored events are read, and what
//! arrives meanwhile is kept back until `EOSE` is queued. So no event falls into the gap between
//! stored and live, and none that was sent as stored is sent again.
//!
//! The writer waits for the lock of all subscriptions with every event, so nothing that a client can
//! make large is built, hashed or freed under it: terms are added and removed a few at a time, and
//! the frame of an event is joined where it is sent.

mod index;

use std::{
    collections::HashSet,
    hash::RandomState,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
};

use bytes::Bytes;
use grip_nostr::{Event, Filter, Timestamp, expiration};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    Stats, reply,
    send_queue::{NEVER, SendQueue},
};
use index::{Index, Term};

/// Terms added or removed under one lock.
const TERMS_AT_ONCE: usize = 256;
/// What a term costs in the index: its place in a map, a list of slots, and its copy for removal.
const TERM_BYTES: usize = 128;
/// What a filter costs besides its bytes: all that stand under a term are tried for every event that
/// has it, and so their number is what delays the writer. Those under a kind are tried more often,
/// those without a condition for every event.
const FILTER_BYTES: usize = 2 << 10;
const KIND_FILTER_BYTES: usize = 4 << 10;
const ANY_FILTER_BYTES: usize = 16 << 10;

/// All live subscriptions. Bounded by connections times subscriptions per connection.
pub(crate) struct Subscriptions {
    subs: Mutex<Index<Sub>>,
    hasher: RandomState,
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
    filters: Vec<Filter>,
    terms: Vec<Term>,
    phase: Phase,
}

/// The filters of a subscription with what they stand under.
pub(crate) struct Prepared {
    pub(crate) filters: Vec<Filter>,
    terms: Vec<Term>,
    /// What they cost.
    pub(crate) bytes: usize,
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
            hasher: RandomState::new(),
            begun: AtomicU64::new(0),
            stats,
        }
    }

    /// Does what takes time for a subscription before it is registered.
    pub(crate) fn prepare(&self, mut filters: Vec<Filter>) -> Prepared {
        filters.dedup();
        let terms = index::terms(&self.hasher, &filters);
        let bytes = filters.iter().map(cost_bytes).sum::<usize>() + terms.len() * TERM_BYTES;
        Prepared {
            filters,
            terms,
            bytes,
        }
    }

    /// Registers a loading subscription: nothing is sent to it before [`Subscriptions::go_live`].
    pub(crate) fn subscribe(
        &self,
        send_queue: &Arc<SendQueue>,
        sub: &str,
        prepared: Prepared,
    ) -> Key {
        let terms = prepared.terms.clone();
        let sub = Sub {
            send_queue: Arc::clone(send_queue),
            head: reply::event_head(sub),
            filters: prepared.filters,
            terms: prepared.terms,
            phase: Phase::Loading {
                held: Vec::new(),
                bytes: 0,
            },
        };
        self.stats.subscriptions.add(1);
        let key = self.subs.lock().insert(sub);
        for terms in terms.chunks(TERMS_AT_ONCE) {
            self.subs.lock().add(key, terms);
        }
        key
    }

    pub(crate) fn unsubscribe(&self, key: Key) {
        let Some(sub) = self.subs.lock().take(key) else {
            return;
        };
        for terms in sub.terms.chunks(TERMS_AT_ONCE) {
            self.subs.lock().forget(key, terms);
        }
        self.subs.lock().free(key);
        self.stats.subscriptions.sub(1);
    }

    /// Sends what came while stored events were read, and from now on all that comes.
    ///
    /// `sent` are the stored events; call it after their `EOSE` was queued.
    pub(crate) fn go_live(&self, key: Key, sent: &[[u8; 32]]) {
        let mut known: Option<HashSet<[u8; 32]>> = None;
        loop {
            let mut subs = self.subs.lock();
            // What was read is older than this moment, so it holds no event of a later batch.
            let until = self.begun.load(SeqCst);
            let settling = until > subs.published() && !sent.is_empty();
            let Some(sub) = subs.get_mut(key) else {
                return;
            };
            let Phase::Loading { held, bytes } = &mut sub.phase else {
                return;
            };
            if held.is_empty() && !settling {
                sub.phase = Phase::Live;
                return;
            }
            let Some(sent) = &mut known else {
                drop(subs);
                known = Some(sent.iter().copied().collect());
                continue;
            };
            if held.is_empty() {
                let sent = std::mem::take(sent);
                sub.phase = Phase::Settling { until, sent };
                return subs.settles(key);
            }
            // It goes on loading, so that what comes now waits behind these.
            let held = std::mem::take(held);
            *bytes = 0;
            let (send_queue, head) = (Arc::clone(&sub.send_queue), sub.head.clone());
            drop(subs);
            let now = Timestamp::now().as_secs();
            let fresh = |live: &&Live| !sent.contains(&live.id) && live.expires > now;
            for live in held.iter().filter(fresh) {
                let taken = send_queue.offer(&head, &live.json, live.expires, Instant::now());
                self.delivered(taken);
            }
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
        let terms = index::values_of(&self.hasher, event);
        let mut live: Option<Live> = None;
        let now = Instant::now();
        let mut subs = self.subs.lock();
        subs.for_candidates(&terms, |sub| {
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
                    let taken = sub.send_queue.offer(&sub.head, &live.json, expires, now);
                    self.delivered(taken);
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

/// What a filter takes up while it is subscribed with, its terms apart.
fn cost_bytes(filter: &Filter) -> usize {
    let has_value = filter.ids.is_some() || filter.authors.is_some() || !filter.tags.is_empty();
    let tried = match (has_value, &filter.kinds) {
        (true, _) => FILTER_BYTES,
        (false, Some(_)) => KIND_FILTER_BYTES,
        (false, None) => ANY_FILTER_BYTES,
    };
    filter.size_bytes() + tried
}

#[cfg(test)]
mod tests;
