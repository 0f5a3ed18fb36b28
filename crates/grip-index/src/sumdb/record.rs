//! Records of the log, as go.sum has them.

use grip_tlog::{Hash, record_hash};

/// The sums of one version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sums {
    /// Of its zip.
    pub zip: String,
    pub go_mod: String,
}

/// A version that is to be logged.
#[derive(Clone, Debug)]
pub(crate) struct NewRecord {
    pub(crate) path: String,
    pub(crate) version: String,
    pub(crate) sums: Sums,
    pub(crate) repo: String,
    pub(crate) tag: Option<String>,
    pub(crate) commit: String,
}

/// A version that is logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    pub id: i64,
    pub path: String,
    pub version: String,
    pub zip_sum: String,
    pub go_mod_sum: String,
    /// The repository whose files these are the sums of, by its name in the index.
    pub repo: String,
    /// The tag there; none for a pseudo-version.
    pub tag: Option<String>,
    pub commit: String,
}

grip_db::from_row!(Record {
    id,
    path,
    version,
    zip_sum,
    go_mod_sum,
    repo: "org_repo_name",
    tag: "tag_name",
    commit: "commit_oid",
});

impl Record {
    /// The text that the log consists of: two lines of go.sum.
    pub fn text(&self) -> String {
        let Self { path, version, .. } = self;
        let (zip, go_mod) = (&self.zip_sum, &self.go_mod_sum);
        format!("{path} {version} {zip}\n{path} {version}/go.mod {go_mod}\n")
    }

    pub(super) fn hash(&self) -> Hash {
        record_hash(self.text().as_bytes())
    }

    /// The record with its number, as responses and tiles have it.
    pub(super) fn numbered(&self) -> String {
        format!("{}\n{}\n", self.id, self.text())
    }

    /// Whether these are its sums.
    pub(crate) fn has(&self, sums: &Sums) -> bool {
        self.zip_sum == sums.zip && self.go_mod_sum == sums.go_mod
    }
}
