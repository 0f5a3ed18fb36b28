//! Stored events of a subscription, sent in slices that the client has room for.

use bytes::Bytes;
use grip_nostr::Filter;
use grip_store::{Limits as QueryLimits, Match, Query, StoreError};

use super::{Connection, Scan, ScanError};
use crate::{reply, send_queue::OVERHEAD_BYTES};

/// A slice ends when it holds this much.
const SLICE_BYTES: usize = 256 << 10;
/// A query that reads no more events than this is small.
const SMALL_EVENTS: usize = 64;

/// Sends what is stored, newest first, and says which events it was.
pub(super) async fn send(
    connection: &Connection,
    sub: &str,
    filters: Vec<Filter>,
) -> Result<Vec<[u8; 32]>, ScanError> {
    let limits = &connection.shared.limits;
    let query_limits = QueryLimits {
        default_limit: limits.default_limit,
        max_limit: limits.max_limit,
    };
    let is_small = filters.iter().map(most_events).sum::<usize>() <= SMALL_EVENTS;
    let mut scan = Scan::new(connection, Query::new(filters, query_limits));
    if is_small {
        scan = scan.small();
    }
    let head = reply::event_head(sub);
    let mut sent: Vec<[u8; 32]> = Vec::new();
    let mut whole = None;
    loop {
        let room = match whole.take() {
            None => connection.send_queue.reserve(SLICE_BYTES).await,
            Some(bytes) => connection.send_queue.reserve_whole(bytes).await,
        };
        let most = limits.max_results - sent.len();
        let slice = Slice::new(head.clone(), room.bytes(), most);
        let (slice, is_done) = scan.slice(slice, Slice::push).await?;
        connection
            .shared
            .stats
            .stored_sent
            .add(slice.ids.len() as u64);
        sent.extend(&slice.ids);
        whole = slice.too_large;
        room.send(slice.into_frames());
        if is_done || sent.len() == limits.max_results {
            return Ok(sent);
        }
    }
}

/// How many events the store looks at for a filter, as far as an index of it tells.
fn most_events(filter: &Filter) -> usize {
    const MANY: usize = 1 << 20;
    if filter.limit == Some(0) || filter.matches_nothing() {
        return 0;
    }
    let most = match (&filter.ids, &filter.authors, &filter.kinds, filter.limit) {
        (Some(ids), ..) => ids.len(),
        (None, Some(authors), Some(kinds), Some(limit)) if filter.tags.is_empty() => authors
            .len()
            .saturating_mul(kinds.len())
            .saturating_add(limit),
        _ => MANY,
    };
    most.min(MANY)
}

/// Messages in one piece of memory, so that many events cost one allocation.
struct Slice {
    /// `["EVENT","…",`
    head: Bytes,
    bytes: Vec<u8>,
    ends: Vec<usize>,
    ids: Vec<[u8; 32]>,
    max_bytes: usize,
    max_events: usize,
    /// What the first event takes, if not even that fits.
    too_large: Option<usize>,
}

impl Slice {
    fn new(head: Bytes, max_bytes: usize, max_events: usize) -> Self {
        Self {
            head,
            bytes: Vec::new(),
            ends: Vec::new(),
            ids: Vec::new(),
            max_bytes,
            max_events,
            too_large: None,
        }
    }

    /// Takes an event unless the slice is full.
    fn push(&mut self, found: &Match<'_>) -> Result<bool, StoreError> {
        if self.ids.len() == self.max_events {
            return Ok(false);
        }
        let stored = found.read()?;
        let size = self.head.len() + stored.json.len() + 1 + OVERHEAD_BYTES;
        let used = self.bytes.len() + self.ends.len() * OVERHEAD_BYTES;
        if used + size > self.max_bytes {
            self.too_large = self.ends.is_empty().then_some(size);
            return Ok(false);
        }
        reply::push_event(&mut self.bytes, &self.head, stored.json);
        self.ends.push(self.bytes.len());
        self.ids.push(stored.id);
        Ok(true)
    }

    fn into_frames(self) -> Vec<Bytes> {
        let bytes = Bytes::from(self.bytes);
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, end)| bytes.slice(start..*end))
            .collect()
    }
}
