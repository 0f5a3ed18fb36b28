//! Status of the index, its sources and repositories.
//!
//! Invariant: whatever text they ask with, both engines answer alike.

use std::collections::HashMap;

use grip_db::DbError;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Reader, Store, sql::sql};
use crate::Audience;

/// How the index is. Times are milliseconds since 1970.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct Status {
    pub sources: Vec<SourceStatus>,
    /// Repositories, those that are gone not among them.
    pub repos: i64,
    pub repos_gone: i64,
    /// Repositories that have had a turn, whether or not they are there still.
    pub repos_indexed: i64,
    pub tags: i64,
    /// Tags that claim a version; where two claim the same, one is in the feed.
    pub claims: i64,
    /// Versions in the feed.
    pub versions: i64,
    /// The latest timestamp at which the feed has changed, in nanoseconds.
    pub stamp_ns: i64,
    /// What of all this not everybody may see.
    #[serde(skip)]
    pub(crate) restricted: RestrictedTotals,
}

/// What not everybody may see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RestrictedTotals {
    repos: i64,
    repos_gone: i64,
    repos_indexed: i64,
    tags: i64,
    claims: i64,
    versions: i64,
    /// Repositories of each source.
    members: HashMap<String, i64>,
}

impl Status {
    /// Whether not everybody may see all of it.
    pub fn has_restricted(&self) -> bool {
        self.restricted.repos + self.restricted.repos_gone > 0
    }

    /// The same without what this reader may not see.
    pub fn for_reader(mut self, reader: Reader) -> Self {
        let restricted = std::mem::take(&mut self.restricted);
        if reader == Reader::All {
            return self;
        }
        self.repos -= restricted.repos;
        self.repos_gone -= restricted.repos_gone;
        self.repos_indexed -= restricted.repos_indexed;
        self.tags -= restricted.tags;
        self.claims -= restricted.claims;
        self.versions -= restricted.versions;
        for source in &mut self.sources {
            if let Some(members) = restricted.members.get(&source.name) {
                source.repos -= members;
                // It counts all that a listing has found.
                source.found_so_far = None;
            }
        }
        self
    }
}

/// How the listing of a source is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct SourceStatus {
    pub name: String,
    /// Whether this instance has it in its settings.
    pub is_configured: bool,
    pub repos: i64,
    pub began_ms: Option<i64>,
    pub finished_ms: Option<i64>,
    /// How often all of it was listed.
    pub listings: i64,
    /// Repositories found by a listing that is under way or was interrupted.
    pub found_so_far: Option<i64>,
    /// Since when it is known that no instance has it in its settings.
    pub left_ms: Option<i64>,
}

/// How a repository is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct RepoFacts {
    pub name: String,
    pub began_ms: Option<i64>,
    pub finished_ms: Option<i64>,
    pub gone_ms: Option<i64>,
    pub tags: i64,
    /// Tags that claim a version.
    pub claims: i64,
    /// Who may see it.
    pub audience: Audience,
}

grip_db::from_row!(RepoFacts {
    name: "org_repo_name",
    began_ms: "indexing_began",
    finished_ms: "indexing_finished",
    gone_ms: "gone_at",
    tags,
    claims,
    audience: [i64],
});

/// How a tag is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct TagFacts {
    pub name: String,
    pub commit: String,
    pub created_ms: Option<i64>,
    /// What it claims.
    pub path: Option<String>,
    pub version: Option<String>,
    /// Why it claims nothing, where its name says a version.
    pub why: Option<String>,
}

struct SourceRow {
    source: String,
    indexing_began: Option<i64>,
    indexing_finished: Option<i64>,
    listings: i64,
    next_page: Option<String>,
    found: i64,
    left_at: Option<i64>,
}

grip_db::from_row!(SourceRow {
    source,
    indexing_began,
    indexing_finished,
    listings,
    next_page,
    found,
    left_at,
});

