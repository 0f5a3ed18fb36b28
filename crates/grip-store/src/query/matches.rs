//! Index scans of all filters, merged by position.

use std::{
    cmp::{Ordering, Reverse},
    collections::{BinaryHeap, binary_heap::PeekMut},
    ops::Bound,
};

use heed::{RoRange, types::Bytes};

use super::{
    Part,
    plan::{Access, Plan},
};
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
    pub(crate) position: Position,
    serial: Serial,
    record: Option<Record<'t>>,
}

impl<'t> Found<'t> {
    pub(crate) fn record(&self, lookup: Lookup<'t>) -> Result<Record<'t>, StoreError> {
        match self.record {
            Some(record) => Ok(record),
            None => lookup.record(&self.serial),
        }
    }
}

/// The candidates of all filters in one snapshot, newest first.
pub(super) struct Matches<'t, 'q> {
    lookup: Lookup<'t>,
    scans: Vec<Scan<'q>>,
    cursors: Vec<Cursor<'t, 'q>>,
    /// The candidate under each cursor that has one.
    candidates: BinaryHeap<Reverse<Candidate>>,
    now: u64,
}

/// One filter: what is left to check, and whether it may have more.
struct Scan<'q> {
    plan: &'q Plan,
    filter: &'q grip_nostr::Filter,
    has_ended: bool,
}

enum Cursor<'t, 'q> {
    Range(RoRange<'t, Bytes, Bytes>),
    /// Events named by id, of which nothing is read before their turn.
    Ids(std::slice::Iter<'q, Position>),
}

#[derive(Clone, Copy)]
struct Candidate {
    position: Position,
    /// `None` where the event is yet to be looked up.
    entry: Option<Entry>,
    cursor: usize,
    scan: usize,
}

/// A match, and the filters that it matches.
type Decided<'t> = Option<(Found<'t>, Vec<usize>)>;

impl<'t, 'q> Matches<'t, 'q> {
    /// Opens the scans at the position `from`.
    pub(super) fn open(
        lookup: Lookup<'t>,
        parts: &'q [Part],
        left: &[usize],
        from: &Position,
        now: u64,
    ) -> Result<Self, StoreError> {
        let cursors = parts.iter().map(|part| part.plan.cursors()).sum();
        let mut matches = Self {
            lookup,
            scans: Vec::with_capacity(parts.len()),
            cursors: Vec::with_capacity(cursors),
            candidates: BinaryHeap::with_capacity(cursors),
            now,
        };
        for (scan, (part, left)) in parts.iter().zip(left).enumerate() {
            let has_ended = *left == 0;
            matches.scans.push(Scan {
                plan: &part.plan,
                filter: &part.filter,
                has_ended,
            });
            if !has_ended {
                matches.add(scan, part, from)?;
            }
        }
        Ok(matches)
    }

    fn add(&mut self, scan: usize, part: &'q Part, from: &Position) -> Result<(), StoreError> {
        // Time is inverted, so the latest comes first.
        let until = part.filter.until.unwrap_or(u64::MAX);
        let first = keys::position(until, &[0; 32]).max(*from);
        let last = keys::position(part.filter.since.unwrap_or(0), &[0xff; 32]);
        match &part.plan.access {
            Access::Ids(positions) => {
                let start = positions.partition_point(|position| *position < first);
                let end = positions.partition_point(|position| *position <= last);
                let named = positions.get(start..end).unwrap_or_default();
                self.add_cursor(scan, Cursor::Ids(named.iter()))
            }
            Access::Ranges { table, prefixes } if first <= last => {
                for prefix in prefixes {
                    let range = range(*table, self.lookup, prefix, &first, &last)?;
                    self.add_cursor(scan, Cursor::Range(range))?;
                }
                Ok(())
            }
            Access::Ranges { .. } => Ok(()),
        }
    }

    fn add_cursor(&mut self, scan: usize, mut cursor: Cursor<'t, 'q>) -> Result<(), StoreError> {
        let number = self.cursors.len();
        if let Some((position, entry)) = cursor.advance()? {
            self.candidates.push(Reverse(Candidate {
                position,
                entry,
                cursor: number,
                scan,
            }));
            self.cursors.push(cursor);
        }
        Ok(())
    }

