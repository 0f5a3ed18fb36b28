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
use crate::ledger::Since;

/// Tried URLs remembered per key and host. A key that has tried so many leaves the line.
const MAX_TRIED: usize = 1_024;

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

struct Entry {
    tried: HashSet<Url>,
    state: Place,
}

#[derive(Clone, Copy)]
enum Place {
    Waiting(u64),
    InProgress {
        /// What follows if the turn ends without saying more.
        then: Then,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    AsTold,
    /// Enqueued again in the meantime.
    OneMore,
    /// Removed in the meantime.
    Leave,
}

/// Whether a line can be asked for. Each variant knows where it is listed.
#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Nobody waits in it.
    Resting,
    Ready(u64),
    /// Someone asks for it; `rung`: its host rang meanwhile, so a refusal may be out of date.
    Asking {
        rung: bool,
    },
    /// Refused: until its host rings or the moment comes.
    Blocked(Option<(Instant, u64)>),
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

    /// The moment at which the next blocked line is ready again.
    pub fn first_timer(&self) -> Option<Instant> {
        let ((at, _), _) = self.timers.first_key_value()?;
        Some(*at)
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

    /// Takes note of the hosts that rang.
    pub fn hear(&mut self, since: &Since) {
        match since {
            Since::Rang(domains) => domains.iter().for_each(|domain| self.rang(domain)),
            Since::Missed => {
                let all: Vec<_> = self.lines.keys().cloned().collect();
                all.iter().for_each(|domain| self.rang(domain));
            }
        }
    }

    fn rang(&mut self, domain: &Domain) {
        let Some(line) = self.lines.get_mut(domain) else {
            return;
        };
        match &mut line.state {
            State::Asking { rung } => *rung = true,
            State::Blocked(_) => self.make_ready(domain),
            State::Resting | State::Ready(_) => {}
        }
    }

    /// The line to ask for next; it stays out of the way of others until its answer is told.
    pub fn begin_ask(&mut self, now: Instant) -> Option<Domain> {
        while self.first_timer().is_some_and(|at| at <= now) {
            let (_, domain) = self.timers.pop_first()?;
            self.make_ready(&domain);
        }
        let (_, domain) = self.ready.pop_first()?;
        if let Some(line) = self.lines.get_mut(&domain) {
            line.state = State::Asking { rung: false };
        }
        Some(domain)
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

    /// Blocks the line until its host rings or the moment comes.
    pub fn refused(&mut self, domain: &Domain, retry_at: Option<Instant>) -> bool {
        match self.lines.get(domain).map(|line| line.state) {
            Some(State::Asking { rung: true }) => self.make_ready(domain),
            Some(State::Asking { rung: false }) => {
                let first = self.first_timer();
                let timer = retry_at.map(|at| (at, self.number()));
                self.set_state(domain, State::Blocked(timer));
                return self.first_timer() != first;
            }
            // The line is another one by now.
            _ => {}
        }
        true
    }

    /// Nobody waits for the answer any more.
    pub fn asked_in_vain(&mut self, domain: &Domain) -> bool {
        let state = self.lines.get(domain).map(|line| line.state);
        if matches!(state, Some(State::Asking { .. })) {
            self.make_ready(domain);
        }
        true
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
        let told = leaves || entry.tried.len() >= MAX_TRIED;
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

    /// Lets an empty line rest, unless it is being asked for: the answer is still to come.
    fn rest(&mut self, domain: &Domain) {
        let state = self.lines.get(domain).map(|line| line.state);
        if let Some(State::Ready(_) | State::Blocked(_)) = state {
            self.set_state(domain, State::Resting);
        }
    }

    fn wake_if_resting(&mut self, domain: &Domain) -> bool {
        let state = self.lines.get(domain).map(|line| line.state);
        let rests = state == Some(State::Resting);
        if rests {
            self.make_ready(domain);
        }
        rests
    }

    /// Lists a line as ready, or lets it rest if nobody waits in it.
    fn make_ready(&mut self, domain: &Domain) {
        let number = self.number();
        let Some(line) = self.lines.get(domain) else {
            return;
        };
        let state = match line.waiting.is_empty() {
            true => State::Resting,
            false => State::Ready(number),
        };
        self.set_state(domain, state);
    }

    /// Changes the state of a line and the list it is in.
    fn set_state(&mut self, domain: &Domain, state: State) {
        let Some(line) = self.lines.get_mut(domain) else {
            return;
        };
        match std::mem::replace(&mut line.state, state) {
            State::Ready(number) => drop(self.ready.remove(&number)),
            State::Blocked(Some(timer)) => drop(self.timers.remove(&timer)),
            State::Blocked(None) | State::Resting | State::Asking { .. } => {}
        }
        match state {
            State::Ready(number) => drop(self.ready.insert(number, domain.clone())),
            State::Blocked(Some(timer)) => drop(self.timers.insert(timer, domain.clone())),
            State::Blocked(None) | State::Resting | State::Asking { .. } => {}
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

impl Entry {
    fn new(number: u64) -> Self {
        Self {
            tried: HashSet::new(),
            state: Place::Waiting(number),
        }
    }

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
