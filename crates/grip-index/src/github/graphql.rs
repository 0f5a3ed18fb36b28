//! The parts of the source that GraphQL answers, each with the answer that REST is to be asked.
//!
//! Invariant: a limit or an outage is an error, never a reason to ask REST: what GraphQL costs one
//! call costs REST dozens.

use std::time::Duration;

use grip_github::{FileAt, GitHubError, MAX_PLACES, NextStep, Owner, RepoName, RepositoryFacts};
use grip_go::tag;
use grip_types::Oid;
use tokio::time::Instant;

use super::{GitHubSource, errors::step, go_mod_path};
use crate::{GoMod, Listing, SourceError, TagAt, TagPage, Tags};

/// What a place in a list begins with that GraphQL reads.
const CURSOR: &str = "graphql ";
/// How long GraphQL is left alone where the host did not understand it.
const REST_FOR: Duration = Duration::from_secs(60 * 60);

pub(super) fn is_cursor(text: &str) -> bool {
    text.starts_with(CURSOR)
}

fn written(next: Option<String>) -> Option<String> {
    next.map(|next| format!("{CURSOR}{next}"))
}

impl GitHubSource {
    fn uses_graphql(&self) -> bool {
        let is_off = self.rest_until.lock().is_some_and(|at| Instant::now() < at);
        self.options.graphql && self.github.has_graphql() && !is_off
    }

    /// The answer, or none where REST is to be asked.
    fn answered<T>(&self, answer: Result<T, GitHubError>) -> Result<Option<T>, SourceError> {
        let error = match answer {
            Ok(answer) => return Ok(Some(answer)),
            Err(error) => error,
        };
        let is_nonsense = matches!(error, GitHubError::Malformed { .. });
        if error.next_step() != NextStep::GiveUp && !is_nonsense {
            return Err(step(&error));
        }
        // Of what is not there, and of access that is denied, REST has the last word.
        let is_about_it = matches!(
            error,
            GitHubError::NotFound { .. }
                | GitHubError::AccessDenied { .. }
                | GitHubError::TooBig { .. }
        );
        if !is_about_it {
            let (source, wait_s) = (&self.name, REST_FOR.as_secs());
            tracing::warn!(%source, %error, wait_s, "failed to query by GraphQL; using REST");
            *self.rest_until.lock() = Some(Instant::now() + REST_FOR);
        }
        Ok(None)
    }

    pub(super) async fn graphql_page(
        &self,
        cursor: Option<&str>,
    ) -> Result<Option<Listing>, SourceError> {
        let from = cursor.and_then(|cursor| cursor.strip_prefix(CURSOR));
        let is_other =
            matches!(self.owner, Owner::Everything) || from.is_none() && cursor.is_some();
        if is_other || !self.uses_graphql() {
            return Ok(None);
        }
        let page = self.github.owner_repositories(&self.owner, from).await;
        let page = self.answered(page)?;
        Ok(page.map(|(repos, next)| Listing {
            repos: self.listed(&repos),
            next: written(next),
        }))
    }

    pub(super) async fn graphql_facts(
        &self,
        name: &RepoName,
    ) -> Result<Option<RepositoryFacts>, SourceError> {
        if !self.uses_graphql() {
            return Ok(None);
        }
        let found = self.github.repository_facts(name).await;
        self.answered(found)
    }

    pub(super) async fn graphql_tags(
        &self,
        name: &RepoName,
        from: Option<&str>,
        with_go_mods: bool,
    ) -> Result<Option<Tags>, SourceError> {
        if !self.uses_graphql() {
            return Ok(None);
        }
        let from = from.and_then(|from| from.strip_prefix(CURSOR));
        let mut page = self.github.dated_tags(name, from, with_go_mods).await;
        if with_go_mods && matches!(page, Err(GitHubError::TooBig { .. })) {
            page = self.github.dated_tags(name, from, false).await;
        }
        let Some(page) = self.answered(page)? else {
            return Ok(None);
        };
        let audience = self.audience(&page.repository);
        if page.repository.full_name != *name || audience.is_none() {
            return Ok(Some(Tags::Gone));
        }
        let mut found = TagPage {
            next: written(page.next),
            audience,
            ..TagPage::default()
        };
        for tag in page.tags {
            if tag::read(&tag.name).is_some() {
                found.times.push((tag.object, tag.created_ms));
                let go_mod = tag.go_mod.and_then(shown);
                let root = go_mod.map(|go_mod| (tag.commit, String::new(), go_mod));
                found.go_mods.extend(root);
            }
            found.tags.push(TagAt {
                name: tag.name,
                object: tag.object,
                commit: tag.commit,
            });
        }
        Ok(Some(Tags::Page(found)))
    }

    pub(super) async fn graphql_are_tags(
        &self,
        name: &RepoName,
        tags: &[String],
    ) -> Result<Option<Vec<bool>>, SourceError> {
        if !self.uses_graphql() {
            return Ok(None);
        }
        let found = self.github.are_tags(name, tags).await;
        self.answered(found)
    }

    pub(super) async fn graphql_go_mods(
        &self,
        repo: &str,
        places: Vec<(Oid, String)>,
    ) -> Result<Vec<(Oid, String, GoMod)>, SourceError> {
        let name = self.repo_name(repo)?;
        let mut found = Vec::new();
        for places in places.chunks(MAX_PLACES) {
            if !self.uses_graphql() {
                break;
            }
            let paths: Vec<_> = places
                .iter()
                .map(|(commit, dir)| (*commit, go_mod_path(dir)))
                .collect();
            let files = self.github.files(&name, &paths).await;
            let Some(files) = self.answered(files)? else {
                break;
            };
            let each = places.iter().zip(files);
            found.extend(
                each.filter_map(|((commit, dir), file)| Some((*commit, dir.clone(), shown(file)?))),
            );
        }
        Ok(found)
    }
}

/// What a query showed of a file; none where REST is to be asked for it.
fn shown(file: FileAt) -> Option<GoMod> {
    match file {
        FileAt::Absent => Some(GoMod::Absent),
        FileAt::Text(text) => Some(GoMod::Text(text)),
        FileAt::NotShown => None,
    }
}
