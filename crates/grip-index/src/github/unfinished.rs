//! Lists of tags that are needed again because a limit came in between.

use std::{collections::VecDeque, time::Duration};

use grip_github::{Cursor, Page, Tag};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::TagAt;

/// Lists that are kept: those of the repositories that were interrupted last. An older one is
/// dropped and read from its beginning when its turn comes.
const MOST: usize = 32;
/// Tags that are kept in all: some 30 MB.
const MOST_TAGS: usize = 300_000;
/// Tags on a page that may be the first of several.
const FULL_PAGE: usize = 100;
/// How old the beginning of a list may be.
const FRESH: Duration = Duration::from_secs(6 * 60 * 60);

#[derive(Default)]
pub(super) struct Unfinished {
    lists: Mutex<VecDeque<(String, Read)>>,
}

/// What was read of a list so far.
#[derive(Debug)]
pub(super) struct Read {
    tags: Vec<Tag>,
    pages: usize,
    next: Option<Cursor>,
    etag: Option<String>,
    began: Instant,
}

impl Read {
    fn new() -> Self {
        Self {
            tags: Vec::new(),
            pages: 0,
            next: None,
            etag: None,
            began: Instant::now(),
        }
    }

    pub(super) fn is_new(&self) -> bool {
        self.pages == 0
    }

    pub(super) fn is_whole(&self) -> bool {
        self.pages > 0 && self.next.is_none()
    }

    pub(super) fn next(&self) -> Option<Cursor> {
        self.next
    }

    pub(super) fn count(&self) -> usize {
        self.tags.len()
    }

    pub(super) fn add(&mut self, page: Page<Tag>) {
        self.pages += 1;
        self.tags.extend(page.items);
        self.next = page.next;
        // The mark of a page says nothing about the others, nor of one that is yet to come.
        let is_all = self.pages == 1 && self.tags.len() < FULL_PAGE;
        self.etag = page.etag.filter(|_| is_all).map(|etag| etag.to_string());
    }

    pub(super) fn copy(&self) -> (Vec<TagAt>, Option<String>) {
        let tags = self.tags.iter().map(|tag| TagAt {
            name: tag.name.clone(),
            object: tag.commit,
            commit: tag.commit,
        });
        (tags.collect(), self.etag.clone())
    }
}

impl Unfinished {
    /// What was put by for a repository, or the beginning of a list.
    pub(super) fn take(&self, repo: &str) -> Read {
        let mut lists = self.lists.lock();
        let at = lists.iter().position(|(name, _)| name == repo);
        let kept = at.and_then(|at| lists.remove(at)).map(|(_, read)| read);
        let is_fresh = |read: &Read| read.began.elapsed() < FRESH;
        kept.filter(is_fresh).unwrap_or_else(Read::new)
    }

    pub(super) fn put(&self, repo: &str, read: Read) {
        if read.is_new() {
            return;
        }
        let mut lists = self.lists.lock();
        lists.push_back((repo.to_owned(), read));
        let count = |lists: &VecDeque<(String, Read)>| -> usize {
            lists.iter().map(|(_, read)| read.count()).sum()
        };
        while lists.len() > MOST || (lists.len() > 1 && count(&lists) > MOST_TAGS) {
            lists.pop_front();
        }
    }

    pub(super) fn drop_it(&self, repo: &str) {
        self.lists.lock().retain(|(name, _)| name != repo);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(tags: usize) -> Read {
        let tag = |n: usize| Tag {
            name: format!("v1.0.{n}"),
            commit: grip_types::Oid::from_bytes(&[1; 20]).unwrap(),
        };
        let mut read = Read::new();
        read.add(Page {
            items: (0..tags).map(tag).collect(),
            next: None,
            etag: grip_github::Etag::parse("\"x\""),
        });
        read
    }

    #[test]
    fn the_mark_of_a_full_page_is_not_one_of_all_tags() {
        assert!(read(FULL_PAGE - 1).copy().1.is_some());
        // The next tag may be on a second page, and leave the first one as it is.
        assert!(read(FULL_PAGE).copy().1.is_none());
    }
}
