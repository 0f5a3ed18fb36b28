//! The queues of all hosts: their keys, and which queue may ask for a permit, or waits for what.
//!
//! Pure: time is an argument. Every step takes the time of a few map look-ups, whatever the number
//! of keys and queues. Methods that return `bool` say whether a waiting caller has to look again.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    hash::Hash,
};

use grip_types::{Domain, FairLines, Owner, Place};
use tokio::time::Instant;
use url::Url;

use super::{Full, QueueBounds};
use crate::notifier::Since;

/// Tried URLs remembered per key and host. A key that has tried so many leaves the queue.
const MAX_TRIED: usize = 1_024;
/// One owner has at most this part of all places.
const PER_OWNER: usize = 16;
/// This part of all places is for owners who are served.
const RESERVED: usize = 4;

pub(super) struct QueueTable<K> {
    bounds: QueueBounds,
    queues: HashMap<Domain, HostQueue<K>>,
    /// The hosts in whose queues a key is.
    hosts_of: HashMap<K, Vec<Domain>>,
    /// Queues that may ask for a permit, in the order in which they became ready.
    ready: BTreeMap<u64, Domain>,
    /// Queues that are ready again at a moment.
    timers: BTreeMap<(Instant, u64), Domain>,
    /// Keys in all queues, and of each owner.
    total: usize,
    totals: HashMap<Owner, usize>,
    next_number: u64,
    /// The number of the latest notice that was applied.
    pub latest_notice: u64,
}

struct HostQueue<K> {
    entries: HashMap<K, Entry>,
    /// Keys that are not in progress.
    waiting: FairLines<K>,
    state: QueueState,
}

/// Whether a queue may ask for a permit. Each variant knows where it is listed.
#[derive(Clone, Copy, PartialEq)]
enum QueueState {
    /// No key waits in it.
    Idle,
    Ready(u64),
    /// A caller asks for a permit; `notified`: there was a notice of the host meanwhile, so a
    /// refusal may be out of date.
    Requesting {
        notified: bool,
    },
    /// Refused: until a notice of its host, or until the moment.
    Blocked(Option<(Instant, u64)>),
}

/// One key in one queue.
struct Entry {
    tried: HashSet<Url>,
    owner: Owner,
    state: EntryState,
}

#[derive(Clone, Copy)]
enum EntryState {
    /// The number of its place.
    Waiting(u64),
    InProgress(AfterTurn),
}

/// What follows the turn of a key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AfterTurn {
    /// As the turn says.
    Unchanged,
    /// One more turn: it was enqueued again in the meantime.
    Requeue,
    /// It was removed in the meantime.
    Leave,
}

