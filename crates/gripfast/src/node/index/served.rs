//! Which repositories are served, as the index asks for them.

use grip_grasp::{Grasp, RepositoryStatus};
use grip_index::hosted::Served;
use grip_types::RepoAddr;
use parking_lot::Mutex;

/// The service, as the index sees it.
pub(super) struct ServedHere {
    grasp: Grasp,
    /// All of them in order, while somebody reads them page by page: to sort anew for each page
    /// would take longer than all the rest.
    listed: Mutex<Vec<RepoAddr>>,
}

impl ServedHere {
    pub(super) fn new(grasp: Grasp) -> Self {
        Self {
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

impl Served for ServedHere {
    fn is_served(&self, repo: &RepoAddr) -> bool {
        self.grasp.repository(repo) == Some(RepositoryStatus::Served)
    }

    fn page(&self, after: Option<&RepoAddr>, limit: usize) -> Vec<RepoAddr> {
        let mut listed = self.listed.lock();
        if after.is_none() || listed.is_empty() {
            *listed = self.sorted();
        }
        let start = after.map_or(0, |after| listed.partition_point(|it| it <= after));
        let page: Vec<RepoAddr> = listed[start..].iter().take(limit).cloned().collect();
        if page.len() < limit {
            *listed = Vec::new();
        }
        page
    }
}
