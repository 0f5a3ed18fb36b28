//! Cache of verified pseudo-versions, so that history is not walked for each file of a module.
//!
//! Invariant: what is remembered holds for exactly the refs it was checked with. When they change
//! it is checked again.

use std::{
    collections::VecDeque,
    sync::{Arc, Weak},
};

use grip_git::RefSnapshot;
use grip_go::{ModulePath, Version};
use grip_types::RepoAddr;
use parking_lot::Mutex;

use super::module_reader::ModuleCommit;

/// As many as are remembered; the oldest goes first.
const MOST: usize = 256;

#[derive(Default)]
pub(super) struct PseudoVersionCache {
    checked: Mutex<VecDeque<(Weak<RefSnapshot>, ModuleCommit)>>,
}

impl PseudoVersionCache {
    /// A module that was checked with these refs.
    pub(super) fn get(
        &self,
        refs: &Arc<RefSnapshot>,
        repo: &RepoAddr,
        path: &ModulePath,
        version: &Version,
    ) -> Option<ModuleCommit> {
        let checked = self.checked.lock();
        let is_it = |(with, at): &&(Weak<RefSnapshot>, ModuleCommit)| {
            at.module.version == *version
                && at.module.path == *path
                && at.repo == *repo
                && std::ptr::eq(with.as_ptr(), Arc::as_ptr(refs))
        };
        checked.iter().find(is_it).map(|(_, at)| at.clone())
    }

    pub(super) fn keep(&self, refs: &Arc<RefSnapshot>, at: &ModuleCommit) {
        let mut at = at.clone();
        at.reference = None;
        let mut checked = self.checked.lock();
        // The refs of these are forgotten or have changed.
        checked.retain(|(with, _)| with.strong_count() > 0);
        checked.truncate(MOST - 1);
        checked.push_front((Arc::downgrade(refs), at));
    }
}
