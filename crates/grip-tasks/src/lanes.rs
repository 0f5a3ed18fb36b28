//! Lanes: one turn at a time per key.

use std::{
    collections::{HashMap, VecDeque},
    hash::Hash,
    sync::atomic::Ordering,
};

use crate::primitives::{Arc, AtomicU64, Mutex, oneshot};

/// Serial order per key: the first to enter a lane has its turn first, one at a time.
///
/// Bounded: at most `max_waiting` wait in one lane, and one more is refused with [`Busy`]. A lane
/// is in memory only while someone has its turn. Cheap to clone; clones share the lanes.
pub struct Lanes<K: Eq + Hash + Clone> {
    shared: Arc<Shared<K>>,
}

/// The lane has as many waiting as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many are waiting for their turn here")]
pub struct Busy;

struct Shared<K: Eq + Hash + Clone> {
    max_waiting: usize,
    /// Over all lanes: a lane that comes back must not know the waiters of its former life.
    next_waiter: AtomicU64,
    /// A key is here exactly while someone has its turn.
    lanes: Mutex<HashMap<K, Lane<K>>>,
}

struct Lane<K: Eq + Hash + Clone> {
    waiting: VecDeque<Waiting<K>>,
}

struct Waiting<K: Eq + Hash + Clone> {
    id: u64,
    grant: oneshot::Sender<Turn<K>>,
}

impl<K: Eq + Hash + Clone> Clone for Lanes<K> {
    fn clone(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
        }
    }
}

impl<K: Eq + Hash + Clone + Ord> Lanes<K> {
    pub fn new(max_waiting: usize) -> Self {
        let shared = Arc::new(Shared {
            max_waiting,
            next_waiter: AtomicU64::new(0),
            lanes: Mutex::default(),
        });
        Self { shared }
    }

    /// Waits for the turn of `key`. Cancel safe: giving up leaves no waiter in the lane behind.
    pub async fn enter(&self, key: &K) -> Result<Turn<K>, Busy> {
        let (mut waiter, turn) = match self.queue(key)? {
            Entry::Now(turn) => return Ok(turn),
            Entry::Later(waiter, turn) => (waiter, turn),
        };
        let turn = turn.await.expect("a lane outlives those who wait in it");
        waiter.granted = true;
        Ok(turn)
    }

    /// Waits for the turns of all `keys`, each once.
    ///
    /// They are taken in the order of the keys, so that two callers never wait for each other.
    /// Cancel safe, and all or nothing.
    pub async fn enter_all(&self, mut keys: Vec<K>) -> Result<Vec<Turn<K>>, Busy> {
        keys.sort();
        keys.dedup();
        let mut turns = Vec::with_capacity(keys.len());
        for key in &keys {
            turns.push(self.enter(key).await?);
        }
        Ok(turns)
    }

    /// How many keys are in use now.
    pub fn in_use(&self) -> usize {
        self.shared.lanes.lock().len()
    }

    /// How many wait for a turn now, over all keys.
    pub fn waiting(&self) -> usize {
        let lanes = self.shared.lanes.lock();
        lanes.values().map(|lane| lane.waiting.len()).sum()
    }

    fn queue(&self, key: &K) -> Result<Entry<'_, K>, Busy> {
        let mut lanes = self.shared.lanes.lock();
        let Some(lane) = lanes.get_mut(key) else {
            lanes.insert(key.clone(), Lane::default());
            return Ok(Entry::Now(Turn::new(&self.shared, key)));
        };
        if lane.waiting.len() >= self.shared.max_waiting {
            return Err(Busy);
        }
        let id = self.shared.next_waiter.fetch_add(1, Ordering::Relaxed);
        let (grant, turn) = oneshot::channel();
        lane.waiting.push_back(Waiting { id, grant });
        let waiter = Waiter {
            shared: &self.shared,
            key: key.clone(),
            id,
            granted: false,
        };
        Ok(Entry::Later(waiter, turn))
    }
}

enum Entry<'a, K: Eq + Hash + Clone> {
    Now(Turn<K>),
    Later(Waiter<'a, K>, oneshot::Receiver<Turn<K>>),
}

impl<K: Eq + Hash + Clone> Default for Lane<K> {
    fn default() -> Self {
        Self {
            waiting: VecDeque::new(),
        }
    }
}

/// One who waits in a lane, taken out on drop unless the turn came.
struct Waiter<'a, K: Eq + Hash + Clone> {
    shared: &'a Shared<K>,
    key: K,
    id: u64,
    granted: bool,
}

impl<K: Eq + Hash + Clone> Drop for Waiter<'_, K> {
    fn drop(&mut self) {
        if self.granted {
            return;
        }
        // If the turn was granted but not taken yet it lies in the channel, and passes itself on
        // when that is dropped.
        if let Some(lane) = self.shared.lanes.lock().get_mut(&self.key) {
            lane.waiting.retain(|waiting| waiting.id != self.id);
        }
    }
}

/// The right to act for one key. Dropping it lets the next one in.
#[must_use = "the turn is over as soon as it is dropped"]
pub struct Turn<K: Eq + Hash + Clone> {
    shared: Arc<Shared<K>>,
    key: K,
    /// False once the right has gone to someone else.
    held: bool,
}

impl<K: Eq + Hash + Clone> Turn<K> {
    fn new(shared: &Arc<Shared<K>>, key: &K) -> Self {
        Self {
            shared: Arc::clone(shared),
            key: key.clone(),
            held: true,
        }
    }

    pub fn key(&self) -> &K {
        &self.key
    }

    /// Takes the next one out of the lane, or the lane out of the map.
    fn next(&self) -> Option<oneshot::Sender<Turn<K>>> {
        let mut lanes = self.shared.lanes.lock();
        let next = lanes.get_mut(&self.key)?.waiting.pop_front();
        if next.is_none() {
            lanes.remove(&self.key);
        }
        next.map(|waiting| waiting.grant)
    }
}

impl<K: Eq + Hash + Clone> Drop for Turn<K> {
    fn drop(&mut self) {
        if !self.held {
            return;
        }
        while let Some(grant) = self.next() {
            match grant.send(Turn::new(&self.shared, &self.key)) {
                Ok(()) => return,
                // That one has just left: try the next, without a recursion per leaver.
                Err(mut refused) => refused.held = false,
            }
        }
    }
}

impl<K: Eq + Hash + Clone + std::fmt::Debug> std::fmt::Debug for Turn<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Turn").field(&self.key).finish()
    }
}

#[cfg(all(test, not(feature = "loom")))]
mod tests;
