//! One key in one line.

use std::collections::HashSet;

use url::Url;

/// Tried URLs remembered per key and host. A key that has tried so many leaves the line.
const MAX_TRIED: usize = 1_024;

pub(super) struct Entry {
    pub tried: HashSet<Url>,
    pub state: Place,
}

#[derive(Clone, Copy)]
pub(super) enum Place {
    Waiting(u64),
    InProgress {
        /// What follows if the turn ends without saying more.
        then: Then,
    },
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    AsTold,
    /// Enqueued again in the meantime.
    OneMore,
    /// Removed in the meantime.
    Leave,
}

impl Entry {
    pub fn new(number: u64) -> Self {
        Self {
            tried: HashSet::new(),
            state: Place::Waiting(number),
        }
    }

    pub fn merge(&mut self, tried: HashSet<Url>) {
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

    pub fn has_tried_enough(&self) -> bool {
        self.tried.len() >= MAX_TRIED
    }
}
