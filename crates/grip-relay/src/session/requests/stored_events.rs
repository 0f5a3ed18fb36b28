//! Stored events of a subscription, read in slices.
//!
//! The first slice fixes which events belong to the answer and in which order; the JSON of those
//! that did not fit is read slice by slice as the client takes them. So neither a read transaction
//! nor much memory waits for a slow client.

use std::{ops::ControlFlow, sync::Arc};

use bytes::Bytes;
use grip_nostr::{Filter, Timestamp};
use grip_store::{EventStore, Limits as QueryLimits, StoreError, Stored};

use crate::{Limits, reply};

/// A slice ends when it holds this much.
const SLICE_BYTES: usize = 1 << 20;
/// Ids asked for at once in later slices.
const SLICE_IDS: usize = 256;
/// A query that reads no more events than this runs where it is: handing it over would cost as
/// much as it does.
const SMALL_EVENTS: usize = 64;

pub(super) struct StoredEvents {
    /// `["EVENT","…",`
    head: Bytes,
    filters: Arc<[Filter]>,
    limits: QueryLimits,
    max_results: usize,
    ids: Vec<[u8; 32]>,
    /// How many of `ids` were read.
    done: usize,
}

/// EVENT messages ready to be sent.
pub(super) struct Chunk {
    pub(super) frames: Vec<Bytes>,
}

impl StoredEvents {
    pub(super) fn new(sub: &str, filters: Arc<[Filter]>, limits: &Limits) -> Self {
        Self {
            head: reply::event_head(sub),
            filters,
            limits: QueryLimits {
                default_limit: limits.default_limit,
                max_limit: limits.max_limit,
            },
            max_results: limits.max_results,
            ids: Vec::new(),
            done: 0,
        }
    }

    fn asking(&self) -> impl Iterator<Item = &Filter> {
        let asks = |filter: &&Filter| filter.limit != Some(0) && !filter.matches_nothing();
        self.filters.iter().filter(asks)
    }

    /// Says whether the query cannot take long.
    pub(super) fn is_small(&self) -> bool {
        let most = self.asking().map(most_events);
        most.fold(0, usize::saturating_add) <= SMALL_EVENTS
    }

    pub(super) fn has_more(&self) -> bool {
        self.done < self.ids.len()
    }

    pub(super) fn into_ids(self) -> Vec<[u8; 32]> {
        self.ids
    }

    /// Runs the query. Call it first, and once.
    pub(super) fn first(&mut self, store: &EventStore) -> Result<Chunk, StoreError> {
        let filters: Vec<Filter> = self.asking().cloned().collect();
        let mut slice = Slice::new(&self.head);
        if filters.is_empty() {
            return Ok(slice.finish());
        }
        let (ids, max_results) = (&mut self.ids, self.max_results);
        let mut each = |stored: &Stored<'_>| {
            ids.push(stored.id);
            // Once one is left out, all later ones are: the order must stay.
            if slice.ends.len() + 1 == ids.len() {
                slice.push(stored.json);
            }
            if ids.len() < max_results {
                ControlFlow::Continue(())
            } else {
                ControlFlow::Break(())
            }
        };
        let view = store.read()?;
        view.query(&filters, self.limits, Timestamp::now(), &mut each)?;
        self.done = slice.ends.len();
        Ok(slice.finish())
    }

    /// Reads on. Events that are gone by now are left out.
    pub(super) fn more(&mut self, store: &EventStore) -> Result<Chunk, StoreError> {
        let wanted = &self.ids[self.done..self.ids.len().min(self.done + SLICE_IDS)];
        let mut sorted = wanted.to_vec();
        sorted.sort_unstable();
        let filter = Filter {
            ids: Some(sorted),
            ..Filter::default()
        };
        let limits = QueryLimits {
            default_limit: SLICE_IDS,
            max_limit: SLICE_IDS,
        };
        let mut slice = Slice::new(&self.head);
        // The query answers in the order of `ids`, because both go by time and id.
        let mut refused = None;
        let mut each = |stored: &Stored<'_>| {
            if slice.push(stored.json) {
                return ControlFlow::Continue(());
            }
            refused = Some(stored.id);
            ControlFlow::Break(())
        };
        let view = store.read()?;
        view.query(&[filter], limits, Timestamp::now(), &mut each)?;
        let read = refused.and_then(|id| wanted.iter().position(|wanted| *wanted == id));
        self.done += read.unwrap_or(wanted.len());
        Ok(slice.finish())
    }
}

/// How many events the store looks at for a filter, as far as an index of it tells.
fn most_events(filter: &Filter) -> usize {
    match (&filter.ids, &filter.authors, &filter.kinds, filter.limit) {
        (Some(ids), ..) => ids.len(),
        (None, Some(authors), Some(kinds), Some(limit)) if filter.tags.is_empty() => authors
            .len()
            .saturating_mul(kinds.len())
            .saturating_add(limit),
        _ => usize::MAX,
    }
}

/// Messages in one piece of memory, so that many events cost one allocation.
struct Slice<'h> {
    head: &'h [u8],
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl<'h> Slice<'h> {
    fn new(head: &'h [u8]) -> Self {
        Self {
            head,
            bytes: Vec::new(),
            ends: Vec::new(),
        }
    }

    /// Takes an event unless the slice is full; an empty one takes any.
    fn push(&mut self, json: &[u8]) -> bool {
        let full = self.bytes.len() + json.len() > SLICE_BYTES;
        if full && !self.ends.is_empty() {
            return false;
        }
        reply::push_event(&mut self.bytes, self.head, json);
        self.ends.push(self.bytes.len());
        true
    }

    fn finish(self) -> Chunk {
        let bytes = Bytes::from(self.bytes);
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let frames = starts
            .zip(&self.ends)
            .map(|(start, end)| bytes.slice(start..*end))
            .collect();
        Chunk { frames }
    }
}
