//! Tags of one repository, page by page.

use grip_github::{Etag, GitHubError, Response};

use super::{GitHubSource, errors::step, partial_tag_lists::PartialTagList};
use crate::{Occasion, SourceError, Tags};

impl GitHubSource {
    pub(super) async fn all_tags(
        &self,
        repo: &str,
        etag: Option<String>,
        occasion: Occasion,
    ) -> Result<Tags, SourceError> {
        let name = self.repo_name(repo)?;
        let etag = etag.as_deref().and_then(Etag::parse);
        let mut list = self.partial_lists.take(repo, occasion);
        if let Some((cursor, mark)) = list.witness() {
            match self.github.tags(&name, cursor, mark).await {
                Ok(Response::NotModified) => {}
                Ok(Response::Fresh(page)) => list.compare(page),
                Err(error) => return self.interrupted(repo, list, &error),
            }
        }
        while !list.is_whole() {
            let etag = etag.as_ref().filter(|_| list.is_new());
            let page = match self.github.tags(&name, list.next(), etag).await {
                Ok(Response::NotModified) => return Ok(Tags::Unchanged),
                Ok(Response::Fresh(page)) => page,
                Err(error) => return self.interrupted(repo, list, &error),
            };
            list.add(page);
            if list.count() > self.options.max_tags {
                let most = self.options.max_tags;
                return Err(SourceError::Permanent(format!(
                    "it has more than {most} tags"
                )));
            }
        }
        let (tags, etag) = list.copy();
        self.partial_lists.put(repo, list);
        Ok(Tags::All { tags, etag })
    }

    fn interrupted(
        &self,
        repo: &str,
        list: PartialTagList,
        error: &GitHubError,
    ) -> Result<Tags, SourceError> {
        match error {
            GitHubError::NotFound { .. }
            | GitHubError::Gone
            | GitHubError::Client { status: 451, .. } => return Ok(Tags::Gone),
            // What a repository without any commit is answered with.
            GitHubError::Client { status: 409, .. } => {
                return Ok(Tags::All {
                    tags: Vec::new(),
                    etag: None,
                });
            }
            _ => {}
        }
        let error = step(error);
        if !matches!(error, SourceError::Permanent(_)) {
            self.partial_lists.put(repo, list);
        }
        Err(error)
    }
}
