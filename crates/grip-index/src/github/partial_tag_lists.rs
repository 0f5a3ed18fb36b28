//! Tag lists read in part, to continue after a rate limit.
//!
//! Invariant: a list is continued on the same occasion only, and if its latest page is still as
//! it was. Whatever comes or goes before that page moves what is on it; what changed otherwise and
//! was not notified is seen by the next turn.

use std::{collections::VecDeque, time::Duration};

use grip_github::{Cursor, Etag, Page, Tag};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{Occasion, TagAt};

/// Lists that are kept: those of the repositories that were interrupted last. An older one is
/// dropped and read from its beginning when its turn comes.
const MOST: usize = 32;
/// Tags that are kept in all: some 30 MB.
const MOST_TAGS: usize = 300_000;
/// Tags on a page that may be the first of several.
const FULL_PAGE: usize = 100;
/// How old the beginning of a list may be.
const FRESH: Duration = Duration::from_secs(6 * 60 * 60);

/// The kept lists, by repository.
#[derive(Default)]
pub(super) struct PartialTagLists {
    lists: Mutex<VecDeque<(String, PartialTagList)>>,
}

/// A tag list as far as it was read.
#[derive(Debug)]
pub(super) struct PartialTagList {
    tags: Vec<Tag>,
    pages: usize,
    next: Option<Cursor>,
    etag: Option<String>,
    last: Last,
    occasion: Occasion,
    began: Instant,
}

/// The latest page of a list.
#[derive(Debug, Default)]
struct Last {
    cursor: Option<Cursor>,
    /// Tags before it.
    from: usize,
    mark: Option<Etag>,
}

impl PartialTagList {
    fn new(occasion: Occasion) -> Self {
        Self {
            tags: Vec::new(),
            pages: 0,
            next: None,
            etag: None,
            last: Last::default(),
            occasion,
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

    /// The page to be asked for once more before what was read is relied upon, and its mark.
    pub(super) fn witness(&self) -> Option<(Option<Cursor>, Option<&Etag>)> {
        // The mark of a full page stays the same when the first page behind it comes.
        let is_full = self.tags.len() - self.last.from >= FULL_PAGE;
        let says_all = self.next.is_some() || !is_full;
        let mark = self.last.mark.as_ref().filter(|_| says_all);
        (!self.is_new()).then_some((self.last.cursor, mark))
    }

    /// Goes on if the latest page, asked for once more, is as it was; begins again otherwise.
    pub(super) fn compare(&mut self, page: Page<Tag>) {
        let is_same = page.items == self.tags[self.last.from..] && page.next == self.next;
        if is_same {
            return;
        }
        let is_first = self.pages == 1;
        *self = Self::new(self.occasion);
        if is_first {
            self.add(page);
        }
    }

    pub(super) fn add(&mut self, page: Page<Tag>) {
        self.pages += 1;
        self.last = Last {
            cursor: self.next,
            from: self.tags.len(),
            mark: page.etag.clone(),
        };
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

impl PartialTagLists {
    /// What was put by for a repository on the same occasion, or the beginning of a list.
    pub(super) fn take(&self, repo: &str, occasion: Occasion) -> PartialTagList {
        let mut lists = self.lists.lock();
        let at = lists.iter().position(|(name, _)| name == repo);
        let kept = at.and_then(|at| lists.remove(at)).map(|(_, list)| list);
        let is_fresh =
            |list: &PartialTagList| list.occasion == occasion && list.began.elapsed() < FRESH;
        kept.filter(is_fresh)
            .unwrap_or_else(|| PartialTagList::new(occasion))
    }

    pub(super) fn put(&self, repo: &str, list: PartialTagList) {
        if list.is_new() {
            return;
        }
        let mut lists = self.lists.lock();
        lists.push_back((repo.to_owned(), list));
        let count = |lists: &VecDeque<(String, PartialTagList)>| -> usize {
            lists.iter().map(|(_, list)| list.count()).sum()
        };
        while lists.len() > MOST || (lists.len() > 1 && count(&lists) > MOST_TAGS) {
            lists.pop_front();
        }
    }

    pub(super) fn remove(&self, repo: &str) {
        self.lists.lock().retain(|(name, _)| name != repo);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OCCASION: Occasion = Occasion {
        job: 1,
        asked: 0,
        finished_ms: None,
    };

    fn page(tags: usize, next: Option<Cursor>) -> Page<Tag> {
        let tag = |n: usize| Tag {
            name: format!("v1.0.{n}"),
            commit: grip_types::Oid::from_bytes(&[1; 20]).unwrap(),
        };
        Page {
            items: (0..tags).map(tag).collect(),
            next,
            etag: Etag::parse("\"x\""),
        }
    }

    fn read(tags: usize) -> PartialTagList {
        let mut list = PartialTagList::new(OCCASION);
        list.add(page(tags, None));
        list
    }

    #[test]
    fn the_mark_of_a_full_page_is_not_one_of_all_tags() {
        assert!(read(FULL_PAGE - 1).copy().1.is_some());
        // The next tag may be on a second page, and leave the first one as it is.
        assert!(read(FULL_PAGE).copy().1.is_none());
    }

    #[test]
    fn a_list_is_gone_on_with_on_the_same_occasion_only() {
        for other in [
            Occasion { job: 2, ..OCCASION },
            Occasion {
                asked: 1,
                ..OCCASION
            },
            Occasion {
                finished_ms: Some(1),
                ..OCCASION
            },
        ] {
            let partial_lists = PartialTagLists::default();
            partial_lists.put("a", read(3));
            assert_eq!(partial_lists.take("a", OCCASION).count(), 3);
            partial_lists.put("a", read(3));
            assert!(partial_lists.take("a", other).is_new(), "{other:?}");
        }
    }

    #[test]
    fn a_list_whose_latest_page_is_another_is_begun_again() {
        let second = "page 2".parse().ok();
        let mut two = PartialTagList::new(OCCASION);
        two.add(page(FULL_PAGE, second));
        two.add(page(7, None));
        assert!(
            two.witness()
                .is_some_and(|(cursor, mark)| cursor == second && mark.is_some())
        );
        two.compare(page(7, None));
        assert!(two.is_whole() && two.count() == FULL_PAGE + 7);
        two.compare(page(6, None));
        assert!(two.is_new());

        // The first page is where a list begins again, so it is not asked for a third time.
        let mut one = read(3);
        one.compare(page(2, None));
        assert!(one.is_whole() && one.count() == 2);
    }

    #[test]
    fn behind_a_full_page_there_may_be_another_that_its_mark_says_nothing_of() {
        let mut full = read(FULL_PAGE);
        assert!(full.witness().is_some_and(|(_, mark)| mark.is_none()));
        full.compare(page(FULL_PAGE, "page 2".parse().ok()));
        assert!(!full.is_whole() && full.count() == FULL_PAGE);
    }
}
