//! Which repositories are served, as the index asks for them.

use grip_git::RepoPath;
use grip_grasp::{Grasp, RepositoryStatus};
use grip_index::hosted::Served;
use grip_nostr::RepoAddr;
use parking_lot::Mutex;

/// The service, as the index sees it.
pub(super) struct ServedHere {
    grasp: Grasp,
    /// All of them in order, while somebody reads them page by page: to sort anew for each page
    /// would take longer than all the rest.
    listed: Mutex<Vec<RepoPath>>,
}

impl ServedHere {
    pub(super) fn new(grasp: Grasp) -> Self {
        Self {
            grasp,
            listed: Mutex::default(),
        }
    }

    fn sorted(&self) -> Vec<RepoPath> {
        let served = self.grasp.served().into_iter();
        let mut all: Vec<RepoPath> = served.map(|addr| path(&addr)).collect();
        all.sort_unstable();
        all
    }
}

impl Served for ServedHere {
    fn is_served(&self, repo: &RepoPath) -> bool {
        let owner = RepoAddr::parse_npub(&repo.npub);
        let addr = owner.map(|owner| RepoAddr::new(owner, repo.identifier.clone()));
        let status = addr.and_then(|addr| self.grasp.repository(&addr));
        status == Some(RepositoryStatus::Served)
    }

    fn page(&self, after: Option<&RepoPath>, limit: usize) -> Vec<RepoPath> {
        let mut listed = self.listed.lock();
        if after.is_none() || listed.is_empty() {
            *listed = self.sorted();
        }
        let start = after.map_or(0, |after| listed.partition_point(|it| it <= after));
        let page: Vec<RepoPath> = listed[start..].iter().take(limit).cloned().collect();
        if page.len() < limit {
            *listed = Vec::new();
        }
        page
    }
}

pub(super) fn path(addr: &RepoAddr) -> RepoPath {
    RepoPath::new(addr.npub(), addr.identifier.clone())
}
