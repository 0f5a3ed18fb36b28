//! The lines themselves: who waits where, which line may be asked for, which one waits for what.
//!
//! Pure: time is an argument. Every step takes the time of a few map look-ups, whatever the
//! number of keys and lines. Methods that return `bool` say whether a sleeper has to look again.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    hash::Hash,
};

use grip_types::Domain;
use tokio::time::Instant;
use url::Url;

use super::{Full, QueueBounds};

mod entry;
mod listing;

use entry::{Entry, Place, Then};
use listing::State;

pub(super) struct Lines<K> {
    bounds: QueueBounds,
    lines: HashMap<Domain, Line<K>>,
    /// The lines in which a key is.
    places: HashMap<K, Vec<Domain>>,
    /// Lines to ask for, in the order in which they became ready.
    ready: BTreeMap<u64, Domain>,
    /// Lines that are ready again at a moment.
    timers: BTreeMap<(Instant, u64), Domain>,
    /// Keys in all lines.
    total: usize,
    next_number: u64,
    /// The latest ring of the bell that was heard.
    pub heard: u64,
}

struct Line<K> {
    entries: HashMap<K, Entry>,
    /// Keys that are not in progress, by the order in which they came or came back.
    waiting: BTreeMap<u64, K>,
    state: State,
}

impl<K: Clone + Eq + Hash> Lines<K> {
    pub fn new(bounds: QueueBounds) -> Self {
        Self {
            bounds,
            lines: HashMap::new(),
            places: HashMap::new(),
            ready: BTreeMap::new(),
            timers: BTreeMap::new(),
            total: 0,
            next_number: 0,
            heard: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.total
    }

    pub fn waiting(&self, domain: &Domain) -> usize {
        self.lines.get(domain).map_or(0, |line| line.entries.len())
    }

    /// Whether nothing is remembered about anyone.
    #[cfg(test)]
    pub fn is_blank(&self) -> bool {
        self.lines.is_empty()
            && self.places.is_empty()
            && self.ready.is_empty()
            && self.timers.is_empty()
            && self.total == 0
    }

    pub fn enqueue(&mut self, domain: &Domain, key: K, tried: HashSet<Url>) -> Result<bool, Full> {
        let line = self.lines.get_mut(domain);
        if let Some(entry) = line.and_then(|line| line.entries.get_mut(&key)) {
            entry.merge(tried);
            if let Place::InProgress { then } = &mut entry.state {
                *then = Then::OneMore;
            }
            return Ok(false);
        }
        self.check_room(domain)?;
        let number = self.number();
        let line = self.lines.entry(domain.clone()).or_default();
        line.waiting.insert(number, key.clone());
        let mut entry = Entry::new(number);
        entry.merge(tried);
        line.entries.insert(key.clone(), entry);
        self.places.entry(key).or_default().push(domain.clone());
        self.total += 1;
        Ok(self.wake_if_resting(domain))
    }

    fn check_room(&self, domain: &Domain) -> Result<(), Full> {
        let in_line = self.waiting(domain);
        let full = |waiting| {
            let domain = domain.clone();
            Err(Full { domain, waiting })
        };
        if in_line >= self.bounds.per_domain {
            full(in_line)
        } else if self.total >= self.bounds.total {
            full(self.total)
        } else {
            Ok(())
        }
    }

    /// Takes the first in line; none if everyone left meanwhile.
    pub fn granted(&mut self, domain: &Domain) -> Option<(K, HashSet<Url>)> {
        let line = self.lines.get_mut(domain)?;
        let taken = line.waiting.pop_first().and_then(|(_, key)| {
            let entry = line.entries.get_mut(&key)?;
            let then = Then::AsTold;
            entry.state = Place::InProgress { then };
            Some((key, std::mem::take(&mut entry.tried)))
        });
        self.make_ready(domain);
        taken
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
        let Some(line) = self.lines.get_mut(domain) else {
            return false;
        };
        let Some(entry) = line.entries.get_mut(key) else {
            return false;
        };
        let Place::InProgress { then } = entry.state else {
            return false;
        };
        entry.merge(tried);
        let told = leaves || entry.has_tried_enough();
        if then == Then::Leave || (then == Then::AsTold && told) {
            self.leave(domain, key);
            return false;
        }
        entry.state = Place::Waiting(number);
        line.waiting.insert(number, key.clone());
        self.wake_if_resting(domain)
    }

    pub fn remove(&mut self, key: &K) {
        for domain in self.places.get(key).cloned().unwrap_or_default() {
            let line = self.lines.get_mut(&domain);
            let entry = line.and_then(|line| line.entries.get_mut(key));
            match entry.map(|entry| &mut entry.state) {
                Some(Place::InProgress { then }) => *then = Then::Leave,
                Some(Place::Waiting(_)) => self.leave(&domain, key),
                None => {}
            }
        }
    }

    /// Takes a key out of one line, and the line out of the map if it was the last.
    fn leave(&mut self, domain: &Domain, key: &K) {
        let Some(line) = self.lines.get_mut(domain) else {
            return;
        };
        let Some(entry) = line.entries.remove(key) else {
            return;
        };
        self.total -= 1;
        if let Place::Waiting(number) = entry.state {
            line.waiting.remove(&number);
        }
        if line.waiting.is_empty() {
            let is_last = line.entries.is_empty();
            self.rest(domain);
            if is_last {
                self.lines.remove(domain);
            }
        }
        if let Some(domains) = self.places.get_mut(key) {
            domains.retain(|other| other != domain);
            if domains.is_empty() {
                self.places.remove(key);
            }
        }
    }

    /// A number above all earlier ones: it orders whatever waits.
    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }
}

impl<K> Default for Line<K> {
    fn default() -> Self {
        Self {
            entries: HashMap::new(),
            waiting: BTreeMap::new(),
            state: State::Resting,
        }
    }
}