impl<K: Clone + Eq + Hash> QueueTable<K> {
    pub fn new(bounds: QueueBounds) -> Self {
        Self {
            bounds,
            queues: HashMap::new(),
            hosts_of: HashMap::new(),
            ready: BTreeMap::new(),
            timers: BTreeMap::new(),
            total: 0,
            totals: HashMap::new(),
            next_number: 0,
            latest_notice: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.total
    }

    pub fn waiting(&self, domain: &Domain) -> usize {
        let queue = self.queues.get(domain);
        queue.map_or(0, |queue| queue.entries.len())
    }

    /// Whether nothing is remembered about any key.
    #[cfg(test)]
    pub fn is_blank(&self) -> bool {
        self.queues.is_empty()
            && self.hosts_of.is_empty()
            && self.ready.is_empty()
            && self.timers.is_empty()
            && self.total == 0
            && self.totals.is_empty()
    }

    /// Puts a key into a queue, in the line of the best of its `owners`.
    pub fn enqueue(
        &mut self,
        domain: &Domain,
        key: K,
        owners: &[Owner],
        tried: HashSet<Url>,
    ) -> Result<bool, Full> {
        let queue = self.queues.get(domain);
        let owner = queue.map_or_else(
            || FairLines::<K>::default().choose(owners),
            |queue| queue.waiting.choose(owners),
        );
        if let Some(entry) = self.entry(domain, &key) {
            entry.merge(tried);
            if let EntryState::InProgress(after) = &mut entry.state {
                *after = AfterTurn::Requeue;
            }
            self.transfer(domain, &key, owner);
            return Ok(false);
        }
        self.find_room(domain, &owner)?;
        let number = self.number();
        let queue = self.queues.entry(domain.clone()).or_default();
        queue.waiting.push(Place { owner, number }, key.clone());
        let mut entry = Entry {
            tried: HashSet::new(),
            owner,
            state: EntryState::Waiting(number),
        };
        entry.merge(tried);
        queue.entries.insert(key.clone(), entry);
        self.hosts_of.entry(key).or_default().push(domain.clone());
        self.total += 1;
        *self.totals.entry(owner).or_default() += 1;
        Ok(self.wake_if_idle(domain))
    }

    /// Has a key stand in the line of an owner who is served, if it was another's before.
    fn transfer(&mut self, domain: &Domain, key: &K, owner: Owner) {
        let number = self.number();
        let Some(queue) = self.queues.get_mut(domain) else {
            return;
        };
        let Some(entry) = queue.entries.get_mut(key) else {
            return;
        };
        if entry.owner.is_served || !owner.is_served {
            return;
        }
        let former = std::mem::replace(&mut entry.owner, owner);
        if let EntryState::Waiting(at) = entry.state {
            let place = Place {
                owner: former,
                number: at,
            };
            if let Some(key) = queue.waiting.remove(&place) {
                queue.waiting.push(Place { owner, number }, key);
                entry.state = EntryState::Waiting(number);
            }
        }
        *self.totals.entry(owner).or_default() += 1;
        self.count_out(&former);
    }

    /// Sees that one more key of `owner` fits. At the bound of a queue the longest line in it gives
    /// one up; of all places one owner has a part, and those who are not served leave some free.
    fn find_room(&mut self, domain: &Domain, owner: &Owner) -> Result<(), Full> {
        let in_queue = self.waiting(domain);
        let full = |waiting| Full {
            domain: domain.clone(),
            waiting,
        };
        let total = self.bounds.total;
        let of_owner = self.totals.get(owner).copied().unwrap_or(0);
        let most = if owner.is_served {
            total
        } else {
            total - total / RESERVED
        };
        if self.total >= most || of_owner >= (total / PER_OWNER).max(1) {
            return Err(full(self.total));
        }
        if in_queue < self.bounds.per_domain {
            return Ok(());
        }
        let queue = self.queues.get(domain);
        let newest = queue.and_then(|queue| queue.waiting.longest_beside(owner));
        let newest = newest.cloned().ok_or_else(|| full(in_queue))?;
        self.leave(domain, &newest);
        Ok(())
    }

    fn count_out(&mut self, owner: &Owner) {
        if let Some(count) = self.totals.get_mut(owner) {
            *count -= 1;
            if *count == 0 {
                self.totals.remove(owner);
            }
        }
    }

    /// The queue that asks for a permit next; it stays out of the way of others until its response.
    pub fn begin_request(&mut self, now: Instant) -> Option<Domain> {
        while self.first_timer().is_some_and(|at| at <= now) {
            let (_, domain) = self.timers.pop_first()?;
            self.make_ready(&domain);
        }
        let (_, domain) = self.ready.pop_first()?;
        if let Some(queue) = self.queues.get_mut(&domain) {
            queue.state = QueueState::Requesting { notified: false };
        }
        Some(domain)
    }

    /// Takes the first key of a queue that got a permit; none if all left meanwhile.
    pub fn granted(&mut self, domain: &Domain) -> Option<(K, HashSet<Url>)> {
        let number = self.number();
        let queue = self.queues.get_mut(domain)?;
        let taken = queue.waiting.pop(number).and_then(|key| {
            let entry = queue.entries.get_mut(&key)?;
            entry.state = EntryState::InProgress(AfterTurn::Unchanged);
            Some((key, std::mem::take(&mut entry.tried)))
        });
        self.make_ready(domain);
        taken
    }

    /// Blocks a queue that got no permit until a notice of its host or the moment.
    pub fn refused(&mut self, domain: &Domain, retry_at: Option<Instant>) -> bool {
        match self.state(domain) {
            Some(QueueState::Requesting { notified: true }) => self.make_ready(domain),
            Some(QueueState::Requesting { notified: false }) => {
                let first = self.first_timer();
                let timer = retry_at.map(|at| (at, self.number()));
                self.set_state(domain, QueueState::Blocked(timer));
                return self.first_timer() != first;
            }
            // The queue is another one by now.
            _ => {}
        }
        true
    }

    /// Makes a queue ready whose caller no longer waits for the response.
    pub fn cancel_request(&mut self, domain: &Domain) {
        if let Some(QueueState::Requesting { .. }) = self.state(domain) {
            self.make_ready(domain);
        }
    }

    /// Takes a key back from its turn.
    pub fn turn_ends(
        &mut self,
        domain: &Domain,
        key: &K,
        tried: HashSet<Url>,
        leaves: bool,
    ) -> bool {
        let number = self.number();
        let Some(entry) = self.entry(domain, key) else {
            return false;
        };
        let EntryState::InProgress(after) = entry.state else {
            return false;
        };
        entry.merge(tried);
        let leaves = leaves || entry.tried.len() >= MAX_TRIED;
        if after == AfterTurn::Leave || (after == AfterTurn::Unchanged && leaves) {
            self.leave(domain, key);
            return false;
        }
        entry.state = EntryState::Waiting(number);
        let owner = entry.owner;
        if let Some(queue) = self.queues.get_mut(domain) {
            queue.waiting.push(Place { owner, number }, key.clone());
        }
        self.wake_if_idle(domain)
    }

    pub fn remove(&mut self, key: &K) {
        for domain in self.hosts_of.get(key).cloned().unwrap_or_default() {
            match self.entry(&domain, key).map(|entry| &mut entry.state) {
                Some(EntryState::InProgress(after)) => *after = AfterTurn::Leave,
                Some(EntryState::Waiting(_)) => self.leave(&domain, key),
                None => {}
            }
        }
    }

    /// Takes a key out of one queue, and the queue out of the map if it was the last.
    fn leave(&mut self, domain: &Domain, key: &K) {
        let Some(queue) = self.queues.get_mut(domain) else {
            return;
        };
        let Some(entry) = queue.entries.remove(key) else {
            return;
        };
        self.total -= 1;
        let owner = entry.owner;
        if let EntryState::Waiting(number) = entry.state {
            queue.waiting.remove(&Place { owner, number });
        }
        if queue.waiting.is_empty() {
            let is_last = queue.entries.is_empty();
            // One that asks for a permit stays as it is: the response is still to come.
            if let QueueState::Ready(_) | QueueState::Blocked(_) = queue.state {
                self.set_state(domain, QueueState::Idle);
            }
            if is_last {
                self.queues.remove(domain);
            }
        }
        self.count_out(&owner);
        if let Some(domains) = self.hosts_of.get_mut(key) {
            domains.retain(|other| other != domain);
            if domains.is_empty() {
                self.hosts_of.remove(key);
            }
        }
    }

    /// The moment at which the next blocked queue is ready again.
    pub fn first_timer(&self) -> Option<Instant> {
        let ((at, _), _) = self.timers.first_key_value()?;
        Some(*at)
    }

    /// Lets the queues of hosts that there were notices of ask again.
    pub fn apply_notices(&mut self, since: &Since) {
        match since {
            Since::Hosts(domains) => domains.iter().for_each(|domain| self.notified(domain)),
            Since::Missed => {
                let all: Vec<_> = self.queues.keys().cloned().collect();
                all.iter().for_each(|domain| self.notified(domain));
            }
        }
    }

    fn notified(&mut self, domain: &Domain) {
        let Some(queue) = self.queues.get_mut(domain) else {
            return;
        };
        match &mut queue.state {
            QueueState::Requesting { notified } => *notified = true,
            QueueState::Blocked(_) => self.make_ready(domain),
            QueueState::Idle | QueueState::Ready(_) => {}
        }
    }

    fn wake_if_idle(&mut self, domain: &Domain) -> bool {
        let is_idle = self.state(domain) == Some(QueueState::Idle);
        if is_idle {
            self.make_ready(domain);
        }
        is_idle
    }

    /// Lists a queue as ready, or as idle if no key waits in it.
    fn make_ready(&mut self, domain: &Domain) {
        let number = self.number();
        let Some(queue) = self.queues.get(domain) else {
            return;
        };
        let state = if queue.waiting.is_empty() {
            QueueState::Idle
        } else {
            QueueState::Ready(number)
        };
        self.set_state(domain, state);
    }

    /// Changes the state of a queue and the list it is in.
    fn set_state(&mut self, domain: &Domain, state: QueueState) {
        let Some(queue) = self.queues.get_mut(domain) else {
            return;
        };
        match std::mem::replace(&mut queue.state, state) {
            QueueState::Ready(number) => drop(self.ready.remove(&number)),
            QueueState::Blocked(Some(timer)) => drop(self.timers.remove(&timer)),
            _ => {}
        }
        match state {
            QueueState::Ready(number) => drop(self.ready.insert(number, domain.clone())),
            QueueState::Blocked(Some(timer)) => drop(self.timers.insert(timer, domain.clone())),
            _ => {}
        }
    }

    fn state(&self, domain: &Domain) -> Option<QueueState> {
        self.queues.get(domain).map(|queue| queue.state)
    }

    fn entry(&mut self, domain: &Domain, key: &K) -> Option<&mut Entry> {
        self.queues.get_mut(domain)?.entries.get_mut(key)
    }

    /// A number above all earlier ones: it orders all that waits.
    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }
}

impl Entry {
    fn merge(&mut self, tried: HashSet<Url>) {
        if self.tried.is_empty() && tried.len() <= MAX_TRIED {
            self.tried = tried;
            return;
        }
        for url in tried {
            if self.tried.len() >= MAX_TRIED {
                return;
            }
            self.tried.insert(url);
        }
    }
}

impl<K> Default for HostQueue<K> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            waiting: FairLines::default(),
            state: QueueState::Idle,
        }
    }
}
