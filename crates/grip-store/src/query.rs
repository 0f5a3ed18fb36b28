//! Queries: one plan per filter, all merged into one order and worked through in slices.
//!
//! Answers go by position, which is the same in every index. So a query can stop anywhere, let its
//! snapshot go, and go on from the same position in a later one: a long query, or one whose reader
//! is slow, keeps no page of the store from being used again.

mod authors;
mod matches;
mod plan;

use grip_nostr::Filter;
use nostr::prelude::Timestamp;

use crate::{
    Item, ReadView, StoreError, Stored,
    keys::{self, Position},
    lookup::Lookup,
    view::{Transaction as _, stored},
};
use matches::{Found, Matches};
use plan::Plan;

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
    fn of(self, filter: &Filter) -> usize {
        filter
            .limit
            .unwrap_or(self.default_limit)
            .min(self.max_limit)
    }
}

/// Whether a query has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    More,
    Done,
}

/// A query under way: newest first, ties lowest id first, each event once over all filters, at most
/// the limit of each filter, expired ones left out.
pub struct Query {
    parts: Vec<Part>,
    /// Matches that each of them may still have.
    left: Vec<usize>,
    /// Everything newer is decided.
    from: Position,
    is_planned: bool,
    steps: u64,
}

/// A filter, and how its matches are found.
struct Part {
    filter: Filter,
    plan: Plan,
}

/// A match, of which no more than its index entry may have been read.
pub struct Match<'t> {
    found: Found<'t>,
    lookup: Lookup<'t>,
}

impl<'t> Match<'t> {
    pub fn item(&self) -> Item {
        let position = &self.found.position;
        (keys::created_at_of(position), *keys::id_of(position))
    }

    pub fn read(&self) -> Result<Stored<'t>, StoreError> {
        self.found.record(self.lookup).map(stored)
    }
}

impl Query {
    /// The answer to a REQ.
    pub fn new(filters: Vec<Filter>, limits: Limits) -> Self {
        Self::with(filters, |filter| limits.of(filter))
    }

    /// All events that match some filter, as for a COUNT: `limit` plays no part.
    pub fn of_all(filters: Vec<Filter>) -> Self {
        Self::with(filters, |_| usize::MAX)
    }

    /// The events of a set reconciliation (NIP-77). A `limit` keeps the newest.
    pub fn of_set(filter: Filter) -> Self {
        Self::with(vec![filter], |filter| filter.limit.unwrap_or(usize::MAX))
    }

    fn with(filters: Vec<Filter>, limit: impl Fn(&Filter) -> usize) -> Self {
        let asks = |filter: &Filter| limit(filter) > 0 && !filter.matches_nothing();
        let filters = filters.into_iter().filter(asks);
        let (left, parts) = filters
            .map(|filter| {
                let plan = Plan::default();
                (limit(&filter), Part { filter, plan })
            })
            .unzip();
        Self {
            parts,
            left,
            from: [0; keys::POSITION_LEN],
            is_planned: false,
            steps: 0,
        }
    }

    /// Index entries and ids looked at so far: what the query has cost.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Hands the next matches to `each` until about `steps` entries were looked at, or until it
    /// returns false: that match comes again in the next slice.
    ///
    /// Whatever `steps` is, a slice that is not the last brings the query on.
    pub fn run(
        &mut self,
        view: &ReadView<'_>,
        now: Timestamp,
        steps: u64,
        each: &mut dyn FnMut(&Match<'_>) -> Result<bool, StoreError>,
    ) -> Result<Progress, StoreError> {
        let lookup = view.lookup();
        let end = self.steps.saturating_add(steps);
        if self.plan(lookup, end)? == Progress::More {
            return Ok(Progress::More);
        }
        let now = now.as_secs();
        let mut matches = Matches::open(lookup, &self.parts, &self.left, &self.from, now)?;
        // Opening costs a step a cursor, and the next slice pays it again: look at as many at least.
        let opened = matches.cursors();
        let end = end.max(self.steps + 2 * opened);
        self.steps += opened;
        while let Some(position) = matches.next_position() {
            self.from = position;
            if self.steps >= end {
                return Ok(Progress::More);
            }
            let (looked_at, found) = matches.decide(&position)?;
            self.steps += looked_at;
            if let Some((found, scans)) = found {
                if !each(&Match { found, lookup })? {
                    return Ok(Progress::More);
                }
                for scan in scans {
                    self.left[scan] -= 1;
                    if self.left[scan] == 0 {
                        matches.end(scan);
                    }
                }
            }
        }
        self.left.fill(0);
        Ok(Progress::Done)
    }

    /// Chooses indexes and looks ids up, once for all slices.
    fn plan(&mut self, lookup: Lookup<'_>, end: u64) -> Result<Progress, StoreError> {
        if !self.is_planned {
            let mut cursors_left = MAX_CURSORS;
            for part in &mut self.parts {
                let (plan, cost) = Plan::of(&part.filter, lookup, cursors_left)?;
                cursors_left -= plan.cursors().max(cost.hops).min(cursors_left);
                self.steps += cost.steps;
                part.plan = plan;
            }
            self.is_planned = true;
        }
        for part in &mut self.parts {
            let (looked_up, progress) =
                part.plan
                    .resolve_ids(&part.filter, lookup, self.steps, end)?;
            self.steps += looked_up;
            if progress == Progress::More {
                return Ok(Progress::More);
            }
        }
        Ok(Progress::Done)
    }
}
