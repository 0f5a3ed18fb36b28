//! Queries: one plan per filter, each a merge of index scans, and a merge of those.

mod authors;
mod plan;
mod scan;

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, binary_heap::PeekMut},
};

use grip_nostr::Filter;
use nostr::prelude::Timestamp;

use crate::{StoreError, keys::Position, lookup::Lookup};
use plan::Plan;
use scan::{Found, Scan};

/// Most cursors one query may hold open over all its filters. A filter with more values than are
/// left scans all events of its time range instead, and checks them one by one.
const MAX_CURSORS: usize = 4_096;

/// How many stored events a filter may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// For a filter that names no limit.
    pub default_limit: usize,
    /// For one that names a larger limit.
    pub max_limit: usize,
}

impl Limits {
    pub(crate) fn of(self, filter: &Filter) -> usize {
        filter
            .limit
            .unwrap_or(self.default_limit)
            .min(self.max_limit)
    }
}

/// The matches of several filters in one order, each once.
pub(crate) struct Matches<'t, 'f> {
    scans: Vec<Scan<'t, 'f>>,
    /// The next match of every scan that has one.
    next: BinaryHeap<Reverse<Next<'t>>>,
    last: Option<&'t Position>,
}

struct Next<'t> {
    found: Found<'t>,
    scan: usize,
}

impl<'t, 'f> Matches<'t, 'f> {
    pub(crate) fn open(
        lookup: Lookup<'t>,
        filters: &'f [Filter],
        limit: impl Fn(&Filter) -> usize,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let mut cursors_left = MAX_CURSORS;
        let mut scans = Vec::new();
        let mut next = BinaryHeap::new();
        for filter in filters {
            let limit = limit(filter);
            if limit == 0 || filter.matches_nothing() {
                continue;
            }
            let plan = Plan::of(filter, lookup, cursors_left)?;
            cursors_left -= plan.cursors().min(cursors_left);
            let mut scan = Scan::open(lookup, plan, limit, now.as_secs())?;
            if let Some(found) = scan.next()? {
                let scan = scans.len();
                next.push(Reverse(Next { found, scan }));
            }
            scans.push(scan);
        }
        Ok(Self {
            scans,
            next,
            last: None,
        })
    }

    pub(crate) fn next(&mut self) -> Result<Option<Found<'t>>, StoreError> {
        while let Some(mut top) = self.next.peek_mut() {
            let found = top.0.found;
            match self.scans[top.0.scan].next()? {
                Some(following) => top.0.found = following,
                None => {
                    PeekMut::pop(top);
                }
            }
            if self.last.replace(found.position()) != Some(found.position()) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }
}

impl Ord for Next<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.found.position().cmp(other.found.position())
    }
}

impl PartialOrd for Next<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Next<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Next<'_> {}
