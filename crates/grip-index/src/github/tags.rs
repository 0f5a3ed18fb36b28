//! Tags of one repository, page by page.

use grip_github::{Etag, GitHubError, Listing};

use super::{GitHubSource, errors::step, unfinished::Read};
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
        let mut read = self.unfinished.take(repo, occasion);
        if let Some((place, mark)) = read.witness() {
            match self.github.tags(&name, place, mark).await {
                Ok(Listing::NotModified) => {}
                Ok(Listing::Fresh(page)) => read.compare(page),
                Err(error) => return self.interrupted(repo, read, &error),
            }
        }
        while !read.is_whole() {
            let etag = etag.as_ref().filter(|_| read.is_new());
            let page = match self.github.tags(&name, read.next(), etag).await {
                Ok(Listing::NotModified) => return Ok(Tags::Unchanged),
                Ok(Listing::Fresh(page)) => page,
                Err(error) => return self.interrupted(repo, read, &error),
            };
            read.add(page);
            if read.count() > self.options.max_tags {
                let most = self.options.max_tags;
                return Err(SourceError::Permanent(format!(
                    "it has more than {most} tags"
                )));
            }
        }
        let (tags, etag) = read.copy();
        self.unfinished.put(repo, read);
        Ok(Tags::All { tags, etag })
    }

    fn interrupted(
        &self,
        repo: &str,
        read: Read,
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
            self.unfinished.put(repo, read);
        }
        Err(error)
    }
}
