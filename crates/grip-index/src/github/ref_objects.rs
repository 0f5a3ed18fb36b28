//! Tag objects of the repositories whose lists REST reads right now.
//!
//! A page of REST's list names the commit of each tag, and not whether a tag object is in between,
//! which has a date of its own. That is told by one call for all tags of a repository.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use grip_github::TagRef;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Repositories that are remembered; one that was forgotten costs a call.
const MOST: usize = 8;
/// How long: as long as the pages of one list are read.
const FRESH: Duration = Duration::from_secs(10 * 60);

pub(super) type Objects = Arc<HashMap<String, TagRef>>;

#[derive(Default)]
pub(super) struct RefObjects {
    recent: Mutex<VecDeque<(String, Instant, Objects)>>,
}

impl RefObjects {
    pub(super) fn get(&self, repo: &str) -> Option<Objects> {
        let recent = self.recent.lock();
        let mut recent = recent.iter();
        let found = recent.find(|(name, at, _)| name == repo && at.elapsed() < FRESH);
        found.map(|(_, _, objects)| Arc::clone(objects))
    }

    pub(super) fn put(&self, repo: &str, objects: &Objects) {
        let mut recent = self.recent.lock();
        recent.retain(|(name, at, _)| name != repo && at.elapsed() < FRESH);
        recent.push_back((repo.to_owned(), Instant::now(), Arc::clone(objects)));
        while recent.len() > MOST {
            recent.pop_front();
        }
    }

    pub(super) fn forget(&self, repo: &str) {
        self.recent.lock().retain(|(name, ..)| name != repo);
    }
}
