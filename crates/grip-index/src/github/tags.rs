//! Tags of one repository, page by page.

use std::{collections::HashMap, sync::Arc};

use grip_github::{Cursor, Etag, GitHubError, NextStep, Page, RepoName, Response, Tag};
use grip_go::tag;

use super::{GitHubSource, errors::step, graphql, ref_objects::Objects};
use crate::{SourceError, TagAt, TagPage, Tags, TagsQuery};

/// Memory for what the tags of one repository are at, over all pages of a host's answer.
const MAX_OBJECTS_BYTES: usize = 64 << 20;

/// Tags on a page that may be the first of several.
const FULL_PAGE: usize = 100;
/// Tags that REST is asked about one by one in a turn; the rest waits for the next.
const CONFIRMED_AT_ONCE: usize = 100;
/// The same for GraphQL, a hundred to a call.
const CONFIRMED_BY_GRAPHQL: usize = 2_000;

impl GitHubSource {
    pub(super) async fn tag_page(&self, repo: &str, query: TagsQuery) -> Result<Tags, SourceError> {
        let name = self.repo_name(repo)?;
        let is_begun = query.from.as_deref().is_some_and(graphql::is_cursor);
        if (query.is_first_turn && query.from.is_none()) || is_begun {
            let from = query.from.as_deref();
            if let Some(tags) = self.graphql_tags(&name, from, query.is_first_turn).await? {
                return Ok(tags);
            }
        }
        let from = query.from.filter(|_| !is_begun);
        let bad = |_| SourceError::Permanent("the place in the list is not one".to_owned());
        let from: Option<Cursor> = from.map(|text| text.parse()).transpose().map_err(bad)?;
        let marks = query.etag.map(marks).unwrap_or_default();
        match self.rest_tags(repo, &name, from, &marks).await {
            Ok(Some(page)) => Ok(Tags::Page(TagPage {
                is_restart: is_begun,
                ..page
            })),
            Ok(None) => Ok(Tags::Unchanged),
            Err(
                GitHubError::NotFound { .. }
                | GitHubError::Gone
                | GitHubError::Client { status: 451, .. },
            ) => Ok(Tags::Gone),
            // What a repository without any commit is answered with.
            Err(GitHubError::Client { status: 409, .. }) => Ok(Tags::Page(TagPage::default())),
            Err(error) => Err(step(&error)),
        }
    }

    /// A page, or none where all pages are still as their marks say.
    async fn rest_tags(
        &self,
        repo: &str,
        name: &RepoName,
        from: Option<Cursor>,
        marks: &[Etag],
    ) -> Result<Option<TagPage>, GitHubError> {
        let mut fresh = None;
        if from.is_none() {
            self.ref_objects.forget(repo);
            let mut at = None;
            for (n, mark) in marks.iter().enumerate() {
                match self.github.tags(name, at, Some(mark)).await? {
                    Response::NotModified => at = Some(Cursor::page(n as u32 + 2)),
                    Response::Fresh(page) => {
                        fresh = Some(page).filter(|_| n == 0);
                        break;
                    }
                }
                if n + 1 == marks.len() {
                    return Ok(None);
                }
            }
        }
        let page = match fresh {
            Some(page) => page,
            None => {
                let whole = self.github.tags(name, from, None).await?.fresh();
                whole.ok_or_else(|| GitHubError::Malformed {
                    what: "no change, which was not asked for".to_owned(),
                })?
            }
        };
        let objects = self.objects(repo, name, &page).await?;
        Ok(Some(tag_page(page, &objects)))
    }

    /// What the tags are at, asked only where one of them may be a version.
    async fn objects(
        &self,
        repo: &str,
        name: &RepoName,
        page: &Page<Tag>,
    ) -> Result<Objects, GitHubError> {
        if !page.items.iter().any(|it| tag::read(&it.name).is_some()) {
            return Ok(Objects::default());
        }
        if let Some(known) = self.ref_objects.get(repo) {
            return Ok(known);
        }
        let (mut all, mut next, mut bytes) = (HashMap::new(), None, 0);
        loop {
            let refs = match self.github.tag_refs(name, next).await {
                Ok(refs) => refs,
                // A host that does not tell has tags without objects.
                Err(error) if error.next_step() == NextStep::GiveUp => break,
                Err(error) => return Err(error),
            };
            bytes += refs
                .items
                .iter()
                .map(|tag| tag.name.len() + 128)
                .sum::<usize>();
            if bytes > MAX_OBJECTS_BYTES {
                let limit = MAX_OBJECTS_BYTES as u64;
                return Err(GitHubError::TooBig { limit });
            }
            all.extend(refs.items.into_iter().map(|tag| (tag.name.clone(), tag)));
            next = refs.next;
            if next.is_none() {
                break;
            }
        }
        let objects = Arc::new(all);
        self.ref_objects.put(repo, &objects);
        Ok(objects)
    }

