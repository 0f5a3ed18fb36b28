//! What the sync asks of the service.

use std::time::{SystemTime, UNIX_EPOCH};

use grip_grasp::{DataSource, Grasp, Millis, SyncAfter};
use grip_resolve::Resolver;
use grip_sync::{After, ContextError, Further, Need, SyncContext};
use grip_types::Identifier;
use tokio::sync::watch;

use super::{further, lately::Lately};

/// The service, as the sync sees it.
pub(super) struct Context {
    grasp: Grasp,
    resolver: Resolver,
    lately: Lately,
}

impl Context {
    pub(super) fn new(grasp: Grasp, resolver: Resolver, lately: Lately) -> Self {
        Self {
            grasp,
            resolver,
            lately,
        }
    }
}

impl SyncContext for Context {
    fn now(&self) -> Millis {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let ms = since.map(|since| since.as_millis()).unwrap_or_default();
        Millis::new(i64::try_from(ms).unwrap_or(i64::MAX))
    }

    fn next_due(&self) -> Option<Millis> {
        self.grasp.next_sync()
    }

    fn begin(&self) -> Option<Identifier> {
        let identifier = self.grasp.begin_sync()?;
        self.lately.note(&identifier);
        Some(identifier)
    }

    fn attempt_count(&self, identifier: &Identifier) -> u32 {
        let entry = self.grasp.sync_entry(identifier);
        entry.map_or(0, |facts| facts.attempt_count)
    }

    async fn finish(&self, identifier: &Identifier, after: After) {
        let after = match after {
            After::Complete => SyncAfter::Complete,
            After::Retry(delay) => SyncAfter::Retry(delay),
            After::Resume(delay) => SyncAfter::Resume(delay),
        };
        self.grasp.finish_sync(identifier, after).await;
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.grasp.sync_changes()
    }

    fn queue_len(&self) -> usize {
        self.grasp.sync_queue_len()
    }

    fn has_pending_events(&self, identifier: &Identifier) -> bool {
        self.grasp.has_pending_events(identifier)
    }

    async fn needs(&self, identifier: &Identifier) -> Result<Vec<Need>, ContextError> {
        let needs = self.grasp.needs(identifier).await;
        let needs = needs.map_err(|error| ContextError(error.into()))?;
        let needs = needs.into_iter().map(|need| Need {
            event: need.event,
            is_state: need.is_state,
            oids: need.oids,
            urls: need.urls,
            owners: need.owners,
        });
        Ok(needs.collect())
    }

    async fn further(&self, identifier: &Identifier, needs: &[Need]) -> Vec<Further> {
        further::look(&self.resolver, identifier, needs).await
    }

    async fn process_newly_available_git_data(&self, identifier: &Identifier) -> usize {
        let grasp = &self.grasp;
        let released = grasp.process_newly_available_git_data(identifier, DataSource::Fetch);
        let released = released.await;
        for error in &released.errors {
            tracing::warn!(%identifier, error, "fetched data could not be made to count");
        }
        released.events.len()
    }
}