impl Store {
    pub(crate) async fn status(&self, configured: &[&str]) -> Result<Status, DbError> {
        type Counts = (i64, i64, i64, i64, i64);
        type Members = Vec<(String, i64)>;
        type Restricted = (Counts, (i64,), Members);
        type Read = (Counts, (i64, i64), Vec<SourceRow>, Members, Restricted);
        let (counts, clock, sources, members, restricted): Read = self
            .db
            .read(|mut db| {
                Box::pin(async move {
                    let counts = db.fetch_one(&sql::COUNTS, &[]).await?;
                    let clock = db.fetch_one(&sql::CLOCK, &[]).await?;
                    let sources = db.fetch_all(&sql::SOURCES, &[]).await?;
                    let members = db.fetch_all(&sql::COUNT_MEMBERS, &[]).await?;
                    let restricted = (
                        db.fetch_one(&sql::COUNTS_RESTRICTED, &[]).await?,
                        db.fetch_one(&sql::COUNT_VERSIONS_RESTRICTED, &[]).await?,
                        db.fetch_all(&sql::COUNT_MEMBERS_RESTRICTED, &[]).await?,
                    );
                    Ok((counts, clock, sources, members, restricted))
                })
            })
            .await?;
        let members: HashMap<_, _> = members.into_iter().collect();
        let source = |row: SourceRow| SourceStatus {
            is_configured: configured.contains(&row.source.as_str()),
            repos: members.get(&row.source).copied().unwrap_or_default(),
            name: row.source,
            began_ms: row.indexing_began,
            finished_ms: row.indexing_finished,
            listings: row.listings,
            found_so_far: row.next_page.map(|_| row.found),
            left_ms: row.left_at,
        };
        let (all, gone, indexed, tags, claims) = counts;
        let (counted, versions, restricted_members) = restricted;
        let restricted = RestrictedTotals {
            repos: counted.0 - counted.1,
            repos_gone: counted.1,
            repos_indexed: counted.2,
            tags: counted.3,
            claims: counted.4,
            versions: versions.0,
            members: restricted_members.into_iter().collect(),
        };
        Ok(Status {
            sources: sources.into_iter().map(source).collect(),
            repos: all - gone,
            repos_gone: gone,
            repos_indexed: indexed,
            tags,
            claims,
            versions: clock.1,
            stamp_ns: clock.0,
            restricted,
        })
    }

    pub(crate) async fn repos(
        &self,
        after: &str,
        limit: usize,
        reader: Reader,
    ) -> Result<Vec<RepoFacts>, DbError> {
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let asked = [
            kept_part(after).into(),
            limit.into(),
            reader.widest().into(),
        ];
        self.db.fetch_all(&sql::REPOS, &asked).await
    }

    pub(crate) async fn repo_facts(&self, repo: &str) -> Result<Option<RepoFacts>, DbError> {
        if names_nothing(repo) {
            return Ok(None);
        }
        let asked = [repo.into()];
        self.db.fetch_optional(&sql::REPO, &asked).await
    }

    pub(crate) async fn tag_facts(
        &self,
        repo: &str,
        after: &str,
        limit: usize,
    ) -> Result<Vec<TagFacts>, DbError> {
        if names_nothing(repo) {
            return Ok(Vec::new());
        }
        let rows = self.tags(repo, kept_part(after), limit).await?;
        let facts = rows.into_iter().map(|row| TagFacts {
            name: row.tag_name,
            commit: row.commit_oid,
            created_ms: row.created,
            path: row.path,
            version: row.version,
            why: row.why,
        });
        Ok(facts.collect())
    }
}

/// Nothing that is kept is called so, and a server would not even be asked about it.
fn names_nothing(text: &str) -> bool {
    text.contains('\0')
}

/// What lies behind this lies behind the whole, because no name goes on with a NUL.
fn kept_part(text: &str) -> &str {
    text.split('\0').next().unwrap_or_default()
}
