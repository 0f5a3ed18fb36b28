//! Live versions of a module in the index, and the tags that claim them.
//!
//! A version's repository may be another node's while ours claims the same version too: then ours
//! counts if it has it at the same commit, because that is the same module.

use grip_db::{Db, DbError, Statement};
use grip_go::{ModulePath, Version};
use grip_types::Oid;

use crate::Audience;

/// Live versions of the module $1 and the tags that claim them, at the same commit.
macro_rules! claims {
    ($rest:literal) => {
        concat!(
            "SELECT v.version, t.org_repo_name, t.tag_name, t.commit_oid, r.audience \
             FROM index_versions v \
             JOIN repo_tags t ON t.path = v.path AND t.version = v.version \
             AND t.commit_oid = v.commit_oid \
             JOIN repos r ON r.org_repo_name = t.org_repo_name WHERE v.path = $1 AND ",
            $rest
        )
    };
}

grip_db::statements! {
    pub(super) mod sql {
        VERSION = (claims!("v.version = $2 LIMIT $3"));
        VERSIONS = (claims!("v.version >= $2 AND (v.version > $2 OR t.org_repo_name > $3) \
                             ORDER BY v.version, t.org_repo_name LIMIT $4"));
        AT_COMMIT = (claims!("v.commit_oid = $2 LIMIT $3"));
        WHY = "SELECT why FROM repo_tags \
               WHERE org_repo_name = $1 AND tag_name = $2 AND why IS NOT NULL";
    }
}

/// Repositories that claim one version of one module at the same commit.
const MAX_CLAIMS: i64 = 100;
/// Rows read at a time.
const PAGE: i64 = 2_000;

type Row = (String, String, String, String, i64);

/// A live version, and a tag that claims it.
#[derive(Clone, Debug)]
pub(super) struct IndexedVersion {
    pub(super) version: Version,
    /// The name of the repository in the index.
    pub(super) repo: String,
    pub(super) tag: String,
    pub(super) commit: Oid,
    /// Who may see the repository.
    pub(super) audience: Audience,
}

impl IndexedVersion {
    /// None for a row that the index cannot have written.
    fn read((version, repo, tag, commit, audience): Row) -> Option<Self> {
        Some(Self {
            version: Version::parse(&version).ok()?,
            commit: commit.parse().ok()?,
            audience: audience.into(),
            repo,
            tag,
        })
    }
}

/// The tags that claim a live version.
pub(super) async fn version(
    db: &Db,
    path: &ModulePath,
    version: &Version,
) -> Result<Vec<IndexedVersion>, DbError> {
    claims(db, &sql::VERSION, path, version.as_str()).await
}

/// The live versions of a module at a commit.
pub(super) async fn at_commit(
    db: &Db,
    path: &ModulePath,
    commit: &Oid,
) -> Result<Vec<IndexedVersion>, DbError> {
    claims(db, &sql::AT_COMMIT, path, &commit.to_hex()).await
}

async fn claims(
    db: &Db,
    statement: &'static Statement,
    path: &ModulePath,
    named: &str,
) -> Result<Vec<IndexedVersion>, DbError> {
    let values = [path.as_str().into(), named.into(), MAX_CLAIMS.into()];
    let rows: Vec<Row> = db.fetch_all(statement, &values).await?;
    Ok(rows.into_iter().filter_map(IndexedVersion::read).collect())
}

/// Goes through all live versions of a module, a page at a time.
pub(super) struct Pages<'a> {
    db: &'a Db,
    path: &'a ModulePath,
    /// The last row seen; none after the last page.
    after: Option<(String, String)>,
}

impl<'a> Pages<'a> {
    pub(super) fn of(db: &'a Db, path: &'a ModulePath) -> Self {
        let after = Some((String::new(), String::new()));
        Self { db, path, after }
    }

    /// The next page; none after the last.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<IndexedVersion>>, DbError> {
        let Some((version, repo)) = self.after.take() else {
            return Ok(None);
        };
        let values = [
            self.path.as_str().into(),
            version.into(),
            repo.into(),
            PAGE.into(),
        ];
        let rows: Vec<Row> = self.db.fetch_all(&sql::VERSIONS, &values).await?;
        if rows.len() as i64 == PAGE {
            self.after = rows.last().map(|row| (row.0.clone(), row.1.clone()));
        }
        Ok(Some(
            rows.into_iter().filter_map(IndexedVersion::read).collect(),
        ))
    }
}

/// Why a tag claims no version, if the index has looked at it.
pub(super) async fn why(db: &Db, repo: &str, tag: &str) -> Result<Option<String>, DbError> {
    let values = [repo.into(), tag.into()];
    let row: Option<(String,)> = db.fetch_optional(&sql::WHY, &values).await?;
    Ok(row.map(|(why,)| why))
}
