//! Index scans for one filter: cursors merged by position.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, binary_heap::PeekMut},
    ops::Bound,
};

use heed::{RoRange, types::Bytes};

use super::plan::{Access, Checks, Plan};
use crate::{
    StoreError,
    keys::{self, Entry, POSITION_LEN, Position, Serial},
    lookup::Lookup,
    record::Record,
    tables::Table,
};

/// A match, with its record if that was needed to decide.
#[derive(Clone, Copy)]
pub(crate) struct Found<'t> {
    position: &'t Position,
    serial: Serial,
    record: Option<Record<'t>>,
}

impl<'t> Found<'t> {
    pub(crate) fn position(&self) -> &'t Position {
        self.position
    }

    pub(crate) fn record(&self, lookup: Lookup<'t>) -> Result<Record<'t>, StoreError> {
        match self.record {
            Some(record) => Ok(record),
            None => lookup.record(&self.serial),
        }
    }
}

/// Scans the matches of one filter, newest first, up to its limit.
pub(crate) struct Scan<'t, 'f> {
    lookup: Lookup<'t>,
    checks: Checks<'f>,
    cursors: Vec<RoRange<'t, Bytes, Bytes>>,
    /// The candidate under each cursor that has one.
    candidates: BinaryHeap<Reverse<Candidate<'t>>>,
    last: Option<&'t Position>,
    left: usize,
    now: u64,
}

#[derive(Clone, Copy)]
struct Candidate<'t> {
    position: &'t Position,
    entry: Entry,
    record: Option<Record<'t>>,
    /// Where the next one comes from; `None` for events named by id.
    cursor: Option<usize>,
}

impl<'t, 'f> Scan<'t, 'f> {
    pub(crate) fn open(
        lookup: Lookup<'t>,
        plan: Plan<'f>,
        limit: usize,
        now: u64,
    ) -> Result<Self, StoreError> {
        let mut scan = Self {
            lookup,
            cursors: Vec::with_capacity(plan.cursors()),
            candidates: BinaryHeap::with_capacity(plan.cursors()),
            last: None,
            left: limit,
            now,
            checks: plan.checks,
        };
        match plan.access {
            Access::Ids(ids) => scan.add_ids(ids, plan.since, plan.until)?,
            Access::Ranges { table, prefixes } => {
                for prefix in prefixes {
                    scan.add_range(table, &prefix, plan.since, plan.until)?;
                }
            }
        }
        Ok(scan)
    }

    fn add_ids(&mut self, ids: &[[u8; 32]], since: u64, until: u64) -> Result<(), StoreError> {
        for id in ids {
            let Some(serial) = self.lookup.serial_of(id)? else {
                continue;
            };
            let record = self.lookup.record(&serial)?;
            if (since..=until).contains(&record.created_at()) {
                self.candidates.push(Reverse(Candidate {
                    position: record.position(),
                    entry: Entry {
                        serial,
                        kind: record.kind(),
                        expiration: record.expiration(),
                    },
                    record: Some(record),
                    cursor: None,
                }));
            }
        }
        Ok(())
    }

    fn add_range(
        &mut self,
        table: Table,
        prefix: &[u8],
        since: u64,
        until: u64,
    ) -> Result<(), StoreError> {
        // Time is inverted, so the latest comes first.
        let first = [prefix, &keys::position(until, &[0; 32])].concat();
        let last = [prefix, &keys::position(since, &[0xff; 32])].concat();
        let range = (Bound::Included(&first[..]), Bound::Included(&last[..]));
        let mut cursor = table.range(self.lookup.txn, &range)?;
        let number = self.cursors.len();
        if let Some(candidate) = advance(&mut cursor, number)? {
            self.candidates.push(Reverse(candidate));
            self.cursors.push(cursor);
        }
        Ok(())
    }

    pub(crate) fn next(&mut self) -> Result<Option<Found<'t>>, StoreError> {
        while self.left > 0 {
            let Some(candidate) = self.take()? else {
                break;
            };
            // An event stands behind several cursors if several of its tags match.
            if self.last.replace(candidate.position) == Some(candidate.position) {
                continue;
            }
            if let Some(found) = self.check(candidate)? {
                self.left -= 1;
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The newest candidate; its cursor moves on.
    fn take(&mut self) -> Result<Option<Candidate<'t>>, StoreError> {
        let Some(mut top) = self.candidates.peek_mut() else {
            return Ok(None);
        };
        let candidate = top.0;
        let following = match candidate.cursor {
            Some(number) => advance(&mut self.cursors[number], number)?,
            None => None,
        };
        match following {
            Some(following) => top.0 = following,
            None => {
                PeekMut::pop(top);
            }
        }
        Ok(Some(candidate))
    }

    fn check(&self, candidate: Candidate<'t>) -> Result<Option<Found<'t>>, StoreError> {
        let Candidate {
            position,
            entry,
            mut record,
            ..
        } = candidate;
        if entry.is_expired(self.now) || !self.checks.accept_kind(entry.kind) {
            return Ok(None);
        }
        if self.checks.need_record() {
            let read = match record {
                Some(record) => record,
                None => self.lookup.record(&entry.serial)?,
            };
            if !self.checks.accept_record(read) {
                return Ok(None);
            }
            record = Some(read);
        }
        Ok(Some(Found {
            position,
            serial: entry.serial,
            record,
        }))
    }
}

fn advance<'t>(
    cursor: &mut RoRange<'t, Bytes, Bytes>,
    number: usize,
) -> Result<Option<Candidate<'t>>, StoreError> {
    let Some((key, value)) = cursor.next().transpose()? else {
        return Ok(None);
    };
    let position = key
        .last_chunk::<POSITION_LEN>()
        .ok_or_else(|| StoreError::Corrupt("an index key is too short"))?;
    Ok(Some(Candidate {
        position,
        entry: Entry::decode(value)?,
        record: None,
        cursor: Some(number),
    }))
}

impl Ord for Candidate<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.position.cmp(other.position)
    }
}

impl PartialOrd for Candidate<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Candidate<'_> {}
