//! Lanes: one turn at a time per key.

use std::{collections::HashMap, hash::Hash, time::Duration};

use grip_types::{FairLines, Owner, Place};
use tokio::time::{Instant, timeout_at};

use crate::primitives::{Arc, Mutex, oneshot};

/// How long a turn is kept while others are waited for; about as long as what is done in one. It grows
/// with every attempt up to the longest, so that names which are always busy are had together at last.
const FIRST_HOLD: Duration = Duration::from_millis(100);
const LONGEST_HOLD: Duration = Duration::from_secs(2);

/// Serial order per key: one has the turn at a time. Those who wait for it are owners who take turns;
/// among those of one owner the first to enter is first.
///
/// Bounded: at most `max_waiting` wait in one lane. Who comes then takes the place of the last of the
/// owner with most, or is refused with [`Busy`] if he has as many himself. A lane is in memory only
/// while someone has its turn. Cheap to clone; clones share the lanes.
pub struct Lanes<K: Eq + Hash + Clone> {
    shared: Arc<Shared<K>>,
}

/// The lane has as many waiting as it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many are waiting for their turn here")]
pub struct Busy;

struct Shared<K: Eq + Hash + Clone> {
    max_waiting: usize,
    open: Mutex<Open<K>>,
}

struct Open<K: Eq + Hash + Clone> {
    /// The number of the next waiter or grant, over all lanes: a lane that comes back must not know the
    /// waiters of its former life.
    next: u64,
    /// A key is here exactly while someone has its turn.
    lanes: HashMap<K, FairLines<Waiting<K>>>,
}

struct Waiting<K: Eq + Hash + Clone> {
    place: Place,
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
        let open = Mutex::new(Open {
            next: 0,
            lanes: HashMap::new(),
        });
        let shared = Arc::new(Shared { max_waiting, open });
        Self { shared }
    }

    /// Waits for the turn of `key` in the line of `owner`. Cancel safe: giving up leaves no waiter in
    /// the lane behind.
    pub async fn enter(&self, key: &K, owner: Owner) -> Result<Turn<K>, Busy> {
        let (mut waiter, turn) = match self.queue(key, owner)? {
            Entry::Now(turn) => return Ok(turn),
            Entry::Later(waiter, turn) => (waiter, turn),
        };
        // A lane outlives those who wait in it: without an answer somebody has taken this place.
        let turn = turn.await.map_err(|_| Busy)?;
        waiter.granted = true;
        Ok(turn)
    }

    /// Waits for the turns of all `keys`, each once, in the line of the owner that it has for each.
    ///
    /// Who has one of them waits a tenth of a second for all others, and then begins again with the one
    /// that was not to be had, a little longer each time: a name that somebody keeps busy holds up no other that is named beside
    /// it, and two callers never wait for each other. Cancel safe, and all or nothing.
    pub async fn enter_all(
        &self,
        mut keys: Vec<K>,
        owner: impl Fn(&K) -> Owner,
    ) -> Result<Vec<Turn<K>>, Busy> {
        keys.sort();
        keys.dedup();
        let mut hold = FIRST_HOLD;
        loop {
            match self.try_enter_all(&keys, &owner, hold).await? {
                Ok(turns) => return Ok(turns),
                Err(busy) => keys[..=busy].rotate_right(1),
            }
            hold = (hold * 2).min(LONGEST_HOLD);
        }
    }

    /// The inner error is the place of the key that was waited for too long.
    async fn try_enter_all(
        &self,
        keys: &[K],
        owner: &impl Fn(&K) -> Owner,
        hold: Duration,
    ) -> Result<Result<Vec<Turn<K>>, usize>, Busy> {
        let Some((first, others)) = keys.split_first() else {
            return Ok(Ok(Vec::new()));
        };
        let mut turns = vec![self.enter(first, owner(first)).await?];
        let until = Instant::now() + hold;
        for (before, key) in others.iter().enumerate() {
            match timeout_at(until, self.enter(key, owner(key))).await {
                Ok(turn) => turns.push(turn?),
                Err(_) => return Ok(Err(before + 1)),
            }
        }
        Ok(Ok(turns))
    }

    /// How many keys are in use now.
    pub fn in_use(&self) -> usize {
        self.shared.open.lock().lanes.len()
    }

    /// How many wait for a turn now, over all keys.
    pub fn waiting(&self) -> usize {
        let open = self.shared.open.lock();
        open.lanes.values().map(FairLines::len).sum()
    }

    fn queue(&self, key: &K, owner: Owner) -> Result<Entry<'_, K>, Busy> {
        let mut open = self.shared.open.lock();
        let open = &mut *open;
        let Some(lane) = open.lanes.get_mut(key) else {
            open.lanes.insert(key.clone(), FairLines::default());
            return Ok(Entry::Now(Turn::new(&self.shared, key)));
        };
        if lane.len() >= self.shared.max_waiting {
            let longest = lane.longest_beside(&owner).ok_or(Busy)?.place;
            drop(lane.remove(&longest));
        }
        let number = open.next;
        open.next += 1;
        let place = Place { owner, number };
        let (grant, turn) = oneshot::channel();
        lane.push(place, Waiting { place, grant });
        let waiter = Waiter {
            shared: &self.shared,
            key: key.clone(),
            place,
            granted: false,
        };
        Ok(Entry::Later(waiter, turn))
    }
}

enum Entry<'a, K: Eq + Hash + Clone> {
    Now(Turn<K>),
    Later(Waiter<'a, K>, oneshot::Receiver<Turn<K>>),
}

/// One who waits in a lane, taken out on drop unless the turn came.
struct Waiter<'a, K: Eq + Hash + Clone> {
    shared: &'a Shared<K>,
    key: K,
    place: Place,
    granted: bool,
}

impl<K: Eq + Hash + Clone> Drop for Waiter<'_, K> {
    fn drop(&mut self) {
        if self.granted {
            return;
        }
        // If the turn was granted but not taken yet it lies in the channel, and passes itself on
        // when that is dropped.
        if let Some(lane) = self.shared.open.lock().lanes.get_mut(&self.key) {
            drop(lane.remove(&self.place));
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
        let mut open = self.shared.open.lock();
        let open = &mut *open;
        let number = open.next;
        open.next += 1;
        let next = open.lanes.get_mut(&self.key)?.pop(number);
        if next.is_none() {
            open.lanes.remove(&self.key);
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