    pub(super) fn cursors(&self) -> u64 {
        self.cursors.len() as u64
    }

    /// Where the newest candidate stands.
    pub(super) fn next_position(&mut self) -> Option<Position> {
        loop {
            let top = self.candidates.peek_mut()?;
            if !self.scans[top.0.scan].has_ended {
                return Some(top.0.position);
            }
            PeekMut::pop(top);
        }
    }

    /// A filter has had all it may.
    pub(super) fn end(&mut self, scan: usize) {
        self.scans[scan].has_ended = true;
    }

    /// Decides about the event at `position`, which stands behind several cursors if several of its
    /// tags or several filters match. Says how many were looked at, too.
    pub(super) fn decide(&mut self, position: &Position) -> Result<(u64, Decided<'t>), StoreError> {
        let mut looked_at = 0;
        let mut found: Decided<'t> = None;
        while let Some(candidate) = self.take_at(position)? {
            looked_at += 1;
            let scan = &self.scans[candidate.scan];
            let is_known = matches!(&found, Some((_, scans)) if scans.contains(&candidate.scan));
            if scan.has_ended || is_known {
                continue;
            }
            if let Some(matching) = self.check(candidate)? {
                let (_, scans) = found.get_or_insert_with(|| (matching, Vec::with_capacity(1)));
                scans.push(candidate.scan);
            }
        }
        Ok((looked_at, found))
    }

    /// The next candidate if it stands at `position`; its cursor moves on.
    fn take_at(&mut self, position: &Position) -> Result<Option<Candidate>, StoreError> {
        let Some(mut top) = self.candidates.peek_mut() else {
            return Ok(None);
        };
        let candidate = top.0;
        if candidate.position != *position {
            return Ok(None);
        }
        match self.cursors[candidate.cursor].advance()? {
            Some((position, entry)) => {
                top.0.position = position;
                top.0.entry = entry;
            }
            None => {
                PeekMut::pop(top);
            }
        }
        Ok(Some(candidate))
    }

    fn check(&self, candidate: Candidate) -> Result<Option<Found<'t>>, StoreError> {
        let Scan { plan, filter, .. } = &self.scans[candidate.scan];
        let mut record = None;
        let entry = match candidate.entry {
            Some(entry) => entry,
            None => {
                let id = keys::id_of(&candidate.position);
                let Some(serial) = self.lookup.serial_of(id)? else {
                    return Ok(None);
                };
                let read = self.lookup.record(&serial)?;
                record = Some(read);
                Entry {
                    serial,
                    kind: read.kind(),
                    expiration: read.expiration(),
                }
            }
        };
        if entry.is_expired(self.now) || !plan.accepts_kind(filter, entry.kind) {
            return Ok(None);
        }
        if plan.needs_record(filter) {
            let read = match record {
                Some(record) => record,
                None => self.lookup.record(&entry.serial)?,
            };
            if !plan.accepts_record(filter, read) {
                return Ok(None);
            }
            record = Some(read);
        }
        Ok(Some(Found {
            position: candidate.position,
            serial: entry.serial,
            record,
        }))
    }
}

/// The entries of `table` behind `prefix` between two positions, both included.
pub(super) fn range<'t>(
    table: Table,
    lookup: Lookup<'t>,
    prefix: &[u8],
    first: &Position,
    last: &Position,
) -> Result<RoRange<'t, Bytes, Bytes>, StoreError> {
    let (first, last) = ([prefix, first].concat(), [prefix, last].concat());
    let range = (Bound::Included(&first[..]), Bound::Included(&last[..]));
    Ok(table.range(lookup.txn, &range)?)
}

impl Cursor<'_, '_> {
    fn advance(&mut self) -> Result<Option<(Position, Option<Entry>)>, StoreError> {
        let range = match self {
            Self::Range(range) => range,
            Self::Ids(positions) => return Ok(positions.next().map(|position| (*position, None))),
        };
        let Some((key, value)) = range.next().transpose()? else {
            return Ok(None);
        };
        let position = key
            .last_chunk::<POSITION_LEN>()
            .ok_or_else(|| StoreError::Corrupt("an index key is too short"))?;
        Ok(Some((*position, Some(Entry::decode(value)?))))
    }
}

impl Ord for Candidate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.position.cmp(&other.position)
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Candidate {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Candidate {}
