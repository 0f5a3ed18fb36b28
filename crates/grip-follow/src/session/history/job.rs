//! Pieces of history that are asked for one after the other.

use std::sync::Arc;

use grip_nostr::Filter;

use super::{super::live::Wanted, Item};
use crate::plan::{self, Class};

/// Ids of one fetch (G02-24).
pub(super) const MAX_IDS: usize = 300;

/// One filter's history, or a part of it. Its filter is made when it is asked for: many wait for their
/// turn, and as text values are many times as long.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) class: Class,
    /// Those that are asked for, of a history or a poll.
    pub(super) values: Arc<[Arc<str>]>,
    pub(super) since: Option<u64>,
    pub(super) work: Work,
}

#[derive(Debug)]
pub(super) enum Work {
    History {
        /// The next page ends here.
        until: Option<u64>,
        pages: u32,
        may_reconcile: bool,
    },
    Poll {
        until: Option<u64>,
        pages: u32,
        began: u64,
    },
    /// Single events that the relay said it has.
    Fetch {
        left: Vec<[u8; 32]>,
        /// What the ids were found for; none for those that are asked for again.
        origin: Option<Box<Job>>,
        attempt: u32,
    },
    /// Whether the relay has events that are here.
    Check { items: Vec<Item> },
    /// All that the relay has, compared at once.
    Everything,
}

impl Job {
    fn new(class: Class, work: Work) -> Self {
        Self {
            class,
            values: Arc::default(),
            since: None,
            work,
        }
    }

    /// The history of `values`, in as many filters as it takes.
    pub(super) fn of_values(class: Class, values: &[Arc<str>], since: Option<u64>) -> Vec<Self> {
        let parts = class.chunks(values);
        let job = |part: &[Arc<str>]| {
            let work = Work::History {
                until: None,
                pages: 0,
                may_reconcile: true,
            };
            Self {
                values: part.into(),
                since,
                ..Self::new(class, work)
            }
        };
        parts.into_iter().map(job).collect()
    }

    /// Says whether all of a history is asked for, and nothing of it has come.
    pub(super) fn is_untouched(&self) -> bool {
        self.since.is_none() && self.may_reconcile()
    }

    pub(super) fn poll(wanted: &Wanted, since: u64, began: u64) -> Self {
        let work = Work::Poll {
            until: None,
            pages: 0,
            began,
        };
        Self {
            values: Arc::clone(&wanted.values),
            since: Some(since),
            ..Self::new(wanted.class, work)
        }
    }

    pub(super) fn fetch(ids: Vec<[u8; 32]>, origin: Self) -> Self {
        Self::fetch_more(ids, Some(Box::new(origin)), 0)
    }

    pub(super) fn fetch_more(ids: Vec<[u8; 32]>, origin: Option<Box<Self>>, attempt: u32) -> Self {
        let class = origin
            .as_ref()
            .map_or(Class::Announcements, |job| job.class);
        let work = Work::Fetch {
            left: ids,
            origin,
            attempt,
        };
        Self::new(class, work)
    }

    pub(super) fn everything() -> Self {
        Self::new(Class::Everything, Work::Everything)
    }

    /// Asks whether the relay has these.
    pub(super) fn check(items: Vec<Item>) -> Self {
        Self::new(Class::States, Work::Check { items })
    }

    /// What is asked for, on all of its pages.
    pub(super) fn filter(&self) -> Filter {
        match &self.work {
            Work::History { .. } | Work::Poll { .. } => Filter {
                since: self.since,
                ..self.class.filter(self.values.iter())
            },
            Work::Check { items } => Filter {
                ids: Some(items.iter().map(|(_, id)| *id).collect()),
                ..Filter::default()
            },
            Work::Fetch { .. } | Work::Everything => Filter::default(),
        }
    }

    /// Of the filter, under which its cursor is kept.
    pub(super) fn digest(&self) -> String {
        plan::digest(&self.filter())
    }

    /// Asks again for events that did not come.
    pub(super) fn missing((ids, attempt): (Vec<[u8; 32]>, u32)) -> Self {
        Self::fetch_more(ids, None, attempt)
    }

    pub(super) fn may_reconcile(&self) -> bool {
        matches!(
            self.work,
            Work::History {
                may_reconcile: true,
                until: None,
                ..
            }
        )
    }

    pub(super) fn without_nip77(mut self) -> Self {
        if let Work::History { may_reconcile, .. } = &mut self.work {
            *may_reconcile = false;
        }
        self
    }

    /// Goes on with the page that ends at `until`; returns how many there were.
    pub(super) fn next_page(&mut self, next: Option<u64>) -> u32 {
        match &mut self.work {
            Work::History { until, pages, .. } | Work::Poll { until, pages, .. } => {
                *until = next;
                *pages += 1;
                *pages
            }
            Work::Fetch { .. } | Work::Check { .. } | Work::Everything => 0,
        }
    }

    /// Says whether it is a part of reading the history, which is whole without the others.
    pub(super) fn is_history(&self) -> bool {
        matches!(
            self.work,
            Work::History { .. } | Work::Fetch { .. } | Work::Everything
        )
    }

    pub(super) fn is_everything(&self) -> bool {
        matches!(self.work, Work::Everything)
    }

    pub(super) fn is_check(&self) -> bool {
        matches!(self.work, Work::Check { .. })
    }

    pub(super) fn is_poll_of(&self, wanted: &Wanted) -> bool {
        self.class == wanted.class && self.values == wanted.values
    }
}
