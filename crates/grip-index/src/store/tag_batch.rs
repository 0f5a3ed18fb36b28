//! A batch of changed tags of a repository, written with its feed lines.

use std::{ops::Range, sync::Arc};

use grip_db::{Connection, DbError};

use super::{
    feed_update::{FeedUpdate, Fresh, Touched},
    publish::{AT_ONCE, Changed, Gone, Judged, Publication},
    rows::tag_columns,
    sql::sql,
};
use crate::claim_rules::Claim;

/// As many changed tags as are written at once. What is gone comes after what is new, so that a
/// version whose tag has another name now is moved and not removed.
pub(super) struct TagBatch {
    whole: Arc<Publication>,
    changed: Range<usize>,
    gone: Range<usize>,
}

impl TagBatch {
    /// All batches of a publication, one at least.
    pub(super) fn all(whole: Publication) -> Vec<Self> {
        let (changed, gone) = (whole.changed.len(), whole.gone.len());
        let whole = Arc::new(whole);
        let count = (changed + gone).div_ceil(AT_ONCE).max(1);
        let batch = |n: usize| {
            let (from, to) = (n * AT_ONCE, (n + 1) * AT_ONCE);
            let later = |at: usize| at.saturating_sub(changed).min(gone);
            Self {
                whole: Arc::clone(&whole),
                changed: from.min(changed)..to.min(changed),
                gone: later(from)..later(to),
            }
        };
        (0..count).map(batch).collect()
    }

    pub(super) fn whole(&self) -> &Publication {
        &self.whole
    }

    pub(super) fn repo(&self) -> &str {
        &self.whole.repo
    }

    fn changed(&self) -> &[Changed] {
        &self.whole.changed[self.changed.clone()]
    }

    fn gone(&self) -> &[Gone] {
        &self.whole.gone[self.gone.clone()]
    }

    /// How many more tags and claims there are.
    pub(super) fn more(&self) -> (i64, i64) {
        let (mut tags, mut claims) = (0, 0);
        for changed in self.changed() {
            tags += i64::from(changed.is_new);
            claims += i64::from(matches!(changed.judged, Judged::Version { .. }));
            claims -= i64::from(changed.before.is_some());
        }
        for gone in self.gone() {
            tags -= 1;
            claims -= i64::from(gone.before.is_some());
        }
        (tags, claims)
    }

    /// The versions whose claims have changed.
    fn touched(&self) -> Vec<Touched> {
        let changed = self.changed().iter();
        let before = changed.filter_map(|changed| changed.before.as_ref());
        let gone = self.gone().iter().filter_map(|gone| gone.before.as_ref());
        let before = before.chain(gone).map(|pair| Touched {
            pair: pair.clone(),
            fresh: None,
        });
        let now = self.changed().iter().enumerate();
        let now = now.filter_map(|(at, changed)| match &changed.judged {
            Judged::Version { path, version, .. } => Some(Touched {
                pair: (path.to_string(), version.clone()),
                fresh: Some(at),
            }),
            _ => None,
        });
        before.chain(now).collect()
    }

    /// Writes its tags, and brings the feed up to date with them.
    pub(super) async fn write(&self, db: &mut Connection<'_>, now: i64) -> Result<(), DbError> {
        let touched = self.touched();
        let mut feed = None;
        if !touched.is_empty() {
            feed = Some(FeedUpdate::lock(db, now).await?);
        }
        let claimed_ns = feed.as_ref().map_or(0, FeedUpdate::claimed_ns);
        let names: Vec<String> = self.gone().iter().map(|gone| gone.name.clone()).collect();
        if !names.is_empty() {
            let named = [self.repo().into(), names.into()];
            db.execute(&sql::DROP_TAGS, &named).await?;
        }
        let seen = &self.whole.seen;
        let rows = self.changed().iter();
        let rows: Vec<_> = rows
            .map(|changed| seen[changed.at].row(&changed.judged))
            .collect();
        if !rows.is_empty() {
            let rest = [self.repo().into(), claimed_ns.into()];
            db.execute_rows(&sql::PUT_TAGS, &tag_columns(&rows), &rest)
                .await?;
        }
        match feed {
            Some(feed) => feed.apply_claims(db, touched, self).await,
            None => Ok(()),
        }
    }
}

impl Fresh for TagBatch {
    fn claim(&self, at: usize, claimed_ns: i64) -> Claim {
        let changed = &self.changed()[at];
        let row = self.whole.seen[changed.at].row(&changed.judged);
        Claim {
            path: row.path.unwrap_or_default(),
            version: row.version.unwrap_or_default(),
            org_repo_name: self.whole.repo.clone(),
            tag_name: row.tag_name,
            commit_oid: row.commit_oid,
            created: row.created.unwrap_or_default(),
            proven: row.proven,
            claimed_ns,
            audience: self.whole.audience.number(),
        }
    }
}
