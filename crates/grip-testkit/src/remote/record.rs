//! Record of a host: every request, and how many there were at that moment.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use hyper::HeaderMap;
use tokio::time::Instant;

/// One request as it arrived.
#[derive(Clone, Debug)]
pub struct Seen {
    pub at: Instant,
    pub method: String,
    /// The path below the host, without the slash, up to where git's own part begins.
    pub repository: String,
    /// Git's own part: `info/refs` or `git-upload-pack`.
    pub action: String,
    pub headers: HeaderMap,
    /// `fetch` or `ls-refs`, of a protocol v2 body.
    pub command: Option<String>,
    /// The objects that were asked for.
    pub wants: Vec<String>,
    /// Requests under way on the host when this one came, itself included.
    pub in_flight: usize,
}

#[derive(Debug, Default)]
pub(super) struct Record {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    seen: Vec<Seen>,
    in_flight: usize,
    /// How many requests were forgotten, so that those under way still find their place.
    forgotten: usize,
}

impl Record {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a request; it is in flight until the returned value is dropped.
    pub(super) fn arrived(self: &Arc<Self>, mut seen: Seen) -> UnderWay {
        let mut inner = self.lock();
        inner.in_flight += 1;
        seen.in_flight = inner.in_flight;
        inner.seen.push(seen);
        UnderWay {
            place: inner.forgotten + inner.seen.len() - 1,
            record: Arc::clone(self),
        }
    }

    pub(super) fn all(&self) -> Vec<Seen> {
        self.lock().seen.clone()
    }

    pub(super) fn count(&self) -> usize {
        self.lock().seen.len()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.lock().in_flight
    }

    pub(super) fn clear(&self) {
        let mut inner = self.lock();
        inner.forgotten += inner.seen.len();
        inner.seen.clear();
    }
}

/// A request whose answer has not ended.
#[derive(Debug)]
pub(super) struct UnderWay {
    record: Arc<Record>,
    place: usize,
}

impl UnderWay {
    /// Adds what the body of the request says.
    pub(super) fn says(&self, command: Option<String>, wants: Vec<String>) {
        let mut inner = self.record.lock();
        let place = self.place.checked_sub(inner.forgotten);
        if let Some(seen) = place.and_then(|place| inner.seen.get_mut(place)) {
            seen.command = command;
            seen.wants = wants;
        }
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.record.lock().in_flight -= 1;
    }
}

/// The most of `times`, which are in order, that lie within any span of this length.
pub(super) fn most_within(times: &[Instant], window: Duration) -> usize {
    let from = |(first, start): (usize, &Instant)| {
        let rest = times[first..].iter();
        rest.take_while(|at| **at < *start + window).count()
    };
    times.iter().enumerate().map(from).max().unwrap_or_default()
}
