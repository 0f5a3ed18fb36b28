//! Notices of hosts that are worth asking again.

use std::collections::{HashSet, VecDeque};

use grip_types::Domain;
use parking_lot::Mutex;
use tokio::sync::watch;

/// Tells queues which hosts may be asked sooner than thought.
///
/// Bounded: remembers the newest [`Notifier::MEMORY`] notices. A listener that comes later than
/// that learns that it missed some and asks all of its hosts.
#[derive(Debug)]
pub(crate) struct Notifier {
    /// Number of notices so far.
    count: watch::Sender<u64>,
    notices: Mutex<Notices>,
}

#[derive(Debug, Default)]
struct Notices {
    total: u64,
    newest: VecDeque<Domain>,
}

/// The hosts that were noticed since a listener last looked.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Since {
    Hosts(HashSet<Domain>),
    /// More than the notifier remembers: any host may be among them.
    Missed,
}

impl Default for Notifier {
    fn default() -> Self {
        Self {
            count: watch::Sender::new(0),
            notices: Mutex::default(),
        }
    }
}

impl Notifier {
    const MEMORY: usize = 256;

    /// Notices that a request to `domain` may go sooner than thought.
    pub fn notify(&self, domain: &Domain) {
        let mut notices = self.notices.lock();
        notices.total += 1;
        if notices.newest.len() == Self::MEMORY {
            notices.newest.pop_front();
        }
        notices.newest.push_back(domain.clone());
        let total = notices.total;
        // Still locked, so that the count never goes back.
        self.count.send_replace(total);
    }

    /// Notices that any host may go, for example after the backend changed.
    pub fn notify_all(&self) {
        let mut notices = self.notices.lock();
        notices.total += Self::MEMORY as u64 + 1;
        notices.newest.clear();
        self.count.send_replace(notices.total);
    }

    /// Changes with every notice.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.count.subscribe()
    }

    /// The hosts noticed after notice number `seen`, and the number of the latest notice.
    pub fn since(&self, seen: u64) -> (Since, u64) {
        let notices = self.notices.lock();
        let missing = usize::try_from(notices.total.saturating_sub(seen)).unwrap_or(usize::MAX);
        if missing > notices.newest.len() {
            return (Since::Missed, notices.total);
        }
        let skip = notices.newest.len() - missing;
        let hosts = notices.newest.iter().skip(skip).cloned().collect();
        (Since::Hosts(hosts), notices.total)
    }
}

#[cfg(test)]
mod tests;
