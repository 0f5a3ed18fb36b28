//! Status and statistics of the ingest.

use std::{collections::BTreeMap, time::SystemTime};

use futures_util::future::BoxFuture;
use grip_db::DbError;

use super::{HOUR_MS, Ingest};
use crate::{
    jobs,
    status::{self, SourceStatus, Stats, Status},
};

/// What could not be read, as far as the status shows it.
const MOST_REJECTED: usize = 20;

impl Ingest {
    /// How it goes. Boxed, as it is large: who waits for it need not find room for it.
    pub fn status(&self) -> BoxFuture<'_, Result<Status, DbError>> {
        Box::pin(self.read_status())
    }

    async fn read_status(&self) -> Result<Status, DbError> {
        let context = &self.context;
        let now = SystemTime::now();
        let budgets = context.github.budget();
        let is_ours = |kind: &str| {
            let prefixes = ["ingest-", "push-event", "github-"];
            prefixes.iter().any(|prefix| kind.starts_with(prefix))
        };
        let mut work = context.queue.stats().await?;
        work.retain(|kind| is_ours(&kind.kind));
        Ok(Status {
            sources: self.sources().await?,
            work,
            budgets: budgets
                .iter()
                .map(|budget| status::forecast(budget, now))
                .collect(),
            open_gaps: context.store.totals(i64::MAX).await?.open_gaps,
            rejected: context.store.recent_rejections(MOST_REJECTED).await?,
            progress: context.store.all_work().await?,
        })
    }

    async fn sources(&self) -> Result<Vec<SourceStatus>, DbError> {
        let context = &self.context;
        let mut counts = BTreeMap::<String, BTreeMap<String, i64>>::new();
        for (source, kind, count) in context.store.counts().await? {
            counts.entry(source).or_default().insert(kind, count);
        }
        let mut all = Vec::new();
        for row in context.store.sources().await? {
            let mut configured = context.options.sources.iter();
            let job = context.queue.find(jobs::POLL, &row.source).await?;
            all.push(SourceStatus {
                is_configured: configured.any(|source| source.to_string() == row.source),
                counts: counts.remove(&row.source).unwrap_or_default(),
                newest_id: row.newest_id,
                newest_at: row.newest_at,
                polled_at: row.polled_at,
                changed_at: row.changed_at,
                polls: row.polls,
                gaps: row.gaps,
                due_at: job.as_ref().and_then(|job| job.due_ms),
                last_error: job.and_then(|job| job.last_error),
                source: row.source,
            });
        }
        all.extend(counts.into_iter().map(SourceStatus::other));
        Ok(all)
    }

    /// How much there is. Boxed like [`Ingest::status`].
    pub fn stats(&self) -> BoxFuture<'_, Result<Stats, DbError>> {
        Box::pin(self.count())
    }

    async fn count(&self) -> Result<Stats, DbError> {
        let store = &self.context.store;
        let totals = store.totals(store.now_ms() - HOUR_MS).await?;
        let mut by_type = BTreeMap::<String, i64>::new();
        for (_, kind, count) in store.counts().await? {
            *by_type.entry(kind).or_default() += count;
        }
        Ok(Stats {
            pushes_total: by_type.get("PushEvent").copied().unwrap_or(0),
            pushes_last_hour: totals.pushes_since,
            by_type,
            users: totals.users,
            repositories: totals.repositories,
            rejected: totals.rejected,
            open_gaps: totals.open_gaps,
            first_at: totals.first_at,
            last_at: totals.last_at,
        })
    }
}
