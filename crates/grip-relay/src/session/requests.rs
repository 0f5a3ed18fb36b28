//! REQ and COUNT: subscriptions of one connection and the stored events they begin with.

mod snapshot;

use std::{collections::HashMap, sync::Arc};

use grip_nostr::{Filter, Timestamp};
use grip_store::StoreError;

use super::Connection;
use crate::{hub, reply};
use snapshot::{Chunk, Snapshot};

/// The open subscriptions of a connection; dropping it closes them.
pub(super) struct Requests<'c> {
    connection: &'c Connection,
    open: HashMap<String, Open>,
    /// Memory of all filters.
    bytes: usize,
}

struct Open {
    key: hub::Key,
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
            self.connection.shared.hub.unsubscribe(open.key);
        }
    }

    /// Opens a subscription in place of one with the same id, and sends what is stored.
    pub(super) async fn open(&mut self, sub: String, filters: Vec<Filter>) {
        self.close(&sub);
        let bytes = filters.iter().map(Filter::size_bytes).sum();
        if let Err(refusal) = self.check_room(bytes) {
            return self.send(reply::closed(&sub, &refusal)).await;
        }
        let Connection { shared, outbox, .. } = self.connection;
        let filters: Arc<[Filter]> = filters.into();
        // Before the snapshot is read, so that nothing falls between stored and live.
        let key = shared.hub.subscribe(outbox, &sub, Arc::clone(&filters));
        self.bytes += bytes;
        self.open.insert(sub.clone(), Open { key, bytes });
        match self.send_stored(&sub, filters).await {
            Ok(sent) => shared.hub.go_live(key, &sent),
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
        let Connection { shared, outbox, .. } = self.connection;
        let limits = shared.limits;
        let snapshot = Snapshot::new(sub, filters, &limits);
        let (mut snapshot, mut chunk) = match snapshot.is_small() {
            true => first(snapshot, &shared.store),
            false => self.read(|store| first(snapshot, store)).await?,
        }?;
        while snapshot.has_more() {
            self.count_sent(&chunk);
            outbox.send(chunk.frames).await;
            (snapshot, chunk) = self.read(|store| more(snapshot, store)).await??;
        }
        self.count_sent(&chunk);
        let eose = std::iter::once(reply::eose(sub));
        outbox.send(chunk.frames.into_iter().chain(eose)).await;
        Ok(snapshot.into_ids())
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

    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&grip_store::EventStore) -> T + Send + 'static,
    ) -> Result<T, StoreError> {
        let store = self.connection.shared.store.clone();
        let done = self.connection.shared.read(move || work(&store)).await;
        done.ok_or(StoreError::Incomplete)
    }

    async fn send(&self, frame: bytes::Bytes) {
        self.connection.outbox.send([frame]).await;
    }
}

impl Drop for Requests<'_> {
    fn drop(&mut self) {
        for open in self.open.values() {
            self.connection.shared.hub.unsubscribe(open.key);
        }
    }
}

fn first(
    mut snapshot: Snapshot,
    store: &grip_store::EventStore,
) -> Result<(Snapshot, Chunk), StoreError> {
    let chunk = snapshot.first(store)?;
    Ok((snapshot, chunk))
}

fn more(
    mut snapshot: Snapshot,
    store: &grip_store::EventStore,
) -> Result<(Snapshot, Chunk), StoreError> {
    let chunk = snapshot.more(store)?;
    Ok((snapshot, chunk))
}
