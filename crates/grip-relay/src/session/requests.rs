//! REQ and COUNT messages: subscriptions of one connection and the stored events they begin with.

mod stored_events;

use std::{collections::HashMap, sync::Arc};

use grip_nostr::{Filter, Timestamp};
use grip_store::{EventStore, StoreError};

use super::Connection;
use crate::{reply, subscriptions};
use stored_events::{Chunk, StoredEvents};

/// The open subscriptions of a connection; dropping it closes them.
pub(super) struct Requests<'c> {
    connection: &'c Connection,
    open: HashMap<String, Open>,
    /// Memory of all filters.
    bytes: usize,
}

struct Open {
    key: subscriptions::Key,
    bytes: usize,
}

impl<'c> Requests<'c> {
    pub(super) fn new(connection: &'c Connection) -> Self {
        Self {
            connection,
            open: HashMap::new(),
            bytes: 0,
        }
    }

    pub(super) fn close(&mut self, sub: &str) {
        if let Some(open) = self.open.remove(sub) {
            self.bytes -= open.bytes;
            self.connection.shared.subscriptions.unsubscribe(open.key);
        }
    }

    /// Opens a subscription in place of one with the same id, and sends what is stored.
    pub(super) async fn open(&mut self, sub: String, filters: Vec<Filter>) {
        self.close(&sub);
        let bytes = filters.iter().map(Filter::size_bytes).sum();
        if let Err(refusal) = self.check_room(bytes) {
            return self.send(reply::closed(&sub, &refusal)).await;
        }
        let Connection {
            shared, send_queue, ..
        } = self.connection;
        let filters: Arc<[Filter]> = filters.into();
        // Before the snapshot is read, so that nothing falls between stored and live.
        let key = shared
            .subscriptions
            .subscribe(send_queue, &sub, Arc::clone(&filters));
        self.bytes += bytes;
        self.open.insert(sub.clone(), Open { key, bytes });
        match self.send_stored(&sub, filters).await {
            Ok(sent) => shared.subscriptions.go_live(key, &sent),
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "query failed");
                self.close(&sub);
                self.send(reply::closed(&sub, "error: the query failed"))
                    .await;
            }
        }
    }

    fn check_room(&self, bytes: usize) -> Result<(), String> {
        let limits = &self.connection.shared.limits;
        if self.open.len() >= limits.subscriptions {
            let most = limits.subscriptions;
            return Err(format!(
                "rate-limited: {most} subscriptions are open; close some first"
            ));
        }
        if self.bytes + bytes > limits.subscription_bytes {
            return Err(
                "rate-limited: the filters of your subscriptions take too much memory; close some first"
                    .into(),
            );
        }
        Ok(())
    }

    /// Sends stored events and `EOSE`, and says which they were.
    async fn send_stored(
        &self,
        sub: &str,
        filters: Arc<[Filter]>,
    ) -> Result<Vec<[u8; 32]>, StoreError> {
        let Connection {
            shared, send_queue, ..
        } = self.connection;
        let limits = shared.limits;
        let mut stored = StoredEvents::new(sub, filters, &limits);
        let mut chunk;
        if stored.is_small() {
            chunk = stored.first(&shared.store)?;
        } else {
            (stored, chunk) = self.read(stored, StoredEvents::first).await?;
        }
        while stored.has_more() {
            self.count_sent(&chunk);
            send_queue.send(chunk.frames).await;
            (stored, chunk) = self.read(stored, StoredEvents::more).await?;
        }
        self.count_sent(&chunk);
        let eose = std::iter::once(reply::eose(sub));
        send_queue.send(chunk.frames.into_iter().chain(eose)).await;
        Ok(stored.into_ids())
    }

    fn count_sent(&self, chunk: &Chunk) {
        let stats = &self.connection.shared.stats;
        stats.stored_sent.add(chunk.frames.len() as u64);
    }

    pub(super) async fn count(&self, sub: String, filters: Vec<Filter>) {
        let store = self.connection.shared.store.clone();
        let count = move || {
            let filters: Vec<Filter> = filters
                .into_iter()
                .filter(|filter| !filter.matches_nothing())
                .collect();
            store.read()?.count(&filters, Timestamp::now())
        };
        let counted = self.connection.shared.scan(count).await;
        let answer = match counted.unwrap_or(Err(StoreError::Incomplete)) {
            Ok(count) => reply::count(&sub, count),
            Err(error) => {
                tracing::error!(error = &error as &dyn std::error::Error, "count failed");
                reply::closed(&sub, "error: the events could not be counted")
            }
        };
        self.send(answer).await;
    }

    /// Reads a chunk off the runtime.
    async fn read(
        &self,
        mut stored: StoredEvents,
        read: fn(&mut StoredEvents, &EventStore) -> Result<Chunk, StoreError>,
    ) -> Result<(StoredEvents, Chunk), StoreError> {
        let store = self.connection.shared.store.clone();
        let work = move || read(&mut stored, &store).map(|chunk| (stored, chunk));
        let done = self.connection.shared.read(work).await;
        done.ok_or(StoreError::Incomplete)?
    }

    async fn send(&self, frame: bytes::Bytes) {
        self.connection.send_queue.send([frame]).await;
    }
}

impl Drop for Requests<'_> {
    fn drop(&mut self) {
        for open in self.open.values() {
            self.connection.shared.subscriptions.unsubscribe(open.key);
        }
    }
}
