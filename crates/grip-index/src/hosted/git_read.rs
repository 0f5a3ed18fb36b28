//! Tags, read from the object store. All of it blocks.

use grip_git::{ObjectKind, Ref, RepoError, Repositories};
use grip_types::{ErrorChain, Oid, RepoAddr};

use super::digest;
use crate::{SourceError, TagAt, TagPage, Tags};

/// Tags whose objects are looked up at a time.
const BATCH: usize = 10_000;

/// The tags that lead to commits, or that none of them has changed.
pub(super) fn tags(
    repositories: &Repositories,
    repo: &RepoAddr,
    etag: Option<String>,
) -> Result<Tags, SourceError> {
    let refs = match repositories.refs(repo) {
        Ok(refs) => refs,
        Err(RepoError::NotFound(_)) => return Ok(Tags::Gone),
        Err(error) => return Err(failed(&error)),
    };
    let now = digest::of(&refs);
    if etag.as_deref() == Some(&now) {
        return Ok(Tags::Unchanged);
    }
    let named: Vec<(&str, &Ref)> = digest::tags(&refs).collect();
    let mut tags = Vec::with_capacity(named.len());
    for batch in named.chunks(BATCH) {
        let commits: Vec<Oid> = batch.iter().map(|(_, r)| target(r)).collect();
        let kinds = repositories.kinds(&repo.identifier, &commits);
        let kinds = kinds.map_err(|error| failed(&error))?;
        let found = batch.iter().zip(kinds);
        let commits = found.filter(|(_, kind)| *kind == Some(ObjectKind::Commit));
        tags.extend(commits.map(|((name, r), _)| TagAt {
            name: (*name).to_owned(),
            object: r.oid,
            commit: target(r),
        }));
    }
    Ok(Tags::Page(TagPage {
        tags,
        etag: Some(now),
        ..TagPage::default()
    }))
}

fn target(r: &Ref) -> Oid {
    r.peeled.unwrap_or(r.oid)
}

/// When the tag says it was made or, where it says nothing, its commit.
pub(super) fn created(
    repositories: &Repositories,
    repo: &RepoAddr,
    object: &Oid,
) -> Result<i64, SourceError> {
    let found = repositories.tagged(&repo.identifier, object);
    let found = found.map_err(|error| failed(&error))?;
    // Withdrawn meanwhile, perhaps: the next look at the tags knows.
    let gone = || SourceError::Transient(format!("the tag's object {object} is not here"));
    Ok(found.ok_or_else(gone)?.created_at_ms)
}

/// What a failure means for the job.
pub(super) fn failed(error: &RepoError) -> SourceError {
    match error {
        RepoError::Unusable { .. } => SourceError::Permanent(error.to_string()),
        _ => SourceError::Transient(ErrorChain(error).to_string()),
    }
}
