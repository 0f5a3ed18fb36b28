//! The sync queue and the index, as pushes on GitHub wake them.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use grip_db::DbError;
use grip_grasp::{Grasp, SyncContext as _};
use grip_index::Index;
use grip_ingest::wake::{IndexedPush, RepositoryIndex, SyncQueue, UrlsError};
use grip_types::Identifier;
use url::Url;

pub(super) struct Waiting(pub(super) Grasp);

impl SyncQueue for Waiting {
    fn waiting(&self) -> Vec<(Identifier, u32)> {
        let queue = self.0.sync_queue(usize::MAX).into_iter();
        queue.map(|(it, facts)| (it, facts.attempt_count)).collect()
    }

    fn clone_urls<'a>(
        &'a self,
        identifier: &'a Identifier,
    ) -> BoxFuture<'a, Result<Vec<Url>, UrlsError>> {
        Box::pin(async move {
            let needs = self.0.needs(identifier).await?;
            Ok(needs.into_iter().flat_map(|need| need.urls).collect())
        })
    }

    fn sync_now<'a>(&'a self, identifier: &'a Identifier) -> BoxFuture<'a, bool> {
        Box::pin(self.0.sync_now(identifier))
    }
}

pub(super) struct Indexed(pub(super) Arc<Index>);

impl RepositoryIndex for Indexed {
    fn pushed(&self, push: IndexedPush) -> BoxFuture<'_, Result<(), DbError>> {
        Box::pin(async move {
            let (host, owner, name) = (&push.host, &push.owner, &push.name);
            if push.is_private {
                self.0.private_push(host, owner, name).await?;
            } else {
                self.0.source_push(host, owner, name).await?;
            }
            Ok(())
        })
    }
}
