//! A query on its way: slices off the runtime, each in a snapshot of its own, up to a budget.

use std::time::Duration;

use grip_nostr::Timestamp;
use grip_store::{EventStore, Match, Progress, Query, StoreError};
use tokio::time::Instant;

use super::Connection;

/// Index entries that one slice looks at: a few milliseconds, so that others have their turn soon.
const SLICE_STEPS: u64 = 4_096;

pub(super) struct Scan<'c> {
    connection: &'c Connection,
    /// Away while a slice is read.
    query: Option<Query>,
    worked: Duration,
    /// The next slice is so short that it runs where it is: handing it over would cost as much.
    is_small: bool,
}

pub(super) enum ScanError {
    /// It has cost what one query may.
    TooLong,
    Store(StoreError),
}

impl<'c> Scan<'c> {
    pub(super) fn new(connection: &'c Connection, query: Query) -> Self {
        Self {
            connection,
            query: Some(query),
            worked: Duration::ZERO,
            is_small: false,
        }
    }

    /// Runs the first slice at once.
    pub(super) fn small(mut self) -> Self {
        self.is_small = true;
        self
    }

    /// Reads on into `taken` until it takes no more, or a slice is over; says whether that was the
    /// end. Cancel safe only in that a query given up is gone.
    pub(super) async fn slice<T: Send + 'static>(
        &mut self,
        mut taken: T,
        mut take: impl FnMut(&mut T, &Match<'_>) -> Result<bool, StoreError> + Send + 'static,
    ) -> Result<(T, bool), ScanError> {
        let shared = &self.connection.shared;
        let mut query = self.query.take().ok_or(StoreError::Incomplete)?;
        let read = move |store: &EventStore| {
            let began = Instant::now();
            let view = store.read()?;
            let mut each = |found: &Match<'_>| take(&mut taken, found);
            let progress = query.run(&view, Timestamp::now(), SLICE_STEPS, &mut each)?;
            Ok::<_, StoreError>((query, taken, progress, began.elapsed()))
        };
        let (query, taken, progress, worked) = if std::mem::take(&mut self.is_small) {
            read(&shared.store)?
        } else {
            let store = shared.store.clone();
            let network = self.connection.network;
            let reading = shared.readers.run(network, move || read(&store));
            reading.await.ok_or(StoreError::Incomplete)??
        };
        self.worked += worked;
        let is_done = progress == Progress::Done;
        let limits = &shared.limits;
        if !is_done && (query.steps() > limits.query_steps || self.worked > limits.query_time) {
            return Err(ScanError::TooLong);
        }
        self.query = Some(query);
        Ok((taken, is_done))
    }
}
