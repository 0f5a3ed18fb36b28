//! Assembly of a repository's tag list from the pages of its source.
//!
//! Invariant: a list is continued on the same occasion only, and if its latest page is still as it
//! was. Whatever comes or goes before that page moves what is on it; what changed otherwise and was
//! not notified is seen by the next turn.

use grip_queue::Job;

use super::{Context, JobError, index_repository::Repo};
use crate::{
    Audience, SourceError, TagAt, TagPage, Tags, TagsQuery,
    claim_rules::Known,
    store::{Begun, Learned, PartialTagList},
};

/// Pages of one list, however few tags are on them.
const MOST_PAGES: i64 = 10_000;
/// How often a list may begin again in one turn because it moved.
const MOST_RESTARTS: usize = 3;

/// What came of reading the list.
pub(super) enum TagList {
    Unchanged,
    All(WholeList),
    Gone,
}

/// All tags.
pub(super) struct WholeList {
    pub(super) tags: Vec<TagAt>,
    pub(super) etag: Option<String>,
    /// Whether it came in one piece, so that no page can have shifted.
    pub(super) is_one_page: bool,
    /// Who may see the repository, where the source said.
    pub(super) audience: Option<Audience>,
}

/// Why a repository has its turn: the same for all turns until somebody asks for it again or one of
/// them has ended well, on whichever instance.
fn occasion(job: &Job, begun: &Begun) -> String {
    let finished = begun.finished_ms.unwrap_or(0);
    format!("{} {} {finished}", job.id, job.asked)
}

impl Context {
    /// Reads all pages, or goes on where they were interrupted.
    pub(super) async fn tag_list(
        &self,
        job: &Job,
        repo: &Repo,
        begun: &Begun,
        etag: Option<String>,
    ) -> Result<TagList, JobError> {
        let occasion = occasion(job, begun);
        let kept = self.store.tag_list(&repo.name, &occasion).await?;
        let mut list = match kept {
            Some(kept) if self.is_as_it_was(repo, &kept).await? => kept,
            _ => self.new_list(),
        };
        let (mut audience, mut restarts) = (None, 0);
        while list.pages == 0 || list.next.is_some() {
            let query = TagsQuery {
                etag: etag.clone().filter(|_| list.pages == 0),
                from: list.next.clone(),
                is_first_turn: begun.finished_ms.is_none(),
            };
            let page = repo.source().tags(&repo.name, query).await;
            let page = match page.map_err(|error| repo.job_error(error))? {
                Tags::Unchanged => return Ok(TagList::Unchanged),
                Tags::Gone => return Ok(TagList::Gone),
                Tags::Page(page) => page,
            };
            if page.is_restart && list.pages > 0 {
                restarts += 1;
                list = self.new_list();
            }
            let is_endless = list.pages >= MOST_PAGES;
            let is_stuck = page.next.is_some() && (page.next == list.next || is_endless);
            if is_stuck || restarts > MOST_RESTARTS {
                let stuck = "the list of tags does not go on".to_owned();
                return Err(repo.job_error(SourceError::Permanent(stuck)));
            }
            audience = page.audience.or(audience);
            let new = page.tags.len();
            self.add_page(repo, &mut list, page).await?;
            if list.tags.len() > self.options.max_tags {
                let most = self.options.max_tags;
                let error = SourceError::Permanent(format!("it has more than {most} tags"));
                return Err(repo.job_error(error));
            }
            // One page alone is read again as cheaply as it would be kept.
            if list.pages > 1 || list.next.is_some() {
                let store = &self.store;
                store
                    .keep_tag_list(&repo.name, &occasion, &list, new)
                    .await?;
            }
        }
        Ok(TagList::All(WholeList {
            etag: joined(list.marks),
            is_one_page: list.pages == 1,
            tags: list.tags,
            audience,
        }))
    }

    fn new_list(&self) -> PartialTagList {
        PartialTagList {
            marks: Some(Vec::new()),
            began_ms: self.store.now_ms(),
            ..PartialTagList::default()
        }
    }

    async fn is_as_it_was(&self, repo: &Repo, kept: &PartialTagList) -> Result<bool, JobError> {
        let Some(mark) = kept.last_mark.clone() else {
            return Ok(true);
        };
        let page = kept.last_page.clone();
        let same = repo.source().is_same_page(&repo.name, page, mark).await;
        same.map_err(|error| repo.job_error(error))
    }

    /// Adds a page; what it tells beside the tags is kept for their judgement.
    async fn add_page(
        &self,
        repo: &Repo,
        list: &mut PartialTagList,
        page: TagPage,
    ) -> Result<(), JobError> {
        let mut learned = Learned::default();
        let times = page.times.into_iter();
        learned.times.extend(times.map(|(object, at)| {
            let at = crate::claim_rules::kept_time(at);
            (object.to_hex(), at)
        }));
        let go_mods = page.go_mods.iter();
        learned.go_mods.extend(
            go_mods.map(|(commit, dir, found)| ((commit.to_hex(), dir.clone()), Known::of(found))),
        );
        if learned.len() > 0 {
            self.store.learn(&repo.name, learned).await?;
        }
        list.pages += 1;
        list.tags.extend(page.tags);
        list.last_page = list.next.take();
        list.next = page.next;
        list.last_mark.clone_from(&page.etag);
        list.marks = list.marks.take().zip(page.etag).map(|(mut marks, etag)| {
            marks.push(etag);
            marks
        });
        Ok(())
    }
}

/// The marks of all pages as one text: that of a single page as it is.
fn joined(marks: Option<Vec<String>>) -> Option<String> {
    let marks = marks?;
    match &marks[..] {
        [one] => Some(one.clone()),
        _ => serde_json::to_string(&marks).ok(),
    }
}
