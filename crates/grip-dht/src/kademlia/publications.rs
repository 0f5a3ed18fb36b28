//! Publications in flight, and the callers that wait for them.

use std::collections::HashMap;

use libp2p::kad::QueryId;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::stats::{Stats, count};
use crate::{DhtError, Published};

#[derive(Default)]
pub(super) struct Publications {
    next: u64,
    /// At most two for each publication.
    queries: HashMap<QueryId, u64>,
    /// Bounded by the permits within.
    publications: HashMap<u64, Publication>,
}

struct Publication {
    queries_left: usize,
    stored_at: usize,
    caller: Caller,
}

pub(super) struct Caller {
    pub done: oneshot::Sender<Result<Published, DhtError>>,
    /// Released at the end of the publication.
    pub permit: OwnedSemaphorePermit,
}

impl Publications {
    /// Waits for the end of these queries. Without any, the caller is refused at once.
    pub(super) fn begin(&mut self, queries: &[QueryId], caller: Caller) {
        if queries.is_empty() {
            let _ = caller.done.send(Err(DhtError::Full));
            return;
        }
        let id = self.next;
        self.next += 1;
        let queries_left = queries.len();
        self.queries
            .extend(queries.iter().map(|query| (*query, id)));
        let publication = Publication {
            queries_left,
            stored_at: 0,
            caller,
        };
        self.publications.insert(id, publication);
    }

    /// Notes the end of one query, which stored the record at so many nodes.
    pub(super) fn ended(&mut self, query: QueryId, stored_at: usize, alone: bool, stats: &Stats) {
        let Some(id) = self.queries.remove(&query) else {
            return;
        };
        let Some(publication) = self.publications.get_mut(&id) else {
            return;
        };
        publication.queries_left -= 1;
        publication.stored_at += stored_at;
        if publication.queries_left > 0 {
            return;
        }
        let counts = &stats.counts;
        count(if alone {
            &counts.unpublished_total
        } else {
            &counts.published_total
        });
        if let Some(publication) = self.publications.remove(&id) {
            let stored_at = publication.stored_at;
            let Caller { done, permit } = publication.caller;
            // The caller may have left.
            let _ = done.send(Ok(Published { stored_at }));
            drop(permit);
        }
    }
}
