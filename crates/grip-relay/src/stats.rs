//! Counters of the engine. Plain atomics: reading them disturbs nothing.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The NIP-01 prefixes (with those of NIP-42 and GRASP), as refusals are counted by.
pub const PREFIXES: [&str; 12] = [
    "duplicate",
    "pow",
    "blocked",
    "rate-limited",
    "invalid",
    "restricted",
    "mute",
    "error",
    "auth-required",
    "unsupported",
    "purgatory",
    "closed",
];

/// Types of messages from clients, as they are counted by.
pub const MESSAGE_TYPES: [&str; 9] = [
    "EVENT",
    "REQ",
    "CLOSE",
    "COUNT",
    "NEG-OPEN",
    "NEG-MSG",
    "NEG-CLOSE",
    "AUTH",
    "other",
];

/// Upper ends of the classes that commits are counted in, by events.
pub const COMMIT_CLASSES: [u64; 8] = [1, 4, 16, 64, 256, 1024, 4096, u64::MAX];

/// A number that only grows, or a gauge that is raised and lowered.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    pub(crate) fn add(&self, n: u64) {
        self.0.fetch_add(n, Relaxed);
    }

    pub(crate) fn sub(&self, n: u64) {
        self.0.fetch_sub(n, Relaxed);
    }
}

/// Counters of a relay since it started.
#[derive(Debug, Default)]
pub struct Stats {
    /// Gauge: open connections.
    pub connections: Counter,
    pub connections_total: Counter,
    /// Gauge: open subscriptions.
    pub subscriptions: Counter,
    /// Gauge: open NIP-77 exchanges.
    pub reconciliations: Counter,
    pub events_accepted: Counter,
    /// Live events handed to subscribers.
    pub deliveries: Counter,
    /// Stored events sent as answers to REQs.
    pub stored_sent: Counter,
    pub slow_readers_cut: Counter,
    /// Gauge: requests that wait for the writer or are in its hands.
    pub write_queue: Counter,
    /// Gauge: queries that wait for a reader or are in its hands.
    pub read_queue: Counter,
    /// Gauge: bytes waiting to be sent, over all connections.
    pub outbound_bytes: Counter,
    /// Gauge: of those, bytes for readers that lag; they do not delay the writer.
    pub lagging_bytes: Counter,
    pub commits: Counter,
    pub commits_failed: Counter,
    /// Events of all commits.
    pub committed_events: Counter,
    messages: [Counter; MESSAGE_TYPES.len()],
    refused: [Counter; PREFIXES.len()],
    refused_otherwise: Counter,
    commit_sizes: [Counter; COMMIT_CLASSES.len()],
}

impl Stats {
    /// Messages of clients by type.
    pub fn messages(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let counts = self.messages.iter().map(Counter::get);
        MESSAGE_TYPES.into_iter().zip(counts)
    }

    /// Refused events by the prefix of the answer; `""` where it had none.
    pub fn refused(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        let counts = self.refused.iter().map(Counter::get);
        let rest = std::iter::once(("", self.refused_otherwise.get()));
        PREFIXES.into_iter().zip(counts).chain(rest)
    }

    /// Commits by number of events: upper end of the class, and how many fell into it.
    pub fn commit_sizes(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let counts = self.commit_sizes.iter().map(Counter::get);
        COMMIT_CLASSES.into_iter().zip(counts)
    }

    pub(crate) fn message(&self, label: &str) {
        let known = MESSAGE_TYPES.iter().position(|known| *known == label);
        self.messages[known.unwrap_or(MESSAGE_TYPES.len() - 1)].add(1);
    }

    pub(crate) fn answered(&self, answer: &crate::Answer) {
        if answer.accepted {
            return self.events_accepted.add(1);
        }
        let prefix = answer.prefix();
        let class = prefix.and_then(|prefix| PREFIXES.iter().position(|known| *known == prefix));
        match class {
            Some(class) => self.refused[class].add(1),
            None => self.refused_otherwise.add(1),
        }
    }

    pub(crate) fn committed(&self, events: u64) {
        self.commits.add(1);
        self.committed_events.add(events);
        let class = COMMIT_CLASSES.iter().position(|end| events <= *end);
        self.commit_sizes[class.expect("the last class has no end")].add(1);
    }
}

/// Raises a gauge for as long as it lives.
pub(crate) struct Raised<'a>(&'a Counter);

impl<'a> Raised<'a> {
    pub(crate) fn new(gauge: &'a Counter) -> Self {
        gauge.add(1);
        Self(gauge)
    }
}

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.sub(1);
    }
}