    pub(super) async fn is_same_rest_page(
        &self,
        repo: &str,
        page: Option<String>,
        etag: String,
    ) -> Result<bool, SourceError> {
        let name = self.repo_name(repo)?;
        let (Some(mark), Ok(at)) = (
            Etag::parse(&etag),
            page.map(|page| page.parse()).transpose(),
        ) else {
            return Ok(false);
        };
        match self.github.tags(&name, at, Some(&mark)).await {
            Ok(Response::NotModified) => Ok(true),
            // Gone, or another: the list is read from its beginning, which tells.
            Ok(Response::Fresh(_)) => Ok(false),
            Err(error) if error.next_step() == NextStep::GiveUp => Ok(false),
            Err(error) => Err(step(&error)),
        }
    }

    pub(super) async fn confirmed_gone(
        &self,
        repo: &str,
        mut names: Vec<String>,
    ) -> Result<Vec<String>, SourceError> {
        let name = self.repo_name(repo)?;
        names.truncate(CONFIRMED_BY_GRAPHQL);
        if let Some(are_there) = self.graphql_are_tags(&name, &names).await? {
            let gone = names.into_iter().zip(are_there);
            return Ok(gone.filter_map(|(tag, it)| (!it).then_some(tag)).collect());
        }
        let mut gone = Vec::new();
        for tag in names.into_iter().take(CONFIRMED_AT_ONCE) {
            let is_there = self.github.is_tag(&name, &tag).await;
            if !is_there.map_err(|error| step(&error))? {
                gone.push(tag);
            }
        }
        Ok(gone)
    }
}

/// The marks of all pages.
fn marks(etag: String) -> Vec<Etag> {
    let marks = if etag.starts_with('[') {
        serde_json::from_str::<Vec<String>>(&etag).unwrap_or_default()
    } else {
        vec![etag]
    };
    let read: Option<Vec<_>> = marks.iter().map(|mark| Etag::parse(mark)).collect();
    read.unwrap_or_default()
}

fn tag_page(page: Page<Tag>, objects: &Objects) -> TagPage {
    // The mark of a full page stays the same when the first page behind it comes.
    let says_all = page.next.is_some() || page.items.len() < FULL_PAGE;
    let tags = page.items.into_iter().map(|tag| {
        let found = objects.get(&tag.name);
        // One that has moved since is where its ref is.
        let (object, commit) = match found {
            Some(found) if found.is_annotated => (found.object, tag.commit),
            Some(found) => (found.object, found.object),
            None => (tag.commit, tag.commit),
        };
        TagAt {
            name: tag.name,
            object,
            commit,
        }
    });
    TagPage {
        tags: tags.collect(),
        next: page.next.map(|next| next.to_string()),
        etag: page.etag.filter(|_| says_all).map(|etag| etag.to_string()),
        ..TagPage::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn the_mark_of_a_full_last_page_says_nothing_of_the_next() {
        let none = Objects::default();
        assert!(tag_page(page(FULL_PAGE - 1, None), &none).etag.is_some());
        assert!(tag_page(page(FULL_PAGE, None), &none).etag.is_none());
        let more = tag_page(page(FULL_PAGE, "page 2".parse().ok()), &none);
        assert!(more.etag.is_some() && more.next.is_some());
    }

    #[test]
    fn marks_of_one_page_and_of_several_are_read() {
        assert_eq!(marks("W/\"a\"".to_owned()).len(), 1);
        assert_eq!(marks(r#"["W/\"a\"","\"b\""]"#.to_owned()).len(), 2);
        assert_eq!(marks("[1]".to_owned()).len(), 0);
    }
}
