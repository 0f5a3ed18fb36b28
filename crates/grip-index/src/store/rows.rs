//! Tag rows, and rows as columns.

use grip_db::Column;

/// A tag as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TagRow {
    pub(crate) tag_name: String,
    pub(crate) object_oid: String,
    pub(crate) commit_oid: String,
    pub(crate) created: Option<i64>,
    pub(crate) path: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) proven: i64,
    pub(crate) why: Option<String>,
    pub(crate) settled: i64,
}

grip_db::from_row!(TagRow {
    tag_name,
    object_oid,
    commit_oid,
    created,
    path,
    version,
    proven,
    why,
    settled,
});

impl TagRow {
    /// The version it claims.
    pub(crate) fn claim(&self) -> Option<(String, String)> {
        self.path.clone().zip(self.version.clone())
    }
}

/// One column of `rows`.
pub(super) fn texts<R>(rows: &[R], text: impl Fn(&R) -> &str) -> Column {
    Column::Texts(rows.iter().map(|row| text(row).to_owned()).collect())
}

pub(super) fn maybe_texts<R>(rows: &[R], text: impl Fn(&R) -> Option<&str>) -> Column {
    let each = rows.iter().map(|row| text(row).map(str::to_owned));
    Column::MaybeTexts(each.collect())
}

pub(super) fn ints<R>(rows: &[R], int: impl Fn(&R) -> i64) -> Column {
    Column::Ints(rows.iter().map(int).collect())
}

pub(super) fn tag_columns(rows: &[TagRow]) -> [Column; 9] {
    [
        texts(rows, |row| &row.tag_name),
        texts(rows, |row| &row.object_oid),
        texts(rows, |row| &row.commit_oid),
        Column::MaybeInts(rows.iter().map(|row| row.created).collect()),
        maybe_texts(rows, |row| row.path.as_deref()),
        maybe_texts(rows, |row| row.version.as_deref()),
        ints(rows, |row| row.proven),
        maybe_texts(rows, |row| row.why.as_deref()),
        ints(rows, |row| row.settled),
    ]
}

/// Pairs such as a path and a version.
pub(super) fn pair_columns(pairs: &[(String, String)]) -> [Column; 2] {
    [texts(pairs, |pair| &pair.0), texts(pairs, |pair| &pair.1)]
}
