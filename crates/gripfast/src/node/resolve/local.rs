//! Served repositories, as the resolver reads them.

use futures_util::future::BoxFuture;
use grip_grasp::{ChangeReceiver, Grasp};
use grip_nostr::RepoAddr;
use grip_resolve::{Changed, InvalidManifest, LocalError, Manifest, Repositories};
use parking_lot::Mutex;

/// The service, as the resolver sees it.
pub(super) struct ServedHere {
    grasp: Grasp,
    changes: ChangeReceiver,
    /// All of them in order, while somebody reads them page by page: to sort anew for each page
    /// would take longer than all the rest.
    listed: Mutex<Vec<RepoAddr>>,
}

impl ServedHere {
    pub(super) fn new(grasp: Grasp) -> Self {
        Self {
            changes: grasp.repository_event_changes(),
            grasp,
            listed: Mutex::default(),
        }
    }

    fn sorted(&self) -> Vec<RepoAddr> {
        let mut all = self.grasp.served();
        all.sort_unstable();
        all
    }
}

impl Repositories for ServedHere {
    fn manifest<'a>(
        &'a self,
        name: &'a RepoAddr,
    ) -> BoxFuture<'a, Result<Option<Manifest>, LocalError>> {
        Box::pin(async move {
            let claims = self.grasp.repository_events(name).await;
            let claims = claims.map_err(|error| LocalError(error.into()))?;
            Ok(claims.and_then(|claims| made_of(claims, name)))
        })
    }

    fn page<'a>(
        &'a self,
        after: Option<&'a RepoAddr>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<RepoAddr>, LocalError>> {
        let mut listed = self.listed.lock();
        if after.is_none() || listed.is_empty() {
            *listed = self.sorted();
        }
        let start = after.map_or(0, |after| listed.partition_point(|it| it <= after));
        let page: Vec<RepoAddr> = listed[start..].iter().take(limit).cloned().collect();
        if page.len() < limit {
            *listed = Vec::new();
        }
        Box::pin(std::future::ready(Ok(page)))
    }

    fn changed(&self) -> BoxFuture<'_, Changed> {
        Box::pin(async {
            match self.changes.next().await {
                grip_grasp::ChangedRepositories::These(these) => Changed::These(these),
                grip_grasp::ChangedRepositories::TooMany => Changed::TooMany,
            }
        })
    }
}

/// What can be shown of it to others. Where it cannot be shown that the state's author may speak,
/// because who let him has an announcement that is not served, the owner's word stands alone.
fn made_of(claims: grip_grasp::RepositoryEvents, name: &RepoAddr) -> Option<Manifest> {
    let grip_grasp::RepositoryEvents {
        announcement,
        others,
        state,
    } = claims;
    let made = match Manifest::make(announcement.clone(), others, state) {
        Err(InvalidManifest::NotAMaintainer | InvalidManifest::TooLong) => {
            Manifest::make(announcement, Vec::new(), None)
        }
        made => made,
    };
    match made {
        Ok(made) => Some(made),
        Err(InvalidManifest::Private) => None,
        Err(error) => {
            tracing::warn!(%name, %error, "failed to make the manifest of a repository");
            None
        }
    }
}
