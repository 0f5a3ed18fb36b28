//! Notices of changed repositories to the index.
//!
//! Invariant: what has changed is told until the database has taken it; what a crash cuts off is
//! found by the comparison at the next start.

use std::{sync::Arc, time::Duration};

use grip_db::{Db, DbError};
use grip_tasks::{CancellationToken, ChangeSet, Changed};
use grip_types::RepoAddr;
use tokio::time::sleep;

use super::Hosted;
use crate::Index;

/// Pause before what the database did not take is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// Tells the index which repositories on this node have changed.
pub struct Follower {
    pub index: Arc<Index>,
    pub hosted: Hosted,
    pub db: Db,
}

impl Follower {
    /// Follows `changes` until `stop`, and then tells the last ones.
    pub async fn run(self, changes: Arc<ChangeSet<RepoAddr>>, stop: CancellationToken) {
        // As much as may have changed while nobody followed.
        let following = async {
            self.tell(&Changed::TooMany).await;
            loop {
                let changed = changes.next().await;
                self.tell(&changed).await;
            }
        };
        stop.run_until_cancelled(following).await;
        if let Some(last) = changes.take()
            && let Err(error) = self.try_tell(&last).await
        {
            tracing::debug!(%error, "the last changes are indexed after the next start");
        }
    }

    async fn tell(&self, changed: &Changed<RepoAddr>) {
        let mut is_first = true;
        while let Err(error) = self.try_tell(changed).await {
            if std::mem::take(&mut is_first) {
                let error: &dyn std::error::Error = &error;
                tracing::warn!(
                    error,
                    "changed repositories are indexed as soon as that is over"
                );
            }
            sleep(AGAIN).await;
        }
    }

    async fn try_tell(&self, changed: &Changed<RepoAddr>) -> Result<(), DbError> {
        match changed {
            Changed::These(repositories) => {
                let names = repositories.iter().map(|addr| self.hosted.name_of(addr));
                self.index.repos_changed(names.collect()).await
            }
            Changed::TooMany => self.catch_up().await,
        }
    }

    async fn catch_up(&self) -> Result<(), DbError> {
        let caught = self.hosted.catch_up(&self.db, |names| {
            let index = Arc::clone(&self.index);
            Box::pin(async move { index.repos_changed(names).await })
        });
        let caught = caught.await?;
        tracing::debug!(
            looked_at = caught.looked_at,
            changed = caught.changed,
            "the repositories were compared with the index"
        );
        Ok(())
    }
}
